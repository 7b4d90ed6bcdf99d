//! What the compiled tier owes beside results: faults with their line, an end to loops
//! without one, and the interpreter's answer where lanes exchange places.

use apex_engine::{Device, Fault, Grid, Identity, Launch, Module, Services};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

struct Quiet;

impl Services for Quiet {
    fn print(&self, _: &[u8]) {}
    fn assert_failed(&self, _: &str) {}
    fn heap_alloc(&self, _: u64) -> u64 {
        0
    }
    fn heap_free(&self, _: u64) {}
    fn find(&self, _: u64) -> Option<(u64, u64)> {
        None
    }
}

fn grid(body: &str, block: [u32; 3], pointer: u64, number: u32) -> Grid {
    launch(body, block, pointer, number, true)
}

fn launch(body: &str, block: [u32; 3], pointer: u64, number: u32, compiled: bool) -> Grid {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n\
         .visible .entry k(.param .u64 out, .param .u32 number)\n{{\n{body}\n}}\n"
    );
    let module = Module::load(&[&text], &mut |_| None).expect("the text is valid");
    let kernel = module.kernel("k").expect("it is there").clone();
    assert_eq!(kernel.unsupported, None);
    let fast = apex_engine::compile(&kernel.code, block, None, false);
    assert!(fast.is_some(), "it can be compiled");
    let mut params = pointer.to_le_bytes().to_vec();
    params.extend(number.to_le_bytes());
    params.resize(kernel.param_bytes as usize, 0);
    let launch = Launch {
        kernel,
        grid: [1; 3],
        block,
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
        services: Box::new(Quiet),
    });
    Grid::with_fast_tier(launch, device, fast.filter(|_| compiled)).expect("the launch is valid")
}

#[test]
fn a_bad_address_is_a_fault_with_its_line() {
    let grid = grid(
        ".reg .b64 %a<3>;\n.reg .b32 %r<3>;\n\
         ld.param.u64 %a1, [out];\n\
         mov.u32 %r1, %tid.x;\n\
         mul.wide.u32 %a2, %r1, 4;\n\
         add.s64 %a2, %a1, %a2;\n\
         st.global.u32 [%a2], %r1;\n\
         ret;",
        [32, 1, 1],
        64,
        0,
    );
    grid.work();
    match grid.fault() {
        Some(Fault::IllegalAddress { place, .. }) => assert_eq!(place.line, 12),
        other => panic!("{other:?}"),
    }
}

#[test]
fn shared_memory_ends_where_it_ends() {
    let grid = grid(
        ".shared .align 4 .b8 tile[128];\n.reg .b32 %r<4>;\n\
         ld.param.u32 %r1, [number];\n\
         mov.u32 %r2, tile;\n\
         add.u32 %r2, %r2, %r1;\n\
         st.shared.u32 [%r2], %r1;\n\
         ret;",
        [32, 1, 1],
        0,
        0x10_0000,
    );
    grid.work();
    let Some(fault @ Fault::IllegalAddress { .. }) = grid.fault() else {
        panic!("{:?}", grid.fault())
    };
    // Where it is one pointer for the warp, the thread is not known: none is named.
    let expected = "kernel k, line 11 of its PTX, block (0,0,0): \
                    writes 4 bytes at an address that is not in the shared memory of the block";
    assert_eq!(fault.to_string(), expected);
}

/// Offsets in shared memory wrap at 32 bits: a base below zero is brought back by the constant.
#[test]
fn a_base_below_shared_memory_is_no_fault() {
    let mut out = vec![0_u32; 32];
    let grid = grid(
        ".shared .align 4 .b8 tile[128];\n.reg .b64 %a<3>;\n.reg .b32 %r<6>;\n\
         ld.param.u64 %a1, [out];\n\
         ld.param.u32 %r1, [number];\n\
         mov.u32 %r2, %tid.x;\n\
         mov.u32 %r5, tile;\n\
         mad.lo.s32 %r3, %r2, 4, %r5;\n\
         sub.s32 %r4, %r3, %r1;\n\
         st.shared.u32 [%r4+64], %r2;\n\
         bar.sync 0;\n\
         ld.shared.u32 %r5, [%r4+64];\n\
         mul.wide.u32 %a2, %r2, 4;\n\
         add.s64 %a2, %a1, %a2;\n\
         st.global.u32 [%a2], %r5;\n\
         ret;",
        [32, 1, 1],
        out.as_mut_ptr() as u64,
        64,
    );
    grid.work();
    assert!(grid.fault().is_none(), "{:?}", grid.fault());
    assert!(std::hint::black_box(&out).iter().copied().eq(0..32));
}

