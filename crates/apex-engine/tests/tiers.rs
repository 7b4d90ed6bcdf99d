//! When a launch comes to compiled code: by what was interpreted, not by how long it took.

use apex_engine::{Device, Grid, Identity, Kernel, Launch, Module, Services};
use std::sync::Arc;

/// With steps counted, or not.
struct Quiet(bool);

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
    fn counts_steps(&self) -> bool {
        self.0
    }
}

const TEXT: &str = ".version 8.0\n.target sm_90\n.address_size 64
    .visible .entry long(.param .u64 out, .param .u32 turns) {
    .reg .b32 %r<6>; .reg .b64 %rd<3>; .reg .pred %p;
    mov.u32 %r1, %tid.x; mov.u32 %r2, 0; ld.param.u32 %r3, [turns];
    turn: mad.lo.u32 %r1, %r1, 5, 7; xor.b32 %r1, %r1, %r2; add.u32 %r2, %r2, 1;
    setp.lt.u32 %p, %r2, %r3; @%p bra turn;
    mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ntid.x; mad.lo.u32 %r4, %r4, %r5, 0;
    mov.u32 %r5, %tid.x; add.u32 %r4, %r4, %r5;
    ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r4, 4, %rd1; st.global.u32 [%rd1], %r1; ret; }";

fn kernel() -> Arc<Kernel> {
    let module = Module::load(&[TEXT], &mut |_| None).expect("the text is valid");
    module.kernel("long").expect("it is there").clone()
}

/// Runs it and gives the steps of warps that were interpreted.
fn interpreted(kernel: &Arc<Kernel>, blocks: u32, threads: u32, turns: u32) -> u64 {
    run(kernel, [blocks, threads, turns], false)
}

fn run(kernel: &Arc<Kernel>, [blocks, threads, turns]: [u32; 3], counts_steps: bool) -> u64 {
    let mut out = vec![0_u32; (blocks * threads) as usize];
    let mut params = (out.as_mut_ptr() as u64).to_le_bytes().to_vec();
    params.extend(turns.to_le_bytes());
    params.resize(kernel.param_bytes as usize, 0);
    let launch = Launch {
        kernel: kernel.clone(),
        grid: [blocks, 1, 1],
        block: [threads, 1, 1],
        dynamic_shared: 0,
        params,
        cooperative: false,
        cluster: [1; 3],
    };
    let device = Device {
        identity: Identity::default(),
        checked: false,
        jit: true,
        window: None,
        services: Box::new(Quiet(counts_steps)),
    };
    let grid = Grid::new(launch, Arc::new(device)).expect("the launch is valid");
    grid.work();
    assert!(grid.fault().is_none(), "{:?}", grid.fault());
    for (thread, got) in std::hint::black_box(&out).iter().enumerate() {
        let start = thread as u32 % threads;
        let turn = |x: u32, n: u32| x.wrapping_mul(5).wrapping_add(7) ^ n;
        assert_eq!(*got, (0..turns).fold(start, turn), "thread {thread}");
    }
    grid.instructions()
}

fn is_compiled_here() -> bool {
    cfg!(all(target_arch = "x86_64", target_os = "linux"))
}

#[test]
fn a_launch_with_a_long_loop_changes_while_it_runs() {
    let kernel = kernel();
    let first = interpreted(&kernel, 1, 32, 100_000);
    let second = interpreted(&kernel, 1, 32, 100_000);
    if is_compiled_here() {
        assert!(first > 0 && first < 10_000, "{first} steps of {}", 100_000 * 5);
        assert_eq!(second, 0, "all of the second launch is compiled");
    }
}

#[test]
fn blocks_without_a_long_loop_are_counted_together() {
    let kernel = kernel();
    let first = interpreted(&kernel, 6, 32, 200);
    assert!(!is_compiled_here() || first < 6 * 2 * 200 * 5, "{first} steps");
}

#[test]
fn what_ends_soon_is_not_compiled() {
    let kernel = kernel();
    for _ in 0..3 {
        assert!(interpreted(&kernel, 1, 32, 3) > 0);
    }
}

#[test]
fn a_last_warp_that_is_not_whole_is_compiled_too() {
    for threads in [1, 7, 15, 17, 31, 33, 100] {
        let kernel = kernel();
        let first = interpreted(&kernel, 1, threads, 20_000);
        let second = interpreted(&kernel, 1, threads, 20_000);
        if is_compiled_here() {
            assert!(first < 10_000, "{threads} threads: {first} steps");
            assert_eq!(second, 0, "{threads} threads");
        }
    }
}

#[test]
fn where_steps_are_counted_no_launch_changes_while_it_runs() {
    let kernel = kernel();
    let warps = 32 / kernel.code.width;
    let first = run(&kernel, [1, 32, 5000], true);
    assert!(first > u64::from(warps) * 5000 * 4, "{first} steps");
    let second = run(&kernel, [1, 32, 5000], true);
    assert!(!is_compiled_here() || second == 0, "{second} steps");
}
