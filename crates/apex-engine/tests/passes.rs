//! A dump has what a kernel is after each pass, in their order.

#![allow(clippy::unwrap_used, reason = "a test ends at its first surprise")]

use apex_engine::{Device, Dump, Grid, Identity, Launch, Module, Services};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TEXT: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry shift(.param .u64 to, .param .u32 by)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [to];
    ld.param.u32 %r1, [by];
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    shl.b32 %r3, %r2, %r1;
    st.global.u32 [%rd3], %r3;
    ret;
}
.visible .entry unknown()
{
    tcgen05.fence::before_thread_sync;
    ret;
}
";

const LOWERING: [&str; 14] = [
    "01-translate",
    "02-cut",
    "03-promote",
    "04-lay-out",
    "05-set-constants",
    "06-clean",
    "07-simplify",
    "08-give-turns",
    "09-order",
    "10-find-alive",
    "11-emit",
    "12-settle-calls",
    "13-choose-width",
    "14-number-registers",
];

const COMPILING: [&str; 6] = [
    "01-find-shapes",
    "02-find-flow",
    "03-find-writers",
    "04-emit-vectors",
    "05-assemble",
    "06-note-sources",
];

struct Dumping(Dump);

impl Services for Dumping {
    fn print(&self, _: &[u8]) {}
    fn assert_failed(&self, _: &str) {}
    fn heap_alloc(&self, _: u64) -> u64 {
        0
    }
    fn heap_free(&self, _: u64) {}
    fn find(&self, _: u64) -> Option<(u64, u64)> {
        None
    }
    fn dump(&self) -> Option<&Dump> {
        Some(&self.0)
    }
}

/// A folder of this test alone, empty.
fn empty_folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("passes-{name}"));
    let _ = fs::remove_dir_all(&folder);
    folder
}

/// The folder of the kernel whose name begins so; there is one.
fn folder_of(folder: &Path, start: &str) -> PathBuf {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut fit = all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(start));
    let found = fit.next().unwrap();
    assert_eq!(fit.next(), None, "{start} has two folders");
    found
}

/// Names of the files, in order.
fn files(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn lowering_is_written_down_after_each_pass() {
    let folder = empty_folder("lowering");
    let dump = Dump::new(&folder);
    let module = Module::load_and_dump(&[TEXT], Some(&dump), &mut |_| None).unwrap();
    let shift = folder_of(&folder, "shift.");
    assert_eq!(files(&shift), LOWERING);
    for name in LOWERING {
        let text = text(&shift, name);
        assert!(text.starts_with(&format!("// {}: ", &name[3..])), "{text}");
        assert!(text.contains("Store"), "{name} does not show the kernel:\n{text}");
    }
    // Each form shows what its pass has made: labels, then blocks, then code.
    assert!(text(&shift, "01-translate").contains("shift:\n"));
    assert!(text(&shift, "02-cut").contains("n0:"));
    assert!(
        text(&shift, "02-cut").contains("Add") && text(&shift, "05-set-constants").contains("Add")
    );
    let code = module.kernel("shift").unwrap().code.to_string();
    assert!(text(&shift, "14-number-registers").ends_with(&code));
    assert_ne!(text(&shift, "13-choose-width"), text(&shift, "14-number-registers"));
}

#[test]
fn the_pass_that_refuses_a_kernel_is_the_last_one() {
    let folder = empty_folder("refusal");
    let dump = Dump::new(&folder);
    let module = Module::load_and_dump(&[TEXT], Some(&dump), &mut |_| None).unwrap();
    let unknown = folder_of(&folder, "unknown.");
    assert_eq!(files(&unknown), ["01-translate"]);
    let reason = module.kernel("unknown").unwrap().unsupported.clone().unwrap();
    assert!(text(&unknown, "01-translate").ends_with(&format!("refused: {reason}\n")));
}

#[test]
fn compiling_is_written_down_after_each_pass() {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return;
    }
    let folder = empty_folder("compiling");
    let module = Module::load(&[TEXT], &mut |_| None).unwrap();
    let mut out = vec![0_u32; 64 * 256];
    let mut params = (out.as_mut_ptr() as u64).to_le_bytes().to_vec();
    params.extend([1, 0, 0, 0]);
    let launch = Launch {
        kernel: module.kernel("shift").unwrap().clone(),
        grid: [256, 1, 1],
        block: [64, 1, 1],
        dynamic_shared: 0,
        params,
        cooperative: false,
        cluster: [1; 3],
    };
    let device = Arc::new(Device {
        identity: Identity::default(),
        checked: false,
        jit: true,
        window: None,
        services: Box::new(Dumping(Dump::new(&folder))),
    });
    let grid = Grid::new(launch, device).unwrap();
    grid.work();
    assert_eq!((grid.fault(), out[63]), (None, 126));
    let shift = folder_of(&folder, "shift.");
    assert!(shift.to_str().unwrap().ends_with(".64x1x1.free"), "{}", shift.display());
    assert_eq!(files(&shift), COMPILING);
    assert!(text(&shift, "01-find-shapes").contains("rises by 4"));
    assert!(text(&shift, "02-find-flow").contains("entry 0"));
    assert!(text(&shift, "04-emit-vectors").contains("function u0:0"));
    assert!(text(&shift, "06-note-sources").contains("step 0"));
}