/// Loops without end, by all lanes and by some.
#[test]
fn loops_can_be_cancelled() {
    let together = "L:\n bra L;\n ret;";
    let apart = ".reg .b32 %r<2>;\n.reg .pred %p<2>;\nmov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 3;\n\
                 @!%p1 bra E;\nL:\n add.u32 %r1, %r1, 1;\n setp.ne.u32 %p1, %r1, 1000000;\n\
                 and.b32 %r1, %r1, 7;\n @%p1 bra L;\nE:\n ret;";
    for body in [together, apart] {
        let grid = grid(body, [32, 1, 1], 0, 0);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| grid.work());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!worker.is_finished(), "the loop has no end");
            grid.cancel();
            assert!(worker.join().expect("no panic"));
        });
        assert!(matches!(grid.fault(), Some(Fault::Cancelled)), "{:?}", grid.fault());
    }
}

/// Lanes that part in a loop come out with each its own count, however long the loop is.
#[test]
fn long_loops_on_different_ways() {
    let mut out = vec![0u32; 32];
    let grid = grid(
        ".reg .b64 %a<3>;\n.reg .b32 %r<5>;\n.reg .pred %p<2>;\n\
         ld.param.u64 %a1, [out];\n\
         mov.u32 %r1, %tid.x;\n\
         mul.lo.u32 %r2, %r1, 1000;\n\
         mov.u32 %r3, 0;\n\
         L:\n\
         add.u32 %r3, %r3, 3;\n\
         sub.s32 %r2, %r2, 1;\n\
         setp.ge.s32 %p1, %r2, 0;\n\
         @%p1 bra L;\n\
         mul.wide.u32 %a2, %r1, 4;\n\
         add.s64 %a2, %a1, %a2;\n\
         st.global.u32 [%a2], %r3;\n\
         ret;",
        [32, 1, 1],
        out.as_mut_ptr() as u64,
        0,
    );
    grid.work();
    assert!(grid.fault().is_none(), "{:?}", grid.fault());
    let expected: Vec<u32> = (0..32).map(|lane| (lane * 1000 + 1) * 3).collect();
    assert_eq!(out, expected);
}

/// The bits of an f64 NaN are open, but `cvt` shows them as f32: which of two NaNs goes on must
/// not depend on the tier.
#[test]
fn of_two_nans_both_tiers_take_the_same() {
    let numbers = [0x7fc0_1234_u32, 0xffff_ffff, 0x7fc0_0001, 0x4049_0fdb, 0xff80_0000, 0];
    let operations = [
        "add.f64 %d3, %d1, %d2;",
        "sub.f64 %d3, %d1, %d2;",
        "mul.f64 %d3, %d1, %d2;",
        "div.rn.f64 %d3, %d1, %d2;",
        "min.f64 %d3, %d1, %d2;",
        "max.f64 %d3, %d1, %d2;",
        "fma.rn.f64 %d3, %d1, %d2, %d2;",
        "fma.rn.f64 %d3, %d2, %d2, %d1;",
        "sqrt.rn.f64 %d3, %d1;",
    ];
    for operation in operations {
        // The first 64 words are pairs of numbers, the next 32 are results.
        let mut memory: Vec<u32> = (0..32)
            .flat_map(|lane| [numbers[lane % 6], numbers[lane / 6 % 6]])
            .chain(std::iter::repeat_n(0, 32))
            .collect();
        let body = format!(
            ".reg .b64 %a<3>;\n.reg .b32 %r<3>;\n.reg .f32 %f<4>;\n.reg .f64 %d<4>;\n\
             ld.param.u64 %a1, [out];\n\
             mov.u32 %r1, %tid.x;\n\
             mad.wide.u32 %a2, %r1, 8, %a1;\n\
             ld.global.v2.f32 {{%f1, %f2}}, [%a2];\n\
             cvt.f64.f32 %d1, %f1;\n\
             cvt.f64.f32 %d2, %f2;\n\
             {operation}\n\
             cvt.rn.f32.f64 %f3, %d3;\n\
             mad.wide.u32 %a2, %r1, 4, %a1;\n\
             st.global.f32 [%a2+256], %f3;\n\
             ret;"
        );
        let mut results = [false, true].map(|compiled| {
            let grid = launch(&body, [32, 1, 1], memory.as_mut_ptr() as u64, 0, compiled);
            grid.work();
            assert!(grid.fault().is_none(), "{:?}", grid.fault());
            std::hint::black_box(&memory)[64..].to_vec()
        });
        let compiled = std::mem::take(&mut results[1]);
        for (lane, (interpreted, compiled)) in results[0].iter().zip(&compiled).enumerate() {
            let pair = &memory[lane * 2..][..2];
            assert_eq!(interpreted, compiled, "{operation} of {pair:x?}");
        }
    }
}

