//! Textures and surfaces, and `wmma`.

mod support;

use apex_engine::{AddressMode, Channel, Filter, Image, Surface, Texture};
use support::{Run, check_all};

fn image(data: &[f32], width: u32, height: u32) -> Image {
    Image {
        data: data.as_ptr() as u64,
        width,
        height,
        depth: 1,
        row_bytes: u64::from(width) * 4,
        slice_bytes: u64::from(width * height) * 4,
        channels: 1,
        bits: 32,
        channel: Channel::Float,
    }
}

fn texture(image: Image) -> Texture {
    Texture {
        image,
        coarser: Vec::new(),
        address: [AddressMode::Clamp; 3],
        filter: Filter::Point,
        level_filter: Filter::Point,
        normalized: false,
        normalized_float: false,
        srgb: false,
        border: [0.0; 4],
        level_bias: 0.0,
        level_least: 0.0,
        level_most: 0.0,
    }
}

/// Samples at (x, y) with one thread.
fn sample(texture: &Texture, x: f32, y: f32) -> [f32; 4] {
    let text = ".visible .entry k(.param .u64 t, .param .u64 o, .param .f32 x, .param .f32 y) {
        .reg .b64 %rd<4>; .reg .f32 %f<8>;
        ld.param.u64 %rd1, [t]; ld.param.u64 %rd2, [o]; ld.param.f32 %f1, [x]; ld.param.f32 %f2, [y];
        tex.2d.v4.f32.f32 {%f3,%f4,%f5,%f6}, [%rd1, {%f1, %f2}];
        st.global.v4.f32 [%rd2], {%f3,%f4,%f5,%f6}; ret; }";
    #[repr(align(16))]
    struct Out([f32; 4]);
    let out = Out([9.0; 4]);
    Run::new(text)
        .block(1)
        .value64(&raw const *texture as u64)
        .buffer(&out.0)
        .value(x.to_bits())
        .value(y.to_bits())
        .launch()
        .expect("the kernel runs");
    // SAFETY: plain numbers, written by the kernel through their address.
    unsafe { (&raw const out.0).read_volatile() }
}

#[test]
fn points_and_lines() {
    let data = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut it = texture(image(&data, 3, 2));
    assert_eq!(sample(&it, 1.2, 1.9), [5.0, 0.0, 0.0, 0.0]);
    assert_eq!(sample(&it, -7.0, 9.0)[0], 4.0);
    it.filter = Filter::Linear;
    assert_eq!(sample(&it, 1.0, 0.5)[0], 1.5);
    assert_eq!(sample(&it, 1.0, 1.0)[0], 3.0);
    // A third is 85 of 256 parts.
    assert_eq!(sample(&it, 0.5 + 1.0 / 3.0, 0.5)[0], 1.0 + 85.0 / 256.0);
    it.address = [AddressMode::Border; 3];
    assert_eq!(sample(&it, 0.0, 0.5)[0], 0.5);
    it.filter = Filter::Point;
    it.normalized = true;
    it.address = [AddressMode::Wrap; 3];
    assert_eq!(sample(&it, 1.4, 0.1)[0], 2.0);
    it.address = [AddressMode::Mirror; 3];
    assert_eq!(sample(&it, -0.1, 0.1)[0], 1.0);
}

#[test]
fn bytes_read_as_fractions() {
    let bytes = [255u8, 0, 51, 102];
    let mut it = texture(Image {
        data: bytes.as_ptr() as u64,
        width: 1,
        height: 1,
        depth: 1,
        row_bytes: 4,
        slice_bytes: 4,
        channels: 4,
        bits: 8,
        channel: Channel::Unsigned,
    });
    it.normalized_float = true;
    assert_eq!(sample(&it, 0.5, 0.5), [1.0, 0.0, 0.2, 0.4]);
}

#[test]
fn surfaces_are_written_and_measured() {
    let data = [0f32; 6];
    let surface = Surface { image: image(&data, 3, 2) };
    let text =
        ".visible .entry k(.param .u64 s, .param .u64 o) { .reg .b64 %rd<4>; .reg .b32 %r<8>;
        ld.param.u64 %rd1, [s]; ld.param.u64 %rd2, [o];
        mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; add.u32 %r3, %r1, 7; mov.u32 %r4, 1;
        sust.b.2d.b32.trap [%rd1, {%r2, %r4}], {%r3};
        suq.width.b32 %r5, [%rd1]; st.global.u32 [%rd2], %r5;
        suld.b.2d.b32.zero {%r6}, [%rd1, {100, 0}]; st.global.u32 [%rd2+4], %r6; ret; }";
    let out = [9u32; 2];
    let run = Run::new(text).block(3).value64(&raw const surface as u64).buffer(&out);
    run.launch().unwrap();
    // SAFETY: plain numbers, written by the kernel through their address.
    let (data, out) =
        unsafe { ((&raw const data).read_volatile(), (&raw const out).read_volatile()) };
    assert_eq!(data.map(f32::to_bits), [0, 0, 0, 7, 8, 9]);
    assert_eq!(out, [3, 0]);
    let fault = Run::new(text).block(4).value64(&raw const surface as u64).buffer(&out).launch();
    assert!(fault.unwrap_err().to_string().contains("thread (3,0,0)"));
}

#[test]
fn a_wmma_product_goes_through_memory() {
    // A is 2 everywhere, B is 0.5 everywhere: the product is 16, plus 1.
    check_all(
        "mov.u32 %r2, space; mad.lo.u32 %r3, %r1, 16, %r2; mov.u32 %r4, 0x40004000;
        st.shared.v4.u32 [%r3], {%r4,%r4,%r4,%r4}; mov.u32 %r4, 0x38003800; st.shared.v4.u32 [%r3+512], {%r4,%r4,%r4,%r4};
        bar.sync 0; mov.u32 %r5, 16;
        wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%r2], %r5;
        add.u32 %r6, %r2, 512;
        wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%r18,%r19,%r20,%r21,%r22,%r23,%r24,%r25}, [%r6], %r5;
        mov.f32 %f1, 0f3F800000;
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f2,%f3,%f4,%f5,%f6,%f7,%f8,%f9}, {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, {%r18,%r19,%r20,%r21,%r22,%r23,%r24,%r25}, {%f1,%f1,%f1,%f1,%f1,%f1,%f1,%f1};
        add.u32 %r7, %r2, 2048;
        wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%r7], {%f2,%f3,%f4,%f5,%f6,%f7,%f8,%f9}, %r5;
        bar.sync 0; mad.lo.u32 %r8, %r1, 32, %r7; ld.shared.u32 %r0, [%r8+12];",
        0,
        17f32.to_bits(),
    );
}
