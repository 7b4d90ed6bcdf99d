//! Textures and surfaces.
//!
//! A handle is the address of a descriptor. A texture reference of the module is a variable that
//! holds one.

use super::Translator;
use super::memory::ATOM_OPS;
use super::scope::Entity;
use crate::code::{Address, Class, Geometry, Inst, Order, Space, Src, SurfaceClamp, Texture};
use crate::code::{TextureOp, TextureQuery, Ty};
use crate::lower::program::Home;
use crate::lower::words::Words;
use crate::lower::{Outcome, refuse};
use apex_ptx::tree::{AddressBase, Instruction, Operand};

/// Geometries with the number of coordinates (the layer among them) and of dimensions.
const GEOMETRIES: [(&str, (Geometry, usize, usize)); 7] = [
    ("1d", (Geometry::D1, 1, 1)),
    ("2d", (Geometry::D2, 2, 2)),
    ("3d", (Geometry::D3, 3, 3)),
    ("a1d", (Geometry::A1d, 2, 1)),
    ("a2d", (Geometry::A2d, 3, 2)),
    ("cube", (Geometry::Cube, 3, 3)),
    ("acube", (Geometry::Acube, 4, 3)),
];

const QUERIES: [(&str, TextureQuery); 10] = [
    ("width", TextureQuery::Width),
    ("height", TextureQuery::Height),
    ("depth", TextureQuery::Depth),
    ("channel_data_type", TextureQuery::ChannelDataType),
    ("channel_order", TextureQuery::ChannelOrder),
    ("normalized_coords", TextureQuery::NormalizedCoords),
    ("force_unnormalized_coords", TextureQuery::NormalizedCoords),
    ("array_size", TextureQuery::ArraySize),
    ("num_mipmap_levels", TextureQuery::NumMipmapLevels),
    ("num_samples", TextureQuery::NumSamples),
];

/// The parts between the brackets: handle, sampler, coordinates.
type Bracket = (Src, Option<Src>, Vec<Operand>);

impl Translator<'_, '_> {
    /// `tex`, `tld4`, `txq`, `suld`, `sust`, `sured`, `suq`.
    pub(super) fn texture(&mut self, it: &Instruction) -> Outcome {
        match &*it.opcode {
            "tex" | "tld4" => self.sample(it),
            "txq" | "suq" => self.query(it),
            _ => self.surface(it),
        }
    }

    fn sample(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let mut op = words.pick(&[
            ("level", TextureOp::SampleLevel),
            ("grad", TextureOp::SampleGrad),
            ("base", TextureOp::Sample),
        ]);
        let component = words.pick(&[("r", 0), ("g", 1), ("b", 2), ("a", 3)]);
        if &*it.opcode == "tld4" {
            op = Some(TextureOp::Gather);
        }
        let Some((geometry, count, dimensions)) = words.pick(&GEOMETRIES) else {
            return refuse("has no geometry that is known here");
        };
        let vector = words.vector();
        let types = words.types();
        words.finish()?;
        let (&[ty, coordinate], [to, memory, rest @ ..]) = (&types[..], it.operands.as_slice())
        else {
            return refuse("has other types or operands than known");
        };
        if vector != 4 || ty.bits() != 32 || ty == Ty::F16x2 {
            return refuse("only results of four 32-bit values are known here");
        }
        let (to, resident) = match to {
            Operand::Pair(to, flag) => (&**to, self.write_predicate(flag)?),
            to => (to, None),
        };
        let (handle, sampler, coordinates) = self.bracket(memory)?;
        let coordinates = self.values(&coordinates, count, coordinate)?;
        let op = op.unwrap_or(TextureOp::Sample);
        let extra = match (op, rest) {
            (TextureOp::Sample, []) => Vec::new(),
            (TextureOp::SampleLevel, [level]) => vec![self.read(level, coordinate)?],
            (TextureOp::SampleGrad, [x, y]) => {
                let (x, y) = (self.parts(x), self.parts(y));
                let mut all = self.values(&x, dimensions, coordinate)?;
                all.extend(self.values(&y, dimensions, coordinate)?);
                all
            }
            (TextureOp::Gather, []) => vec![Src::Imm(component.unwrap_or(0))],
            _ => return refuse("offsets and depth comparison are not known here"),
        };
        let parts = self.parts(to);
        let dsts = parts.iter().map(|part| self.write_optional(part, ty));
        let dsts = dsts.collect::<Outcome<Vec<_>>>()?;
        self.emit(Inst::Texture(Box::new(Texture {
            op,
            geometry,
            ty,
            coordinate,
            handle,
            sampler,
            coordinates,
            extra,
            dsts,
            srcs: Vec::new(),
            clamp: SurfaceClamp::default(),
        })));
        if let Some(dst) = resident {
            self.emit(Inst::PredSet { dst, value: true });
        }
        Ok(())
    }

