//! Kernels touch memory of the device's window, what the driver lets them, and their own; nothing else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use apex_engine::frame::FastTier;
use apex_engine::{Device, Fault, Grid, Identity, Launch, Module, Services, Window};
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Arc, OnceLock};

const BITS: u32 = 38;
const WORDS: usize = 1024;

/// Lets kernels touch one range of host memory.
struct Registered(u64, u64);

impl Services for Registered {
    fn print(&self, _: &[u8]) {}
    fn assert_failed(&self, _: &str) {}
    fn heap_alloc(&self, _: u64) -> u64 {
        0
    }
    fn heap_free(&self, _: u64) {}
    fn find(&self, address: u64) -> Option<(u64, u64)> {
        (address.wrapping_sub(self.0) < self.1).then_some((self.0, self.1))
    }
}

/// A window with some memory in its middle.
fn window() -> Window {
    static WINDOW: OnceLock<Window> = OnceLock::new();
    *WINDOW.get_or_init(|| {
        let unused = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a plain request for addresses, of which a part is made usable.
        unsafe {
            let all = libc::mmap(std::ptr::null_mut(), 2 << BITS, libc::PROT_NONE, unused, -1, 0);
            assert_ne!(all, libc::MAP_FAILED);
            let start = (all.expose_provenance() as u64).next_multiple_of(1 << BITS);
            let window = Window::new(start, BITS);
            let middle = with_exposed_provenance_mut(middle(window) as usize);
            assert_eq!(libc::mprotect(middle, 1 << 20, libc::PROT_READ | libc::PROT_WRITE), 0);
            window
        }
    })
}

fn middle(window: Window) -> u64 {
    window.start() + (1 << (BITS - 1))
}

/// Memory of the device; each test has its own.
fn device_words(number: u64) -> &'static mut [u32] {
    let place = middle(window()) + number * 8192;
    // SAFETY: usable, zero, and given to one test.
    unsafe { std::slice::from_raw_parts_mut(with_exposed_provenance_mut(place as usize), WORDS) }
}

const TIERS: [Option<bool>; 3] = [None, Some(false), Some(true)];

/// Runs one warp: interpreted, or compiled so that it asks or that it trusts parameters.
fn run(body: &str, params: [u64; 2], registered: (u64, u64), tier: Option<bool>) -> Option<Fault> {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .u64 slots)\n{{\n\
         .reg .b64 %a<9>;\n.reg .b32 %r<9>;\n.reg .pred %p<3>;\n\
         .shared .align 16 .b8 tile[256];\n.local .align 8 .b8 mine[8];\n\
         ld.param.u64 %a1, [out];\nld.param.u64 %a2, [slots];\nmov.u32 %r1, %tid.x;\n\
         mul.wide.u32 %a3, %r1, 4;\nadd.s64 %a4, %a1, %a3;\n\
         {body}\nret;\n}}\n"
    );
    let module = Module::load(&[&text], &mut |_| None).unwrap();
    let kernel = module.kernel("k").unwrap().clone();
    assert_eq!(kernel.unsupported, None, "{body}");
    let make = |trusting| apex_engine::compile(&kernel.code, [32, 1, 1], Some(window()), trusting);
    let fast: Option<Arc<dyn FastTier>> = tier.map(|trusting| make(trusting).unwrap());
    let params: Vec<u8> = params.iter().flat_map(|word| word.to_le_bytes()).collect();
    let fast = fast.map(|fast| match fast.suits(Some(window()), &params) {
        true => fast,
        false => make(false).unwrap(),
    });
    let device = Arc::new(Device {
        identity: Identity::default(),
        checked: false,
        jit: true,
        window: Some(window()),
        services: Box::new(Registered(registered.0, registered.1)),
    });
    let launch = Launch {
        kernel,
        grid: [1; 3],
        block: [32, 1, 1],
        dynamic_shared: 0,
        params,
        cooperative: false,
        cluster: [1; 3],
    };
    let grid = Grid::with_fast_tier(launch, device, fast).unwrap();
    grid.work();
    grid.fault()
}

