//! Copies of boxes of tensors: where each byte goes, what is filled, what is left alone.

mod support;

use apex_engine::TensorMap;
use support::Run;

const SHARED: usize = 8192;

/// A tensor of 16-bit numbers: 100 to a row, 12 rows, 3 planes, each row and plane padded.
const SIZES: [usize; 3] = [100, 12, 3];
const ROW: usize = 256;
const PLANE: usize = ROW * 13;

fn tensor() -> Vec<u16> {
    let mut all = vec![0xdead; PLANE * 3 / 2];
    for plane in 0..SIZES[2] {
        for row in 0..SIZES[1] {
            for column in 0..SIZES[0] {
                all[plane * PLANE / 2 + row * ROW / 2 + column] = value(column, row, plane);
            }
        }
    }
    all
}

fn value(column: usize, row: usize, plane: usize) -> u16 {
    (plane * 5000 + row * 128 + column + 1) as u16
}

fn map(data: &[u16], box_dim: [u32; 3], swizzle: u8) -> TensorMap {
    TensorMap {
        rank: 2,
        global_address: data.as_ptr() as u64,
        box_dim: [box_dim[0], box_dim[1], box_dim[2], 0, 0],
        global_dim: [SIZES[0] as u32, SIZES[1] as u32, SIZES[2] as u32, 0, 0],
        global_stride: [ROW as u64, PLANE as u64, 0, 0, 0],
        element_stride: [1; 5],
        // f16
        element: 6,
        swizzle,
        ..TensorMap::default()
    }
}

/// The element of the tensor, or `None` outside.
fn element([x, y, z]: [i32; 3]) -> Option<u16> {
    let inside = |at: i32, size: usize| (0..size as i32).contains(&at);
    let all = inside(x, SIZES[0]) && inside(y, SIZES[1]) && inside(z, SIZES[2]);
    all.then(|| value(x as usize, y as usize, z as usize))
}

/// Loads a box and gives shared memory as it is then; before it was all 0x5555.
fn loaded(map: &TensorMap, corner: [i32; 3], compiled: bool) -> Vec<u16> {
    let bytes = map.to_bytes();
    let size = map.copied(0) * map.copied(1) * map.copied(2) * 2;
    let out = vec![0u16; SHARED / 2];
    let text = format!(
        ".shared .align 1024 .b8 tile[{SHARED}]; .shared .align 8 .b64 gate;
        .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{
        .reg .b32 %t, %n, %x, %s; .reg .b64 %g, %at, %m; .reg .pred %p, %q;
        mov.u32 %t, %tid.x; mov.u32 %s, tile; mov.u32 %n, %t;
        fill: mad.lo.u32 %x, %n, 4, %s; st.shared.u32 [%x], 0x55555555; add.u32 %n, %n, 32;
        setp.lt.u32 %p, %n, {words}; @%p bra fill; bar.sync 0;
        setp.ne.u32 %p, %t, 0; @%p bra go;
        mbarrier.init.shared.b64 [gate], 1; fence.proxy.async;
        mbarrier.arrive.expect_tx.shared.b64 _, [gate], {size};
        mov.b64 %m, map; cvta.param.u64 %m, %m;
        cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile],
            [%m, {{{}, {}, {}}}], [gate];
        go: bar.sync 0;
        wait: mbarrier.try_wait.parity.shared::cta.b64 %q, [gate], 0; @!%q bra wait;
        ld.param.u64 %g, [out]; mov.u32 %n, %t;
        back: mad.lo.u32 %x, %n, 4, %s; ld.shared.u32 %x, [%x]; mad.wide.u32 %at, %n, 4, %g;
        st.global.u32 [%at], %x; add.u32 %n, %n, 32; setp.lt.u32 %p, %n, {words}; @%p bra back;
        ret; }}",
        corner[0],
        corner[1],
        corner[2],
        words = SHARED / 4
    );
    let run = bytes.chunks(8).fold(Run::new(&text), |run, word| {
        run.value64(u64::from_le_bytes(word.try_into().expect("eight bytes")))
    });
    run.compiled(compiled).buffer(&out).launch().unwrap_or_else(|fault| panic!("{fault}"));
    // The kernel wrote through the address.
    std::hint::black_box(out)
}

