//! A driver as a struct of function pointers: the one seam of apex.
//!
//! [`Driver`] has one field per row of the table, in table order, so the field of
//! [`Function`] number `i` lies at byte `8 * i`: forwarding code jumps through the
//! struct by number, typed code calls its fields by name. The real libcuda fills it
//! in use; a stand-in or a recorder fills it in tests. No field is ever null: who
//! fills the struct gives an answering function for what the driver lacks.

use core::ffi::CStr;
use core::mem::{offset_of, transmute};

use crate::driver_functions;
use crate::types::*;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// What a driver function is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Kind {
            $($(#[doc = $doc])* $name,)*
        }

        impl Kind {
            /// Every kind, in the order in which the table groups its rows.
            pub const ALL: &[Kind] = &[$(Kind::$name),*];

            /// The name of the kind as the table writes it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$name => stringify!($name),)*
                }
            }

            /// What the kind holds, in one line.
            pub fn about(self) -> &'static str {
                match self {
                    $(Kind::$name => concat!($($doc),*).trim_ascii_start(),)*
                }
            }
        }
    };
}

kinds! {
    /// Start, version and the search for functions.
    Init,
    /// Names and texts of results.
    Error,
    /// Devices and what they are.
    Device,
    /// Contexts, primary ones included, their limits and settings.
    Context,
    /// Green contexts and the parts of a device given to them.
    Green,
    /// Modules: code loaded into a context.
    Module,
    /// Libraries: code loaded without a context.
    Library,
    /// Functions and kernels: names, attributes, parameters.
    Kernel,
    /// The linker.
    Link,
    /// Kernels, graphs and host functions given to a stream.
    Launch,
    /// How many blocks fit.
    Occupancy,
    /// Memory taken and given back, on device and host.
    Alloc,
    /// Stream-ordered memory pools.
    Pool,
    /// Address ranges and physical memory, mapped by hand.
    Vmm,
    /// Hints and moves for managed memory.
    Managed,
    /// What is known of an address.
    Pointer,
    /// Copies.
    Copy,
    /// Memory filled with a value.
    Set,
    /// Arrays and mipmapped arrays.
    Array,
    /// Texture references and objects.
    Texture,
    /// Surface references and objects.
    Surface,
    /// Tensor maps.
    Tensor,
    /// Streams and their attributes.
    Stream,
    /// Waits and writes that a stream does by itself.
    Order,
    /// Events.
    Event,
    /// Calls in which the host waits for the device.
    Sync,
    /// Streams recorded into graphs.
    Capture,
    /// Graphs built, changed and made executable.
    Graph,
    /// Access from device to device.
    Peer,
    /// Memory and events shared between processes.
    Ipc,
    /// Memory and semaphores of other interfaces.
    External,
    /// Memory written on several devices at once.
    Multicast,
    /// Endpoints of memory across machines.
    Endpoint,
    /// OpenGL, EGL and VDPAU.
    Interop,
    /// The profiler's switch.
    Profiler,
    /// Processes frozen and restored.
    Checkpoint,
    /// Core dumps of the device.
    Coredump,
    /// The driver's own log.
    Log,
    /// Functions whose signature is not public.
    Private,
}

