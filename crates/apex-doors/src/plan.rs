//! Decides what becomes of the runtime in a file: every function of it gets another one, or none does.
//!
//! Which of our two libraries takes over is told by the names: CUDA 13 has dropped functions that CUDA 12 had. A
//! function that our library lacks came with a later CUDA; it then answers that it is not supported, by its name,
//! because NVIDIA's own could not work beside our others.

use crate::symbols::Function;

/// What both of our libraries export, from the lists that they are linked by.
const EXPORTS: [(u32, &str); 2] = [
    (12, include_str!("../../apex-cudart/link/libcudart.so.12.exports")),
    (13, include_str!("../../apex-cudart/link/libcudart.so.13.exports")),
];

/// Functions that a runtime with fewer does not come without.
const CORE: [&str; 4] =
    ["__cudaRegisterFatBinary", "__cudaRegisterFunction", "cudaGetDeviceCount", "cudaMalloc"];
/// What CUDA 12 has and CUDA 13 has not.
const DROPPED_BY_13: &str = "cudaThreadSynchronize";
/// What CUDA 11 has and CUDA 12 has not.
const DROPPED_BY_12: &str = "cudaBindTexture";

/// What is done with a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan<'a> {
    /// There is no runtime in it.
    Nothing,
    /// Its functions go to those of our library of this version.
    Replace {
        /// The version of our library.
        major: u32,
        /// Each function, and whether our library has one of its name.
        doors: Vec<(&'a Function, bool)>,
    },
    /// Nothing is touched; the reason completes "apex cannot replace NVIDIA's runtime in FILE: …".
    Refuse(&'static str),
}

/// Decides by what the file defines.
pub(crate) fn plan(functions: &[Function]) -> Plan<'_> {
    let has = |name: &str| functions.iter().any(|function| function.name == name);
    if !CORE.iter().all(|name| has(name)) {
        return Plan::Nothing;
    }
    if has(DROPPED_BY_12) {
        return Plan::Refuse("it is older than CUDA 12");
    }
    let major = if has(DROPPED_BY_13) { 12 } else { 13 };
    let doors = functions.iter().map(|function| (function, is_exported(major, &function.name)));
    let doors: Vec<_> = of_one_stretch(doors.collect());
    // Two names of one function too: which of them is meant cannot be told.
    let overlap = doors
        .windows(2)
        .any(|pair| pair[0].0.address.saturating_add(pair[0].0.bytes) > pair[1].0.address);
    if overlap { Plan::Refuse("its functions overlap") } else { Plan::Replace { major, doors } }
}

/// Without what a program itself calls by a name of the runtime's kind: the runtime is one stretch of code, from its
/// first function that we know to its last.
fn of_one_stretch(doors: Vec<(&Function, bool)>) -> Vec<(&Function, bool)> {
    let known = || doors.iter().filter(|door| door.1).map(|door| door.0.address);
    let (Some(first), Some(last)) = (known().min(), known().max()) else { return Vec::new() };
    doors.into_iter().filter(|door| (first..=last).contains(&door.0.address)).collect()
}

fn is_exported(major: u32, name: &str) -> bool {
    let lists = EXPORTS.iter().filter(|list| list.0 == major);
    lists.flat_map(|list| list.1.lines()).any(|line| line.split(" = ").next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions(names: &[&str]) -> Vec<Function> {
        let at = |(nth, name): (usize, &&str)| Function {
            name: (*name).to_owned(),
            address: 0x100 + 0x40 * nth as u64,
            bytes: 0x40,
        };
        CORE.iter().chain(names).enumerate().map(at).collect()
    }

    #[test]
    fn the_version_is_told_by_what_13_dropped() {
        for (names, expected) in [(&["cudaFree"][..], 13), (&[DROPPED_BY_13], 12)] {
            let functions = functions(names);
            let Plan::Replace { major, doors } = plan(&functions) else { panic!("{names:?}") };
            assert_eq!((major, doors.len()), (expected, functions.len()));
            assert!(doors.iter().all(|door| door.1));
        }
    }

    #[test]
    fn both_lists_tell_the_versions_apart() {
        assert!(is_exported(12, DROPPED_BY_13) && !is_exported(13, DROPPED_BY_13));
        for major in [12, 13] {
            assert!(!is_exported(major, DROPPED_BY_12));
            assert!(CORE.iter().all(|name| is_exported(major, name)));
        }
    }

    #[test]
    fn a_function_of_a_later_cuda_is_taken_too() {
        let functions = functions(&["cudaOfTomorrow", "cudaFree"]);
        let Plan::Replace { doors, .. } = plan(&functions) else { panic!("not replaced") };
        let unknown: Vec<&str> =
            doors.iter().filter(|door| !door.1).map(|door| &*door.0.name).collect();
        assert_eq!(unknown, ["cudaOfTomorrow"]);
    }

    #[test]
    fn what_the_program_calls_so_itself_is_left() {
        let mut functions = functions(&["cudaFree"]);
        functions.push(Function { name: "cudaCheckMine".into(), address: 0x9000, bytes: 8 });
        let Plan::Replace { doors, .. } = plan(&functions) else { panic!("not replaced") };
        assert_eq!(doors.len(), functions.len() - 1);
    }

    #[test]
    fn what_is_no_runtime_or_an_old_one_is_left() {
        assert_eq!(plan(&functions(&[])[1..]), Plan::Nothing);
        assert!(matches!(plan(&functions(&[DROPPED_BY_12])), Plan::Refuse(_)));
        let mut overlapping = functions(&["cudaFree"]);
        overlapping[0].bytes = 0x41;
        assert!(matches!(plan(&overlapping), Plan::Refuse(_)));
    }
}