fn check_load(box_dim: [u32; 3], corner: [i32; 3], span: usize, outside: u16, steps: [u32; 3]) {
    let data = tensor();
    let swizzle = [16, 32, 64, 128].iter().position(|&known| known == span).expect("a swizzle");
    let mut map = map(&data, box_dim, swizzle as u8);
    map.element_stride[..3].copy_from_slice(&steps);
    map.fill = u8::from(outside != 0);
    let counts: [usize; 3] = std::array::from_fn(
        |n| if n == 0 { box_dim[0] } else { box_dim[n].div_ceil(steps[n]) } as usize,
    );
    let mut expected = vec![0x5555; SHARED / 2];
    for z in 0..counts[2] {
        for y in 0..counts[1] {
            for x in 0..counts[0] {
                let at = [x, y * steps[1] as usize, z * steps[2] as usize];
                let at = std::array::from_fn(|n| corner[n] + at[n] as i32);
                let row = z * counts[1] + y;
                // The 16 bytes of a row are permuted by the number of the 128 bytes it lies in.
                let byte = row * counts[0] * 2 + x * 2;
                let chunk = (byte / 16 % (span / 16)) ^ (byte / 128 % (span / 16));
                let place = byte / span * span + chunk * 16 + byte % 16;
                expected[place / 2] = element(at).unwrap_or(outside);
            }
        }
    }
    for compiled in [false, true] {
        let got = loaded(&map, corner, compiled);
        let differs = (0..got.len()).find(|&at| got[at] != expected[at]);
        let name = format!("{box_dim:?} {corner:?} {span} {compiled}");
        assert_eq!(differs.map(|at| (at, got[at], expected[at])), None, "{name}");
    }
}

#[test]
fn a_box_is_loaded_row_by_row() {
    check_load([32, 4, 2], [8, 3, 1], 16, 0, [1; 3]);
    check_load([8, 1, 1], [99, 11, 2], 16, 0, [1; 3]);
}

#[test]
fn the_rows_of_a_box_are_swizzled() {
    check_load([16, 9, 1], [0, 1, 0], 32, 0, [1; 3]);
    check_load([32, 9, 2], [5, 0, 0], 64, 0, [1; 3]);
    check_load([64, 12, 2], [16, 0, 1], 128, 0, [1; 3]);
}

#[test]
fn what_lies_outside_is_filled() {
    check_load([64, 6, 2], [80, 9, 2], 128, 0, [1; 3]);
    check_load([32, 4, 2], [-7, -2, -1], 64, 0, [1; 3]);
    check_load([32, 4, 1], [90, -1, 0], 16, 0x7fff, [1; 3]);
    check_load([8, 2, 1], [200, 0, 0], 16, 0, [1; 3]);
}

#[test]
fn a_step_leaves_rows_out() {
    check_load([16, 5, 3], [4, 2, 0], 16, 0, [1, 2, 2]);
}

#[test]
fn a_box_is_stored_and_added() {
    for (words, op) in [
        ("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group", None),
        ("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group", Some(1)),
    ] {
        let data = tensor();
        let mut map = map(&data, [32, 4, 1], 2);
        // u16
        map.element = 1;
        let bytes = map.to_bytes();
        let text = format!(
            ".shared .align 1024 .b8 tile[{SHARED}];
            .visible .entry k(.param .align 64 .b8 map[128]) {{
            .reg .b32 %t, %x, %s; .reg .b16 %h; .reg .b64 %m; .reg .pred %p;
            mov.u32 %t, %tid.x; mov.u32 %s, tile;
            mad.lo.u32 %x, %t, 4, %s; mad.lo.u32 %t, %t, 0x20002, 0x10000;
            st.shared.u32 [%x], %t; add.u32 %t, %t, 0x400040; st.shared.u32 [%x+128], %t;
            bar.sync 0; mov.u32 %t, %tid.x; setp.ne.u32 %p, %t, 0; @%p bra done;
            mov.b64 %m, map; cvta.param.u64 %m, %m;
            {words} [%m, {{90, 10, 1}}], [tile];
            cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
            done: ret; }}"
        );
        let run = bytes.chunks(8).fold(Run::new(&text), |run, word| {
            run.value64(u64::from_le_bytes(word.try_into().expect("eight bytes")))
        });
        run.launch().unwrap_or_else(|fault| panic!("{fault}"));
        let mut expected = tensor();
        // Of 32 columns 10 are inside, of 4 rows 2. Each row has 64 bytes: four times 16, of which the second row's
        // are not moved yet, as the pattern changes every 128 bytes.
        for row in 0..2 {
            for column in 0..10 {
                let at = PLANE / 2 + (10 + row) * ROW / 2 + 90 + column;
                let stored = (row * 32 + column) as u16;
                expected[at] = op.map_or(stored, |_| expected[at].wrapping_add(stored));
            }
        }
        let data = std::hint::black_box(data);
        let differs = (0..data.len()).find(|&at| data[at] != expected[at]);
        assert_eq!(differs.map(|at| (at, data[at], expected[at])), None, "{words}");
    }
}

