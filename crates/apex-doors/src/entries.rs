//! When to look for a runtime: before the program's first constructor, and before those of every library that comes later.
//!
//! A preloaded library is started before the program, but not before the libraries that the program needs; and of a
//! library that comes later the loader tells nobody between mapping it and running its constructors. Yet the first
//! thing that the `_init` of each does is to call `__gmon_start__` if there is one. That call, meant for profilers, is
//! taken here and leads to a look at what is new.

use crate::jumps::{Door, Target, patches};
use crate::objects::{Object, Seen, new_objects};
use crate::ours::{Runtime, is_of_apex, of_a_later_cuda, say};
use crate::place::{Code, read_at};
use crate::plan::{Plan, plan};
use crate::symbols::{Function, runtime_functions};
use std::ffi::CString;
use std::fs::File;
use std::sync::Mutex;

/// The loader calls this before the program's constructors, whatever the program was linked with.
#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static START: extern "C" fn() = look;

/// What profilers define, and every library's `_init` calls.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn __gmon_start__() {
    look();
}

/// Replaces the runtimes in what has been loaded since the last look.
extern "C" fn look() {
    static SEEN: Mutex<Seen> = Mutex::new(Seen::nothing());
    // Held: this thread opens our own runtime, whose `_init` has nothing to look for.
    let Ok(mut seen) = SEEN.try_lock() else { return };
    // A constructor that unwinds would end the program.
    let _ = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        for object in new_objects(&mut seen).iter().filter(|object| !is_of_apex(object)) {
            if let Err(reason) = replace(object) {
                say(&format!(
                    "apex cannot replace NVIDIA's CUDA runtime in {}: {reason}; link it with -cudart shared",
                    object.path.display()
                ));
            }
        }
    }));
}

/// Replaces the runtime in a file; one without any is no error.
fn replace(object: &Object) -> Result<(), &'static str> {
    let Ok(file) = File::open(&object.path) else { return Ok(()) };
    let functions = runtime_functions(&|offset, bytes| read_at(&file, offset, bytes));
    match plan(&functions) {
        Plan::Nothing => Ok(()),
        Plan::Refuse(reason) => Err(reason),
        Plan::Replace { major, doors } => turn(object, major, &doors, &file),
    }
}

fn turn(
    object: &Object,
    major: u32,
    doors: &[(&Function, bool)],
    file: &File,
) -> Result<(), &'static str> {
    let runtime =
        Runtime::of(&object.path, major).ok_or("apex's own is not beside libapex_doors.so")?;
    let functions: Vec<&Function> = doors.iter().map(|door| door.0).collect();
    let door = |&(function, is_ours): &(&Function, bool)| {
        let target = if is_ours { runtime.address(&function.name).map(Target::Same) } else { None };
        Some(Door {
            address: object.base.wrapping_add(function.address),
            bytes: function.bytes,
            target: target.or_else(|| refusal(&function.name))?,
        })
    };
    let doors: Option<Vec<Door>> = doors.iter().map(door).collect();
    let patches = doors.and_then(|doors| patches(&doors));
    let patches = patches.ok_or("a function of it has no room for a jump")?;
    match Code::checked(object, &functions, &patches, file)? {
        Some(code) => code.write(&patches),
        None => Ok(()),
    }
}

/// Where a function goes on that our runtime lacks.
fn refusal(name: &str) -> Option<Target> {
    // The code that is written holds its address for as long as the program lives.
    let name = CString::new(name).ok()?.into_raw();
    Some(Target::With { function: of_a_later_cuda as *const () as u64, argument: name as u64 })
}