    fn query(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let level = words.take("level");
        let query = words.pick(&QUERIES);
        words.types();
        words.finish()?;
        let (Some(query), [to, memory, rest @ ..]) = (query, it.operands.as_slice()) else {
            return refuse("asks what is not known here");
        };
        let (handle, _, _) = self.bracket(memory)?;
        let extra = match (level, rest) {
            (true, [level]) => vec![self.read(level, Ty::S32)?],
            (false, []) => Vec::new(),
            _ => return refuse("has other operands than known"),
        };
        let dsts = vec![self.write_optional(to, Ty::B32)?];
        self.emit(Inst::Texture(Box::new(Texture {
            op: TextureOp::Query(query),
            geometry: Geometry::D2,
            ty: Ty::B32,
            coordinate: Ty::S32,
            handle,
            sampler: None,
            coordinates: Vec::new(),
            extra,
            dsts,
            srcs: Vec::new(),
            clamp: SurfaceClamp::default(),
        })));
        Ok(())
    }

    fn surface(&mut self, it: &Instruction) -> Outcome {
        let mut words = Words::of(it);
        let formatted = words.pick(&[("b", false), ("p", true)]).unwrap_or(false);
        words.order();
        let reduction = words.pick(&ATOM_OPS);
        let Some((geometry, count, _)) = words.pick(&GEOMETRIES) else {
            return refuse("has no geometry that is known here");
        };
        let vector = words.vector();
        let clamp = words.pick(&[
            ("trap", SurfaceClamp::Trap),
            ("clamp", SurfaceClamp::Clamp),
            ("zero", SurfaceClamp::Zero),
        ]);
        let ty = words.ty()?;
        words.finish()?;
        let [first, second] = it.operands.as_slice() else {
            return refuse("takes two operands");
        };
        let load = &*it.opcode == "suld";
        let (memory, values) = if load { (second, first) } else { (first, second) };
        let op = match (&*it.opcode, formatted, reduction) {
            ("suld", false, None) => TextureOp::SurfaceLoad,
            ("sust", false, None) => TextureOp::SurfaceStore,
            ("sust", true, None) => TextureOp::SurfaceStoreFormatted,
            ("sured", false, Some(op)) => TextureOp::SurfaceReduce(op),
            _ => return refuse("has other words than known"),
        };
        let (handle, _, coordinates) = self.bracket(memory)?;
        let coordinates = self.values(&coordinates, count, Ty::S32)?;
        let values = self.parts(values);
        if values.len() != vector {
            return refuse("the value has another length than the vector");
        }
        let (mut dsts, mut srcs) = (Vec::new(), Vec::new());
        for value in &values {
            if load {
                dsts.push(self.write_optional(value, ty)?);
            } else {
                srcs.push(self.read_low(value, ty)?);
            }
        }
        self.emit(Inst::Texture(Box::new(Texture {
            op,
            geometry,
            ty,
            coordinate: Ty::S32,
            handle,
            sampler: None,
            coordinates,
            extra: Vec::new(),
            dsts,
            srcs,
            clamp: clamp.unwrap_or_default(),
        })));
        Ok(())
    }

    /// The first coordinates of a list; hardware wants it filled up, and nobody reads the rest.
    fn values(&mut self, parts: &[Operand], count: usize, ty: Ty) -> Outcome<Vec<Src>> {
        if parts.len() < count {
            return refuse("has too few coordinates");
        }
        parts.iter().take(count).map(|part| self.read(&named(part), ty)).collect()
    }

    /// `[texture, sampler, {coordinates}]` or `[texture]`.
    fn bracket(&mut self, operand: &Operand) -> Outcome<Bracket> {
        match operand {
            Operand::AddressList(parts) => match parts.as_slice() {
                [texture, coordinates] => {
                    let handle = self.handle(texture)?;
                    Ok((handle, None, self.parts(&named(coordinates))))
                }
                [texture, sampler, coordinates] => {
                    let handle = self.handle(texture)?;
                    let sampler = self.handle(sampler)?;
                    Ok((handle, Some(sampler), self.parts(&named(coordinates))))
                }
                _ => refuse("has other parts in its brackets than known"),
            },
            _ => Ok((self.handle(operand)?, None, Vec::new())),
        }
    }

    fn handle(&mut self, operand: &Operand) -> Outcome<Src> {
        let Operand::Name(name) = named(operand) else {
            return refuse("a texture is neither a register nor a variable");
        };
        let (space, base) = match self.find(&name) {
            Some(Entity::Variable(variable)) => match self.program.home(variable) {
                Home::Memory(address) => (Space::Global, address),
                _ => return refuse(format!("{name} is not defined")),
            },
            Some(Entity::KernelParam(offset)) => (Space::Param, u64::from(offset)),
            _ => return self.read(&Operand::Name(name), Ty::B64),
        };
        let dst = self.temporary(Class::B64);
        let address = Address { base: Src::Imm(base), offset: 0 };
        let (ty, order) = (Ty::B64, Order::Weak);
        self.emit_free(Inst::Load { space, ty, order, dsts: vec![Some(dst)], address });
        Ok(Src::Reg(dst))
    }
}

/// A name in brackets is the name itself here.
fn named(operand: &Operand) -> Operand {
    match operand {
        Operand::Address { base: AddressBase::Name(name), offset: 0 } => {
            Operand::Name(name.clone())
        }
        other => other.clone(),
    }
}
