//! Maps of tensors: what the driver refuses, and that kernels copy what a map says.

mod support;

use core::ffi::c_void;
use core::ptr::null_mut;

use apex_cuda::types::*;
use support::{Gpu, ok};

/// Room for a map, aligned as the driver asks.
#[repr(C, align(64))]
struct Map([u64; 16]);

/// What is told of a tensor of words, 40 to a row, 30 rows.
#[derive(Clone)]
struct Told {
    kind: u32,
    rank: u32,
    address: u64,
    sizes: [u64; 2],
    stride: u64,
    tile: [u32; 2],
    steps: [u32; 2],
    interleave: u32,
    swizzle: u32,
    fill: u32,
}

const TOLD: Told = Told {
    // 32-bit integers.
    kind: 3,
    rank: 2,
    address: 0,
    sizes: [40, 30],
    stride: 160,
    tile: [8, 4],
    steps: [1, 1],
    interleave: 0,
    swizzle: 1,
    fill: 0,
};

impl Gpu {
    fn encode(&self, map: *mut Map, told: &Told) -> CUresult {
        // SAFETY: the lists have as many numbers as the rank says.
        unsafe {
            (self.driver.cuTensorMapEncodeTiled)(
                map.cast(),
                told.kind,
                told.rank,
                told.address as *mut c_void,
                told.sizes.as_ptr(),
                &raw const told.stride,
                told.tile.as_ptr(),
                told.steps.as_ptr(),
                told.interleave,
                told.swizzle,
                0,
                told.fill,
            )
        }
    }
}

#[test]
fn what_is_not_as_documented_is_refused() {
    let gpu = Gpu::start();
    let told = Told { address: gpu.memory(40 * 30 * 4), ..TOLD };
    let mut map = Map([0; 16]);
    assert_eq!(gpu.encode(&raw mut map, &told), CUDA_SUCCESS);
    let wrong: [fn(&mut Told); 11] = [
        |told| told.rank = 0,
        |told| told.rank = 6,
        |told| told.address += 4,
        |told| told.sizes[1] = 0,
        |told| told.stride = 164,
        |told| told.tile[0] = 257,
        |told| told.tile[0] = 3,
        |told| told.tile[0] = 16,
        |told| told.steps[1] = 9,
        |told| told.swizzle = 4,
        |told| told.fill = 1,
    ];
    for (number, change) in wrong.iter().enumerate() {
        let mut told = told.clone();
        change(&mut told);
        assert_eq!(gpu.encode(&raw mut map, &told), CUDA_ERROR_INVALID_VALUE, "{number}");
    }
    assert_eq!(gpu.encode(null_mut(), &told), CUDA_ERROR_INVALID_VALUE);
    let interleaved = Told { interleave: 1, ..told };
    assert_eq!(gpu.encode(&raw mut map, &interleaved), CUDA_ERROR_NOT_SUPPORTED);
}

const KERNEL: &str = ".version 8.4\n.target sm_90\n.address_size 64
    .visible .entry box(.param .align 64 .b8 map[128], .param .u64 out) {
    .reg .b32 %t, %x; .reg .b64 %at, %m; .reg .pred %p;
    .shared .align 256 .b8 tile[128]; .shared .align 8 .b64 gate;
    mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra ready;
    mbarrier.init.shared.b64 [gate], 1; mbarrier.arrive.expect_tx.shared.b64 _, [gate], 128;
    mov.b64 %m, map; cvta.param.u64 %m, %m;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%m, {36, 28}], [gate];
    ready: bar.sync 0;
    wait: mbarrier.try_wait.parity.shared::cta.b64 %p, [gate], 0; @!%p bra wait;
    mov.u32 %x, tile; mad.lo.u32 %x, %t, 4, %x; ld.shared.u32 %x, [%x];
    ld.param.u64 %at, [out]; mad.wide.u32 %at, %t, 4, %at; st.global.u32 [%at], %x; ret; }\0";

#[test]
fn a_kernel_copies_what_the_map_says() {
    let gpu = Gpu::start();
    let (tensor, other, out) = (gpu.memory(4800), gpu.memory(4800), gpu.memory(128));
    for (address, salt) in [(tensor, 1), (other, 5000)] {
        let words: Vec<u32> = (0..1200).map(|word| word + salt).collect();
        ok!((gpu.driver.cuMemcpyHtoD_v2)(address, words.as_ptr().cast(), 4800));
    }
    let mut map = Map([0; 16]);
    // Rows of 32 bytes: the swizzle moves 16 bytes in every second 128 of them from a multiple of 256, so not yet here.
    assert_eq!(gpu.encode(&raw mut map, &Told { address: tensor, ..TOLD }), CUDA_SUCCESS);
    let (mut module, mut function) = (null_mut(), null_mut());
    ok!((gpu.driver.cuModuleLoadData)(&raw mut module, KERNEL.as_ptr().cast()));
    ok!((gpu.driver.cuModuleGetFunction)(&raw mut function, module, c"box".as_ptr()));
    for (address, salt) in [(tensor, 1), (other, 5000)] {
        ok!((gpu.driver.cuTensorMapReplaceAddress)((&raw mut map).cast(), address as *mut c_void));
        let mut out_argument = out;
        let mut arguments: [*mut c_void; 2] =
            [(&raw mut map).cast(), (&raw mut out_argument).cast()];
        ok!((gpu.driver.cuLaunchKernel)(
            function,
            1,
            1,
            1,
            32,
            1,
            1,
            0,
            null_mut(),
            arguments.as_mut_ptr(),
            null_mut(),
        ));
        assert_eq!(gpu.synchronize(), CUDA_SUCCESS);
        let mut got = [0_u32; 32];
        ok!((gpu.driver.cuMemcpyDtoH_v2)(got.as_mut_ptr().cast(), out, 128));
        // Of the box's 8 columns 4 are inside, of its 4 rows 2.
        let expected: Vec<u32> = (0..32)
            .map(|at| (at % 8, at / 8))
            .map(|(x, y)| if x < 4 && y < 2 { (28 + y) * 40 + 36 + x + salt } else { 0 })
            .collect();
        assert_eq!(got, expected.as_slice());
    }
}