#[test]
fn copies_go_to_several_blocks() {
    let data = tensor();
    let map = map(&data, [8, 1, 1], 0);
    let bytes = map.to_bytes();
    let row = (data.as_ptr() as u64) + (PLANE + 2 * ROW + 16) as u64;
    let bulk = format!("mov.b64 %m, {row};
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile], [%m], 16, [gate], %h;");
    let tensor = "mov.b64 %m, map; cvta.param.u64 %m, %m;
        cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [tile],
            [%m, {8, 2, 1}], [gate], %h;";
    for copy in [bulk.as_str(), tensor] {
        let out = vec![0u16; 4];
        let text = format!(
            ".shared .align 128 .b8 tile[128]; .shared .align 8 .b64 gate;
        .visible .entry k(.param .align 64 .b8 map[128], .param .u64 out) {{
        .reg .b32 %r, %x; .reg .b16 %h; .reg .b64 %g, %m; .reg .pred %p, %q;
        mov.u32 %r, %cluster_ctarank; mbarrier.init.shared.b64 [gate], 1;
        mov.u16 %h, 0; st.shared.u16 [tile], %h;
        setp.eq.u32 %p, %r, 1; @%p bra ready;
        mbarrier.arrive.expect_tx.shared.b64 _, [gate], 16;
        ready: barrier.cluster.arrive; barrier.cluster.wait;
        setp.ne.u32 %q, %r, 0; @%q bra loaded;
        mov.u16 %h, 13; {copy}
        loaded: @%p bra read;
        wait: mbarrier.try_wait.parity.shared::cta.b64 %q, [gate], 0; @!%q bra wait;
        read: ld.shared.u16 %h, [tile]; ld.param.u64 %g, [out]; mad.wide.u32 %g, %r, 2, %g;
        st.global.u16 [%g], %h; barrier.cluster.arrive; barrier.cluster.wait; ret; }}"
        );
        let run = bytes.chunks(8).fold(Run::new(&text), |run, word| {
            run.value64(u64::from_le_bytes(word.try_into().expect("eight bytes")))
        });
        run.grid(4)
            .block(1)
            .cluster(4)
            .buffer(&out)
            .launch()
            .unwrap_or_else(|fault| panic!("{fault}"));
        let there = value(8, 2, 1);
        assert_eq!(std::hint::black_box(out), [there, 0, there, there]);
    }
}

#[test]
fn what_is_not_known_is_named() {
    let data = tensor();
    for (change, reason) in [
        ((|map: &mut TensorMap| map.interleave = 1) as fn(&mut TensorMap), "interleaved"),
        (|map| map.swizzle = 3, "rows of 16 bytes with a swizzle of 128"),
        (|map| map.element = 40, "this type"),
        (|map| map.rank = 1, "2 dimensions"),
    ] {
        let mut map = map(&data, [8, 1, 1], 0);
        change(&mut map);
        let bytes = map.to_bytes();
        let text = ".shared .align 128 .b8 tile[128]; .shared .align 8 .b64 gate;
            .visible .entry k(.param .align 64 .b8 map[128]) { .reg .b64 %m;
            mbarrier.init.shared.b64 [gate], 1; mov.b64 %m, map; cvta.param.u64 %m, %m;
            cp.async.bulk.tensor.3d.shared::cta.global.mbarrier::complete_tx::bytes [tile],
                [%m, {0, 0, 0}], [gate]; ret; }";
        let run = bytes.chunks(8).fold(Run::new(text).block(1), |run, word| {
            run.value64(u64::from_le_bytes(word.try_into().expect("eight bytes")))
        });
        let fault = run.launch().expect_err("it is not known").to_string();
        assert!(fault.contains(reason), "{fault}");
    }
}