macro_rules! orders {
    ($($(#[doc = $doc:literal])* $name:ident $word:ident,)*) => {
        /// Where a call goes while launches wait in a queue (`apex run --fast`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Order {
            $($(#[doc = $doc])* $name,)*
        }

        impl Order {
            /// Every order, with the word that the table has for it.
            pub const ALL: &[Order] = &[$(Order::$name),*];

            /// The word of the table.
            pub fn word(self) -> &'static str {
                match self {
                    $(Order::$name => stringify!($word),)*
                }
            }

            /// What the word says, in one line.
            pub fn about(self) -> &'static str {
                match self {
                    $(Order::$name => concat!($($doc),*).trim_ascii_start(),)*
                }
            }
        }

        macro_rules! order_of {
            $(($word) => { Order::$name };)*
        }
    };
}

orders! {
    /// Goes straight down: it asks what no waiting call can change, or makes something new.
    Passes passes,
    /// Goes straight down, and gives its thread another context.
    Switches switches,
    /// Takes its place in the queue behind what waits; the queue has a function of that name.
    Joins joins,
    /// Goes down once everything that waits has gone. What nobody thought about does this.
    Drains drains,
    /// Drains, ends nothing that a waiting call names, and may return the error of a call that went down late.
    Reports reports,
    /// Drains, and what is kept of kernels, streams and contexts is forgotten.
    Forgets forgets,
    /// Drains; from here on, if it succeeds, nothing is queued: a stream is being captured.
    Opens opens,
    /// Drains; the capture has ended.
    Closes closes,
}

/// One row of the table, less its signature.
struct Row {
    /// The C name, NUL included.
    name: &'static str,
    kind: Kind,
    hooked: Option<&'static str>,
    order: Order,
    since: u32,
    arguments: usize,
}

macro_rules! hooked {
    (pass) => {
        None
    };
    (note $module:ident) => {
        Some(stringify!($module))
    };
    (hook $module:ident) => {
        Some(stringify!($module))
    };
}

macro_rules! define {
    ($(
        $kind:ident $treatment:ident $(($module:ident))? $order:ident $since:literal
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {
        /// The functions of one driver, in table order.
        #[repr(C)]
        #[allow(non_snake_case, missing_docs, reason = "fields bear the driver's own names")]
        pub struct Driver {
            $(pub $name: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
        }

        /// A driver function by its number in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types, missing_docs, reason = "variants bear the driver's own names")]
        #[repr(u16)]
        pub enum Function {
            $($name,)*
        }

        impl Function {
            /// Every function, in table order.
            pub const ALL: &'static [Function] = &[$(Function::$name),*];
        }

        static ROWS: [Row; Function::COUNT] = [$(Row {
            name: concat!(stringify!($name), "\0"),
            kind: Kind::$kind,
            hooked: hooked!($treatment $($module)?),
            order: order_of!($order),
            since: $since,
            arguments: <[&str]>::len(&[$(stringify!($argument)),*]),
        }),*];

        // Forwarding code reaches a field by number alone.
        const _: () = {
            $(assert!(offset_of!(Driver, $name) == 8 * Function::$name as usize);)*
            assert!(size_of::<Driver>() == 8 * Function::COUNT);
        };
    };
}

driver_functions!(define);

impl Function {
    /// How many functions the table has.
    pub const COUNT: usize = Function::ALL.len();

    /// The function of that number, if the table goes so far.
    pub fn from_index(index: u16) -> Option<Function> {
        Function::ALL.get(usize::from(index)).copied()
    }

    /// The C name.
    pub fn name(self) -> &'static str {
        let name = self.row().name;
        &name[..name.len() - 1]
    }

    /// The C name as C has it.
    pub fn c_name(self) -> &'static CStr {
        // SAFETY: the table's macro ends every name with the only NUL in it.
        unsafe { CStr::from_bytes_with_nul_unchecked(self.row().name.as_bytes()) }
    }

    /// What the function is about.
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// The module that hooks the function; none when it passes straight through.
    pub fn hooked(self) -> Option<&'static str> {
        self.row().hooked
    }

    /// The CUDA version whose ABI this symbol has (`12000` for 12.0); 0 if unknown.
    pub fn since(self) -> u32 {
        self.row().since
    }

    /// Where its call goes while launches wait in a queue.
    pub fn order(self) -> Order {
        self.row().order
    }

    /// How many arguments the function takes; 0 for a private one, whose arguments
    /// are not known.
    pub fn arguments(self) -> usize {
        self.row().arguments
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

impl Driver {
    /// Makes a driver from the address of each function.
    ///
    /// # Panics
    ///
    /// When an address is null: such a driver could not be called.
    ///
    /// # Safety
    ///
    /// Each address is that of a function with the C signature that the table gives
    /// for it, and stays callable as long as the driver is used.
    pub unsafe fn from_addresses(mut address: impl FnMut(Function) -> *const c_void) -> Driver {
        let mut addresses = [core::ptr::null(); Function::COUNT];
        for (slot, &function) in addresses.iter_mut().zip(Function::ALL) {
            *slot = address(function);
            assert!(!slot.is_null(), "no address was given for {}", function.name());
        }
        // SAFETY: `Driver` is `repr(C)` with one pointer-sized field per entry, in
        // the same order (asserted above); none is null, and the caller vouches for
        // the signatures.
        unsafe { transmute::<[*const c_void; Function::COUNT], Driver>(addresses) }
    }

    /// The address of one function.
    pub fn address(&self, function: Function) -> *const c_void {
        self.as_addresses()[function as usize]
    }

    /// All addresses, by number.
    pub fn as_addresses(&self) -> &[*const c_void; Function::COUNT] {
        // SAFETY: `Driver` is `repr(C)`, made only of as many function pointers
        // (asserted above), and a function pointer can be read as a data pointer.
        unsafe { &*(&raw const *self).cast() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashMap};

    use super::*;

    fn listed() -> BTreeSet<&'static str> {
        let driver = include_str!("../tests/driver_580_functions.txt");
        let header = include_str!("../tests/header_13_4_further_functions.txt");
        driver.lines().chain(header.lines()).collect()
    }

    #[test]
    fn the_table_names_every_listed_function_once() {
        let names: BTreeSet<&str> = Function::ALL.iter().map(|function| function.name()).collect();
        assert_eq!(names.len(), Function::COUNT, "a name stands twice");
        assert_eq!(names, listed());
    }

    #[test]
    fn twins_take_the_arguments_of_their_base() {
        let by_name: HashMap<&str, Function> =
            Function::ALL.iter().map(|&function| (function.name(), function)).collect();
        for &twin in Function::ALL {
            let name = twin.name();
            let Some(base) = name.strip_suffix("_ptsz").or(name.strip_suffix("_ptds")) else {
                continue;
            };
            let base = by_name[base];
            assert_eq!(twin.arguments(), base.arguments(), "{name}");
            assert_eq!(twin.kind(), base.kind(), "{name}");
            assert_eq!(twin.order(), base.order(), "{name}");
        }
    }

    #[test]
    fn later_variants_have_later_versions() {
        let by_name: HashMap<&str, Function> =
            Function::ALL.iter().map(|&function| (function.name(), function)).collect();
        for &later in Function::ALL {
            if let Some(base) = later.name().strip_suffix("_v2") {
                assert!(by_name[base].since() <= later.since(), "{}", later.name());
            }
        }
    }

    #[test]
    fn numbers_and_names_lead_to_functions_and_back() {
        for (index, &function) in Function::ALL.iter().enumerate() {
            assert_eq!(Function::from_index(index as u16), Some(function));
            assert_eq!(function.c_name().to_str(), Ok(function.name()));
        }
        assert_eq!(Function::from_index(Function::COUNT as u16), None);
    }

    #[test]
    fn rows_are_grouped_by_kind() {
        assert!(Function::ALL.is_sorted_by_key(|function| function.kind()));
    }

    #[test]
    fn a_driver_gives_back_the_addresses_it_was_made_of() {
        extern "C" fn first() {}
        extern "C" fn other() {}
        // SAFETY: the driver is looked at, never called.
        let driver = unsafe {
            Driver::from_addresses(|function| match function {
                Function::cuLaunchKernel => first as *const c_void,
                _ => other as *const c_void,
            })
        };
        assert_eq!(driver.address(Function::cuLaunchKernel), first as *const c_void);
        assert_eq!(driver.cuLaunchKernel as *const c_void, first as *const c_void);
        assert_eq!(driver.as_addresses()[0], other as *const c_void);
    }
}
