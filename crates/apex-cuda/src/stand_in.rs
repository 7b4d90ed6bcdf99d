//! The exports of a library that stands in for one of NVIDIA's.

/// Exports a jump for each name to what answers it.
///
/// `stand_in_exports! { DEFAULT; NAMES }` exports every name. One that the caller's `crate::answers` has is answered
/// there, all others by `DEFAULT`, a function that looks at no argument. `is_answered` tells which, in tests.
#[allow(clippy::crate_in_macro_def, reason = "the answers are those of the library that is made")]
#[macro_export]
macro_rules! stand_in_exports {
    ($default:ident; $($name:ident)*) => {
        /// The address of a function; what it takes, only its caller knows.
        #[repr(transparent)]
        struct Address(*const core::ffi::c_void);

        // SAFETY: the address of a function, which any thread may call.
        unsafe impl Sync for Address {}

        /// The place of each function in the table.
        #[allow(dead_code, reason = "a test binary exports nothing")]
        enum Place {
            $($name,)*
        }

        mod default {
            #![allow(unused_imports, reason = "the names of answered functions are hidden")]
            $(pub(super) use super::$default as $name;)*
        }

        static ANSWERS: &[Address] = {
            use default::*;
            {
                // The inner scope hides the defaults of the same name.
                #[allow(unused_imports, reason = "the module may hold more")]
                use crate::answers::*;
                &[$(Address($name as *const core::ffi::c_void),)*]
            }
        };

        $(
            #[cfg(not(test))]
            const _: () = {
                #[unsafe(naked)]
                #[unsafe(export_name = stringify!($name))]
                unsafe extern "C" fn export() {
                    core::arch::naked_asm!(
                        "mov rax, [rip + {answers}]",
                        "jmp [rax + {offset}]",
                        answers = sym ANSWERS,
                        offset = const 8 * Place::$name as usize,
                    )
                }
            };
        )*

        /// All names.
        #[cfg(test)]
        pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),*];

        /// Whether a name is answered by more than the default.
        #[cfg(test)]
        pub(crate) fn is_answered(name: &str) -> bool {
            let place = NAMES.iter().position(|known| *known == name).expect("a name of the table");
            ANSWERS[place].0 != $default as *const core::ffi::c_void
        }
    };
}
