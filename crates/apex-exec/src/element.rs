//! What a buffer can be made of and a scalar argument can be.
//!
//! The list is closed: each type has the same bits on the device as in Rust, any bits are a value of it, and
//! its size is that of the type of the same name in CUDA.

use half::{bf16, f16};

/// A number that the device has too.
///
/// ```
/// use apex_exec::Element;
///
/// assert_eq!(<f32 as Element>::NAME, "f32");
/// assert_eq!(<half::bf16 as Element>::NAME, "bf16");
/// ```
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// Its name, as Rust writes it.
    const NAME: &'static str;
    /// What it is to a kernel's parameter.
    #[doc(hidden)]
    const CLASS: Class;
}

/// What an argument is, as far as a PTX parameter tells.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A whole number.
    Integer,
    /// A floating-point number that PTX has a parameter type for.
    Float,
    /// A device address.
    Pointer,
    /// Bytes that PTX passes without a type: 16-bit floats and arrays.
    Bytes,
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($type:ty, $name:literal, $class:ident;)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl Element for $type {
                const NAME: &'static str = $name;
                const CLASS: Class = Class::$class;
            }
        )*
    };
}

elements! {
    f32, "f32", Float;
    f64, "f64", Float;
    f16, "f16", Bytes;
    bf16, "bf16", Bytes;
    i8, "i8", Integer;
    i16, "i16", Integer;
    i32, "i32", Integer;
    i64, "i64", Integer;
    u8, "u8", Integer;
    u16, "u16", Integer;
    u32, "u32", Integer;
    u64, "u64", Integer;
}