/// Ways to write to `out`: what they are called, and the thread that is first to.
const WAYS: [(&str, u32, &str); 14] = [
    ("regular", 0, "st.global.u32 [%a4], 7;"),
    ("uniform", 0, "st.global.u32 [%a1+64], 7;"),
    ("far", 0, "st.global.u32 [%a4+2000], 7;"),
    ("loaded pointer", 0, "ld.global.u64 %a5, [%a2];\nst.global.u32 [%a5], 7;"),
    (
        "scattered",
        0,
        "mul.lo.u32 %r2, %r1, 7;\nand.b32 %r2, %r2, 31;\nmul.wide.u32 %a5, %r2, 4;\n\
         add.s64 %a5, %a1, %a5;\nst.global.u32 [%a5], 7;",
    ),
    (
        "pointers of lanes",
        0,
        "mul.wide.u32 %a5, %r1, 8;\nadd.s64 %a5, %a2, %a5;\nld.global.u64 %a6, [%a5];\n\
         st.global.u32 [%a6], 7;",
    ),
    ("guarded", 3, "setp.gt.u32 %p1, %r1, 2;\n@%p1 st.global.u32 [%a4], 7;"),
    (
        "guarded pointers",
        3,
        "setp.gt.u32 %p1, %r1, 2;\nmul.wide.u32 %a5, %r1, 8;\nadd.s64 %a5, %a2, %a5;\n\
         ld.global.u64 %a6, [%a5];\n@%p1 st.global.u32 [%a6], 7;",
    ),
    (
        "parted",
        5,
        "setp.lt.u32 %p1, %r1, 5;\n@%p1 bra OVER;\nst.global.u32 [%a4], 7;\n\
         xor.b32 %r1, %r1, 3;\nOVER:",
    ),
    ("atomic", 0, "atom.global.add.u32 %r2, [%a4], 7;"),
    ("reduction of one", 0, "red.global.add.u32 [%a1], 7;"),
    (
        "vector",
        0,
        "shl.b64 %a3, %a3, 2;\nadd.s64 %a4, %a1, %a3;\nst.global.v4.u32 [%a4], {7,7,7,7};",
    ),
    ("generic", 0, "st.u32 [%a4], 7;"),
    (
        "moving pointer",
        0,
        "mov.u32 %r2, 0;\nAGAIN:\nst.global.u32 [%a4], 7;\nadd.s64 %a4, %a4, 128;\n\
         add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, 3;\n@%p1 bra AGAIN;",
    ),
];

fn address<T>(data: &mut [T]) -> u64 {
    data.as_mut_ptr().expose_provenance() as u64
}

fn check(what: u64, out: &mut [u32], registered: (u64, u64), holds: bool) {
    let target = address(out);
    let slots = device_words(what);
    for (lane, slot) in slots.chunks_exact_mut(2).take(32).enumerate() {
        let pointer = target + 4 * lane as u64;
        (slot[0], slot[1]) = (pointer as u32, (pointer >> 32) as u32);
    }
    for (name, first, body) in WAYS {
        for tier in TIERS {
            out.fill(0);
            let fault = run(body, [target, address(slots)], registered, tier);
            let written = std::hint::black_box(&*out).iter().any(|&word| word != 0);
            assert_eq!(written, holds, "{name} {tier:?}: {fault:?}");
            match fault {
                None => assert!(holds, "{name} {tier:?}"),
                Some(Fault::IllegalAddress { place, address, bytes, .. }) => {
                    assert!(!holds, "{name} {tier:?}");
                    assert_eq!(place.thread, Some([first, 0, 0]), "{name} {tier:?}");
                    let address = address.unwrap();
                    assert!((target..target + 4096).contains(&address), "{name} {address:#x}");
                    assert!(matches!(bytes, 4 | 16), "{name} {bytes}");
                }
                Some(other) => panic!("{name} {tier:?}: {other}"),
            }
        }
    }
}

#[test]
fn device_memory_can_be_written() {
    check(0, device_words(1), (0, 0), true);
}

#[test]
fn host_memory_stays_as_it_is() {
    check(2, &mut vec![0; WORDS], (0, 0), false);
}

#[test]
fn host_memory_that_the_driver_knows_can_be_written() {
    let mut out = vec![0; WORDS];
    let known = (address(&mut out), 4096);
    check(3, &mut out, known, true);
}

