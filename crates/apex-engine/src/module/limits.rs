//! Numbers of a text that no device has room for, refused in the words of ptxas.
//!
//! Sizes come from the text and go into offsets, allocations and launches; whoever uses one may
//! rely on what is checked here. Local and shared memory are bounded where they are laid out,
//! because only variables that are used count.

use super::{LoadError, LoadErrorKind};
use apex_ptx::tree::{Directive, Function, FunctionKind, Item, Linkage, Module, Space, Variable};

/// Bytes of all parameters of a kernel, and what they are from PTX 8.1 and sm_70 on.
const PARAMETER_BYTES: u64 = 4352;
const LARGE_PARAMETER_BYTES: u64 = 32_764;
/// Bytes of all constant variables of a module.
const CONSTANT_BYTES: u64 = 64 << 10;
/// The architectures that PTX names. Three digits above the last are taken for one to come.
const ARCHITECTURES: [u32; 32] = [
    10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89,
    90, 100, 101, 103, 107, 110, 120, 121,
];

/// Refuses a text with a number that is out of range.
pub(super) fn check(module: &Module) -> Result<(), LoadError> {
    let Some(architecture) = architecture(module) else {
        let name = module.target.first().map_or("", |name| name);
        return Err(LoadError {
            kind: LoadErrorKind::InvalidPtx,
            log: format!(
                "ptxas application ptx input, line 2; fatal   : Unsupported .target '{name}'\n"
            ),
        });
    };
    let large = module.version >= (8, 1) && architecture >= 70;
    let most = if large { LARGE_PARAMETER_BYTES } else { PARAMETER_BYTES };
    let mut constant = 0_u64;
    for item in &module.items {
        match item {
            Item::Function(function) => check_function(function, most)?,
            Item::Variable(variable)
                if variable.space == Space::Const && variable.linkage != Linkage::Extern =>
            {
                constant = after(constant, variable);
            }
            _ => {}
        }
    }
    if constant > CONSTANT_BYTES {
        return Err(LoadError {
            kind: LoadErrorKind::InvalidPtx,
            log: format!(
                "ptxas error   : File uses too much global constant data ({constant:#x} bytes, \
                 {CONSTANT_BYTES:#x} max)\n"
            ),
        });
    }
    Ok(())
}

/// The number in `.pragma "maxrregcount N";`, outside all functions.
pub(super) fn registers(module: &Module) -> Option<u32> {
    module.items.iter().rev().find_map(|item| {
        let Item::Verbatim(verbatim) = item else { return None };
        let words = verbatim.text.strip_prefix(".pragma")?.trim_start().strip_prefix('"')?;
        words.strip_prefix("maxrregcount ")?.split_once('"')?.0.parse().ok()
    })
}

/// `sm_90a` and `compute_90` are 90.
pub(super) fn architecture(module: &Module) -> Option<u32> {
    let name = module.target.first()?;
    let number = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"))?;
    let number: u32 = number.strip_suffix(['a', 'f']).unwrap_or(number).parse().ok()?;
    let newest = ARCHITECTURES.last().copied().unwrap_or_default();
    (ARCHITECTURES.contains(&number) || (newest..1000).contains(&number)).then_some(number)
}

fn check_function(function: &Function, most: u64) -> Result<(), LoadError> {
    for directive in &function.directives {
        let (word, zero) = match directive {
            Directive::MaxNtid(shape) => ("maxntid", shape.contains(&0)),
            Directive::ReqNtid(shape) => ("reqntid", shape.contains(&0)),
            Directive::MinNctaPerSm(number) => ("minnctapersm", *number == 0),
            Directive::MaxNreg(number) => ("maxnreg", *number == 0),
            _ => continue,
        };
        if zero {
            let message = format!("Positive non-zero value expected for {word}");
            return Err(error(function.line, &message));
        }
    }
    if function.kind != FunctionKind::Entry || function.body.is_none() {
        return Ok(());
    }
    let bytes = function.params.iter().fold(0, after);
    if bytes > most {
        let name = &function.name;
        let message = format!(
            "Entry function '{name}' uses too much parameter space ({bytes:#x} bytes, {most:#x} max)."
        );
        return Err(error(function.line, &message));
    }
    Ok(())
}

/// Where a variable ends that is placed behind `end`; beyond 64 bits it ends with them.
fn after(end: u64, variable: &Variable) -> u64 {
    let start = end.checked_next_multiple_of(variable.alignment().max(1)).unwrap_or(u64::MAX);
    start.saturating_add(variable.bytes().unwrap_or(u64::MAX))
}

fn error(line: u32, message: &str) -> LoadError {
    LoadError {
        kind: LoadErrorKind::InvalidPtx,
        log: format!(
            "ptxas application ptx input, line {line}; error   : {message}\n\
             ptxas fatal   : Ptx assembly aborted due to errors\n"
        ),
    }
}