/// A result in shared memory is read by all warps before the first one puts the next there, as on
/// hardware, though no barrier says so.
#[test]
fn warps_read_side_by_side_after_a_barrier() {
    let body = ".shared .align 4 .b8 tile[64];\n.reg .b64 %a<3>;\n.reg .b32 %r<8>;\n.reg .pred %p<2>;\n\
         ld.param.u64 %a1, [out];\n\
         mov.u32 %r1, %tid.x;\n\
         shr.u32 %r2, %r1, 5;\n\
         setp.ne.u32 %p1, %r1, 0;\n\
         @%p1 bra READ;\n\
         st.shared.u32 [tile], 7;\n\
         READ:\n\
         bar.sync 0;\n\
         ld.shared.u32 %r3, [tile];\n\
         shl.b32 %r4, %r2, 2;\n\
         mov.u32 %r5, tile;\n\
         add.u32 %r5, %r5, %r4;\n\
         add.u32 %r6, %r2, 100;\n\
         st.shared.u32 [%r5], %r6;\n\
         bar.sync 0;\n\
         mul.wide.u32 %a2, %r1, 4;\n\
         add.s64 %a2, %a1, %a2;\n\
         st.global.u32 [%a2], %r3;\n\
         ret;";
    for compiled in [false, true] {
        let mut out = vec![0u32; 128];
        let grid = launch(body, [128, 1, 1], out.as_mut_ptr() as u64, 0, compiled);
        grid.work();
        assert!(grid.fault().is_none(), "{:?}", grid.fault());
        assert_eq!(std::hint::black_box(&out), &vec![7; 128], "compiled: {compiled}");
    }
}

#[test]
fn a_narrow_warp_does_not_read_what_another_left() {
    // The next block on this thread gets the memory of this one, in which a predicate holds for
    // all 32 lanes.
    let dirty = launch(
        ".reg .pred %p;\n.reg .b32 %r;\n.reg .b64 %a;\n\
         ld.param.u64 %a, [out];\nmov.u32 %r, %laneid;\nsetp.lt.u32 %p, %r, 32;\n\
         selp.u32 %r, 7, 8, %p;\nst.global.u32 [%a], %r;\nret;",
        [128, 1, 1],
        (&raw const OUT) as u64,
        0,
        false,
    );
    dirty.work();
    assert_eq!((dirty.fault(), OUT.load(Ordering::Relaxed)), (None, 7));
    drop(dirty);
    OUT.store(0, Ordering::Relaxed);
    // Warps of 16 lanes, and a flag that is the same for all: 5 - 100 borrows.
    let narrow = grid(
        ".reg .b32 %r, %n;\n.reg .b64 %a;\n\
         ld.param.u64 %a, [out];\nld.param.u32 %n, [number];\n\
         sub.cc.u32 %r, %n, 100;\naddc.u32 %r, 0, 0;\nred.global.max.u32 [%a], %r;\nret;",
        [64, 1, 1],
        (&raw const OUT) as u64,
        5,
    );
    narrow.work();
    assert_eq!((narrow.fault(), OUT.load(Ordering::Relaxed)), (None, 0));
}

static OUT: AtomicU32 = AtomicU32::new(0);