/// Parameters, shared and local memory have generic addresses outside of the window.
#[test]
fn a_block_reaches_its_own_memory_by_generic_addresses() {
    let out = device_words(4);
    let bodies = [
        "mov.u64 %a5, tile;\ncvta.shared.u64 %a5, %a5;\nadd.s64 %a5, %a5, %a3;\nst.u32 [%a5], %r1;\n\
         ld.u32 %r2, [%a5];\nst.global.u32 [%a4], %r2;",
        "mov.u64 %a5, mine;\ncvta.local.u64 %a5, %a5;\nst.u32 [%a5], %r1;\nld.u32 %r2, [%a5];\n\
         st.global.u32 [%a4], %r2;",
        "mov.u64 %a5, out;\ncvta.param.u64 %a5, %a5;\nld.u64 %a6, [%a5];\nadd.s64 %a6, %a6, %a3;\n\
         st.global.u32 [%a6], %r1;",
    ];
    for body in bodies {
        for tier in TIERS {
            out.fill(0);
            let fault = run(body, [address(out), 0], (0, 0), tier);
            assert_eq!(fault, None, "{tier:?} {body}");
            assert!(std::hint::black_box(&*out)[..32].iter().copied().eq(0..32), "{tier:?} {body}");
        }
    }
}

/// An index of 32 bits leads from a good pointer to no other memory of the process.
#[test]
fn a_wild_index_stays_in_the_window() {
    let out = device_words(5);
    for index in ["0x7fffffff", "0x80000000", "0xff000000"] {
        for tier in TIERS {
            let body = format!(
                "mov.u32 %r2, {index};\nadd.u32 %r2, %r2, %r1;\nmul.wide.s32 %a5, %r2, 16;\n\
                 add.s64 %a5, %a1, %a5;\nst.global.u32 [%a5], 7;"
            );
            let fault = run(&body, [address(out), 0], (0, 0), tier);
            let Some(Fault::IllegalAddress { .. }) = fault else { panic!("{tier:?}: {fault:?}") };
        }
    }
}

/// Where memory of the device ends, both tiers name the first thread that goes beyond.
#[test]
fn an_overrun_names_the_thread() {
    let ways = [
        (4, "st.global.u32 [%a4], 7;"),
        (4, "ld.global.u32 %r2, [%a4];"),
        (
            4,
            "xor.b32 %r2, %r1, 1;\nmul.wide.u32 %a5, %r2, 4;\nadd.s64 %a5, %a1, %a5;\n\
             st.global.u32 [%a5], 7;",
        ),
        (4, "setp.gt.u32 %p1, %r1, 2;\n@%p1 ld.global.u32 %r2, [%a4];"),
        (4, "setp.lt.u32 %p1, %r1, 2;\n@%p1 bra OVER;\nst.global.u32 [%a4], 7;\nOVER:"),
        (4, "red.global.add.u32 [%a4], 7;"),
        (1, "cvt.u64.u32 %a5, %r1;\nadd.s64 %a5, %a1, %a5;\nld.global.u8 %r2, [%a5];"),
        (2, "mul.wide.u32 %a5, %r1, 2;\nadd.s64 %a5, %a1, %a5;\nst.global.u16 [%a5], %r1;"),
        (8, "mul.wide.u32 %a5, %r1, 8;\nadd.s64 %a5, %a1, %a5;\nst.global.u64 [%a5], %a5;"),
        (
            8,
            "mul.wide.u32 %a5, %r1, 8;\nadd.s64 %a5, %a1, %a5;\nld.global.v2.u32 {%r2,%r3}, [%a5];",
        ),
        (
            16,
            "mul.wide.u32 %a5, %r1, 16;\nadd.s64 %a5, %a1, %a5;\n\
             ld.global.v4.u32 {%r2,%r3,%r4,%r5}, [%a5];",
        ),
    ];
    let end = middle(window()) + (1 << 20);
    for (bytes, body) in ways {
        for inside in [20, 21, 22, 23] {
            // Of two lanes that change places the lower one is the first beyond the end.
            let swapped = body.starts_with("xor");
            let first = if swapped { inside & !1 } else { inside };
            let at = if swapped && inside == first { end + bytes } else { end };
            for tier in TIERS {
                let fault = run(body, [end - inside * bytes, 0], (0, 0), tier);
                let Some(Fault::IllegalAddress { place, address, bytes: size, .. }) = fault else {
                    panic!("{tier:?} {body}: {fault:?}");
                };
                assert_eq!(place.thread, Some([first as u32, 0, 0]), "{tier:?} {inside} {body}");
                assert_eq!((address, u64::from(size)), (Some(at), bytes), "{tier:?} {body}");
            }
        }
    }
}
