//! What a kernel takes: read from its PTX, checked against what it is given.
//!
//! The driver knows sizes and no types; PTX, where there is some, also says whether a number is floating-point
//! and which parameters are pointers. A type that PTX leaves open (`.b32`, bytes, a 64-bit number that older
//! compilers use for pointers) fits everything of its size.

use crate::element::Class;
use apex_ptx::tree::{FunctionKind, Item, Module, Type, Variable};

/// One parameter, as PTX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) bytes: u32,
    pub(crate) kind: ParameterKind,
}

/// What is known of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// Nothing but its size.
    Open,
    /// A whole number.
    Integer,
    /// A floating-point number.
    Float,
    /// A pointer to memory.
    Pointer,
}

impl ParameterKind {
    /// What it is called in a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ParameterKind::Open => "bytes",
            ParameterKind::Integer => "a whole number",
            ParameterKind::Float => "a floating-point number",
            ParameterKind::Pointer => "a pointer",
        }
    }

    /// Whether an argument of that class can stand for it.
    #[inline]
    pub(crate) fn takes(self, class: Class) -> bool {
        match (self, class) {
            (ParameterKind::Open, _) | (_, Class::Bytes) => true,
            // Compilers before 12.5 declare a pointer as a plain 64-bit number.
            (ParameterKind::Integer, Class::Integer | Class::Pointer) => true,
            (ParameterKind::Float, Class::Float) | (ParameterKind::Pointer, Class::Pointer) => true,
            _ => false,
        }
    }
}

/// What a module's kernels take, in the order of the text.
pub(crate) fn declared(module: &Module) -> Vec<(String, Vec<Declared>)> {
    let functions = module.items.iter().filter_map(|item| match item {
        Item::Function(function) => Some(function),
        _ => None,
    });
    functions
        .filter(|function| function.kind == FunctionKind::Entry && function.body.is_some())
        .map(|function| {
            (function.name.to_string(), function.params.iter().map(parameter).collect())
        })
        .collect()
}

fn parameter(variable: &Variable) -> Declared {
    let bytes = variable.bytes().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(u32::MAX);
    let kind = if variable.pointer.is_some() {
        ParameterKind::Pointer
    } else if !variable.dims.is_empty() || variable.vector.is_some() {
        ParameterKind::Open
    } else {
        kind_of(variable.ty)
    };
    Declared { bytes, kind }
}

fn kind_of(ty: Type) -> ParameterKind {
    match ty {
        Type::F32 | Type::F64 => ParameterKind::Float,
        Type::U8 | Type::U16 | Type::U32 | Type::U64 => ParameterKind::Integer,
        Type::S8 | Type::S16 | Type::S32 | Type::S64 => ParameterKind::Integer,
        _ => ParameterKind::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parameters: &str) -> Vec<Declared> {
        let text = format!(
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f({parameters}) {{ ret; }}"
        );
        let mut kernels = declared(&apex_ptx::parse(&text).unwrap());
        kernels.remove(0).1
    }

    #[test]
    fn types_and_sizes_are_read() {
        let found = of(".param .u64 .ptr .global .align 4 a, .param .f32 b, .param .u64 c, \
                        .param .align 2 .b8 d[6], .param .b32 e");
        let kinds: Vec<(u32, ParameterKind)> =
            found.iter().map(|declared| (declared.bytes, declared.kind)).collect();
        use ParameterKind::*;
        assert_eq!(kinds, [(8, Pointer), (4, Float), (8, Integer), (6, Open), (4, Open)]);
    }

    #[test]
    fn what_fits_what() {
        use ParameterKind::*;
        for (kind, class, fits) in [
            (Open, Class::Float, true),
            (Integer, Class::Float, false),
            (Integer, Class::Pointer, true),
            (Float, Class::Integer, false),
            (Float, Class::Float, true),
            (Pointer, Class::Integer, false),
            (Pointer, Class::Pointer, true),
            (Float, Class::Bytes, true),
        ] {
            assert_eq!(kind.takes(class), fits, "{kind:?} {class:?}");
        }
    }
}
