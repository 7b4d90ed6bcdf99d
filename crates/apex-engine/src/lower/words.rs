//! The words of an opcode, taken one by one.
//!
//! PTX has grown for so long that the order of modifiers differs between dialects
//! (`vote.sync.ballot` and `vote.ballot.sync`), so words are looked for, not counted.
//! Every word must be taken by somebody: one that is left over means the instruction is not
//! understood, and it is refused rather than executed without it.

use super::{Outcome, refuse};
use crate::code::{Compare, Order, Rounding, Space, Ty};
use apex_ptx::tree::Instruction;

/// The modifiers of one instruction, in order, each with whether it has been taken.
pub(super) struct Words<'a> {
    words: Vec<(&'a str, bool)>,
}

impl<'a> Words<'a> {
    /// All words of the instruction, none of them taken.
    pub(super) fn of(instruction: &'a Instruction) -> Words<'a> {
        Words { words: instruction.modifiers.iter().map(|word| (&**word, false)).collect() }
    }

    /// Takes this word, if it is there.
    pub(super) fn take(&mut self, wanted: &str) -> bool {
        self.take_if(|word| (word == wanted).then_some(())).is_some()
    }

    /// Takes the first word of the table that is there.
    pub(super) fn pick<T: Copy>(&mut self, table: &[(&str, T)]) -> Option<T> {
        self.take_if(|word| table.iter().find(|(known, _)| *known == word).map(|(_, value)| *value))
    }

    /// Takes the first word that the function makes something of.
    pub(super) fn take_if<T>(&mut self, mut read: impl FnMut(&'a str) -> Option<T>) -> Option<T> {
        self.words.iter_mut().filter(|(_, taken)| !taken).find_map(|(word, taken)| {
            let value = read(word)?;
            *taken = true;
            Some(value)
        })
    }

    /// Takes all words of the list.
    pub(super) fn drop_all(&mut self, unneeded: &[&str]) {
        for (word, taken) in &mut self.words {
            *taken |= unneeded.contains(word);
        }
    }

    /// Takes all types, in order.
    pub(super) fn types(&mut self) -> Vec<Ty> {
        let mut types = Vec::new();
        while let Some(ty) = self.take_if(type_of_word) {
            types.push(ty);
        }
        types
    }

    /// Takes the one type there is.
    pub(super) fn ty(&mut self) -> Outcome<Ty> {
        match self.take_if(type_of_word) {
            Some(ty) => Ok(ty),
            None => refuse("has no type"),
        }
    }

    /// Takes the rounding, to nearest even where none is named.
    pub(super) fn rounding(&mut self) -> Option<Rounding> {
        self.pick(&ROUNDINGS)
    }

    /// Takes `.v2`, `.v4`, `.v8`.
    pub(super) fn vector(&mut self) -> usize {
        self.pick(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1)
    }

    /// Takes the state space; generic where none is named.
    pub(super) fn space(&mut self) -> Option<Space> {
        self.pick(&SPACES)
    }

    /// Takes everything that says how an access is ordered, seen and cached.
    ///
    /// Scopes and caches make no difference where all cores share one coherent memory.
    pub(super) fn order(&mut self) -> Option<Order> {
        self.drop_all(&["cta", "cluster", "gpu", "sys", "gl"]);
        self.drop_all(&["ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "weak"]);
        while self.take_if(|word| word.starts_with("L1::").then_some(())).is_some() {}
        while self.take_if(|word| word.starts_with("L2::").then_some(())).is_some() {}
        self.take("mmio");
        self.pick(&ORDERS)
    }

    /// Refuses what nobody has taken.
    pub(super) fn finish(&self) -> Outcome {
        match self.words.iter().find(|(_, taken)| !taken) {
            Some((word, _)) => refuse(format!("modifier .{word} is not known here")),
            None => Ok(()),
        }
    }
}

const ROUNDINGS: [(&str, Rounding); 10] = [
    ("rn", Rounding::Rn),
    ("rz", Rounding::Rz),
    ("rm", Rounding::Rm),
    ("rp", Rounding::Rp),
    ("rna", Rounding::Rna),
    ("rs", Rounding::Rs),
    ("rni", Rounding::Rni),
    ("rzi", Rounding::Rzi),
    ("rmi", Rounding::Rmi),
    ("rpi", Rounding::Rpi),
];

/// Constant variables lie in host memory, as global ones do.
const SPACES: [(&str, Space); 10] = [
    ("global", Space::Global),
    ("const", Space::Global),
    ("shared", Space::Shared),
    ("shared::cta", Space::Shared),
    ("shared::cluster", Space::Shared),
    ("local", Space::Local),
    ("param", Space::Param),
    ("param::entry", Space::Param),
    ("param::func", Space::Param),
    ("generic", Space::Generic),
];

const ORDERS: [(&str, Order); 7] = [
    ("volatile", Order::Relaxed),
    ("relaxed", Order::Relaxed),
    ("acquire", Order::Acquire),
    ("release", Order::Release),
    ("acq_rel", Order::AcqRel),
    ("seq_cst", Order::SeqCst),
    ("sc", Order::SeqCst),
];

/// Comparisons. `lo`, `ls`, `hi`, `hs` are the unsigned ones of integers.
pub(super) const COMPARES: [(&str, Compare); 18] = [
    ("eq", Compare::Eq),
    ("ne", Compare::Ne),
    ("lt", Compare::Lt),
    ("le", Compare::Le),
    ("gt", Compare::Gt),
    ("ge", Compare::Ge),
    ("lo", Compare::Lt),
    ("ls", Compare::Le),
    ("hi", Compare::Gt),
    ("hs", Compare::Ge),
    ("equ", Compare::Equ),
    ("neu", Compare::Neu),
    ("ltu", Compare::Ltu),
    ("leu", Compare::Leu),
    ("gtu", Compare::Gtu),
    ("geu", Compare::Geu),
    ("num", Compare::Num),
    ("nan", Compare::Nan),
];

/// The type of a PTX word.
pub(super) fn type_of_word(word: &str) -> Option<Ty> {
    Some(match word {
        "pred" => Ty::Pred,
        "b8" => Ty::B8,
        "b16" => Ty::B16,
        "b32" => Ty::B32,
        "b64" => Ty::B64,
        "b128" => Ty::B128,
        "u8" => Ty::U8,
        "u16" => Ty::U16,
        "u32" => Ty::U32,
        "u64" => Ty::U64,
        "s8" => Ty::S8,
        "s16" => Ty::S16,
        "s32" => Ty::S32,
        "s64" => Ty::S64,
        "f16" => Ty::F16,
        "f16x2" => Ty::F16x2,
        "bf16" => Ty::Bf16,
        "bf16x2" => Ty::Bf16x2,
        "f32" => Ty::F32,
        "f32x2" => Ty::F32x2,
        "f64" => Ty::F64,
        "u16x2" => Ty::U16x2,
        "s16x2" => Ty::S16x2,
        "tf32" => Ty::Tf32,
        "e4m3" => Ty::E4m3,
        "e5m2" => Ty::E5m2,
        "e4m3x2" => Ty::E4m3x2,
        "e5m2x2" => Ty::E5m2x2,
        "e2m3x2" => Ty::E2m3x2,
        "e3m2x2" => Ty::E3m2x2,
        "e2m1x2" => Ty::E2m1x2,
        "s2f6x2" => Ty::S2f6x2,
        "ue8m0x2" => Ty::Ue8m0x2,
        _ => return None,
    })
}
