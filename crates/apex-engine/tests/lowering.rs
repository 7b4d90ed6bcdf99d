//! Every row of the table of newer features: the same bits on the newer chip and on the older ones.
//!
//! The engine executes newer instructions as they are. `APEX_LOWERING` says how many random kernels are compared.

#[path = "../examples/lowering/compare.rs"]
mod compare;
#[path = "../examples/lowering/forms.rs"]
mod forms;
#[path = "../examples/lowering/random.rs"]
mod random;
mod support;

use apex_ptx::lower::{Exact, FEATURES, Lowered};
use compare::{CHIPS, Line, Random, filled, kernel, lines, run, same, to_chip};
use forms::FORMS;
use std::collections::HashSet;

/// Lines of 10,240 threads for each form.
const BLOCKS: usize = 80;
/// Rows that a kernel of their own shows, below.
const ELSEWHERE: [&str; 3] =
    ["clusterlaunchcontrol", "mbarrier.try_wait", "cp.async.bulk.shared::cta.global"];

#[test]
fn every_form_gives_the_same_bits_on_older_chips() {
    let mut seen: HashSet<&str> = HashSet::from(ELSEWHERE);
    let mut wrong = Vec::new();
    for (nth, form) in FORMS.iter().enumerate() {
        let mut random = Random::new(nth as u64);
        let text = kernel(&[filled(form, &mut random)]);
        let input = lines(BLOCKS, &mut random);
        let direct = match run(&text, &input) {
            Ok(direct) => direct,
            Err(error) => {
                wrong.push(format!("{}: directly: {error}", form.text));
                continue;
            }
        };
        for chip in CHIPS {
            let checked = if chip >= form.oldest {
                same(&text, chip, &input, &direct)
            } else if chip >= form.near {
                near(&text, chip, &input, &direct)
            } else {
                match to_chip(&text, chip) {
                    Ok(_) => Err(format!("is brought down to sm_{chip}, and the list says not")),
                    Err(_) => continue,
                }
            };
            match checked {
                Ok(lowered) => seen.extend(lowered.changes.iter().map(|it| it.feature.name)),
                Err(error) => {
                    wrong.push(format!("{}: {error}", form.text));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} forms differ:\n{}", wrong.len(), wrong.join("\n"));
    let rows = FEATURES.iter().filter(|row| row.exact != Exact::Never).map(|row| row.name);
    let unseen: Vec<&str> = rows.filter(|row| !seen.contains(row)).collect();
    assert!(unseen.is_empty(), "rows without a form: {unseen:?}");
}

#[test]
fn random_kernels_give_the_same_bits_on_older_chips() {
    let kernels =
        std::env::var("APEX_LOWERING").ok().and_then(|count| count.parse().ok()).unwrap_or(150);
    for seed in 0..kernels {
        if let Err(error) = random::check(seed) {
            panic!("seed {seed}: {error}");
        }
    }
}

/// Compares sums of products on a chip that rounds them otherwise. Of products whose sums are exact in any order every bit
/// is the same, but for summands far below them. Of others no number becomes none, and at most one sum in a hundred is off
/// by more than 2^-14 of itself.
fn near(text: &str, chip: u32, input: &[Line], direct: &[u32]) -> Result<Lowered, String> {
    let lowered = to_chip(text, chip)?;
    let wrong = |what: String| Err(format!("sm_{chip}: {what}\n{}", lowered.text));
    let exact: Vec<Line> = input.iter().map(|it| Line(it.0.map(|it| it & 0x8F8F_8F8F))).collect();
    let differ = |(x, y): &(u32, u32)| x != y;
    let numbers = |(x, y): (u32, u32)| (f32::from_bits(x), f32::from_bits(y));
    let both = run(text, &exact)?.into_iter().zip(run(&lowered.text, &exact)?);
    // Summands are below 2^-90 here, and no product that is not zero is below 2^-40.
    let small = 2_f32.powi(-60);
    let mut off = both.filter(differ).map(numbers);
    if let Some((x, y)) = off.find(|(x, y)| x.abs().max(y.abs()) > small || x.is_nan()) {
        return wrong(format!("{y} instead of {x}"));
    }
    let both = direct.iter().copied().zip(run(&lowered.text, input)?);
    let mut far = 0;
    for (x, y) in both.filter(differ).map(numbers) {
        if x.is_nan() || y.is_nan() {
            return wrong(format!("{y} instead of {x}"));
        }
        far += usize::from((x - y).abs() > 2_f32.powi(-14) * x.abs());
    }
    let sums = input.len() * 4;
    if far * 100 > sums { wrong(format!("{far} of {sums} sums are off")) } else { Ok(lowered) }
}

/// A load whose address is one of its own results.
#[test]
fn a_wide_load_over_its_own_address_is_whole() {
    for place in 0..4 {
        let mut parts = ["%d0", "%d1", "%d2", "%d3"];
        parts[place] = "%input";
        let load = format!("ld.global.v4.b64 {{{}}}, [%input]", parts.join(", "));
        let keep = format!("mov.b64 %d{place}, %input");
        let text = kernel(&[load, keep]);
        let input = lines(1, &mut Random::new(5));
        let direct = run(&text, &input).expect("it runs");
        same(&text, 90, &input, &direct).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Ones times ones, with a scale of each row: byte 1 of the upper two lanes of a quad has those of its two rows.
#[test]
fn scales_come_from_the_lanes_that_are_named() {
    let text = ".version 8.7\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 output) {\n\
        .reg .b64 %out; .reg .b32 %lane, %scale, %one, %a, %b; .reg .f32 %d<4>;\n\
        ld.param.u64 %out, [output]; mov.u32 %lane, %laneid; mad.wide.u32 %out, %lane, 16, %out;\n\
        add.u32 %scale, %lane, 127; shl.b32 %scale, %scale, 8; mov.b32 %one, 0x7F7F7F7F; mov.b32 %a, 0x38383838;\n\
        mov.f32 %d0, 0f00000000; mov.f32 %d1, %d0; mov.f32 %d2, %d0; mov.f32 %d3, 0f3F800000;\n\
        mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0\n\
        {%d0, %d1, %d2, %d3}, {%a, %a, %a, %a}, {%a, %a}, {%d0, %d1, %d2, %d3}, %scale, {1, 1}, %one, {0, 0};\n\
        st.global.v4.f32 [%out], {%d0, %d1, %d2, %d3};\nret;\n}\n";
    let quads: Vec<f32> = (0..8).map(|quad| 32.0 * 2_f32.powi(4 * quad + 2)).collect();
    let expected: Vec<f32> = (0..32)
        .map(|lane| quads[lane / 4])
        .flat_map(|it| [it, it, 2.0 * it, 2.0 * it + 1.0])
        .collect();
    for chip in [120, 90, 80] {
        let lowered = if chip == 120 {
            text.into()
        } else {
            to_chip(text, chip).expect("it is brought down").text
        };
        let output = vec![0_f32; 128];
        support::Run::new(&lowered).buffer(&output).launch().expect("it runs");
        assert_eq!(*std::hint::black_box(output), expected, "sm_{chip}");
    }
}

/// A block that asks for more work is told that there is none.
#[test]
fn a_request_for_work_fails_as_it_may() {
    let text = ".version 8.6\n.target sm_100\n.address_size 64\n.visible .entry k(.param .u64 output) {\n\
        .reg .pred %p; .reg .b64 %out, %state; .reg .b32 %r, %x, %y, %z; .reg .b128 %answer;\n\
        .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;\n\
        ld.param.u64 %out, [output];\n\
        mbarrier.init.shared::cta.b64 [bar], 1;\n\
        mbarrier.arrive.expect_tx.shared::cta.b64 %state, [bar], 16;\n\
        clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];\n\
        again: mbarrier.try_wait.shared::cta.b64 %p, [bar], %state;\n@!%p bra again;\n\
        ld.shared.b128 %answer, [answer];\n\
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %answer;\n\
        selp.u32 %r, 1, 2, %p;\nst.global.u32 [%out], %r;\n\
        @%p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%x, %y, %z, _}, %answer;\n\
        st.global.u32 [%out+4], 7;\nret;\n}\n";
    let lowered = to_chip(text, 90).expect("it is brought down");
    for text in [text, &lowered.text] {
        let output = vec![0_u32; 2];
        support::Run::new(text).block(1).buffer(&output).launch().expect("it runs");
        assert_eq!(*std::hint::black_box(output), [2, 7], "{text}");
    }
}

/// A wait that may sleep becomes one that looks.
#[test]
fn a_wait_that_may_sleep_becomes_one_that_looks() {
    let text = ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 output) {\n\
        .reg .pred %p; .reg .b64 %out, %state; .reg .b32 %r;\n.shared .align 8 .b64 bar;\n\
        ld.param.u64 %out, [output];\nmov.u32 %r, %tid.x; setp.eq.u32 %p, %r, 0;\n\
        @%p mbarrier.init.shared.b64 [bar], 32;\nbar.sync 0;\n\
        mbarrier.arrive.shared.b64 %state, [bar];\n\
        again: mbarrier.try_wait.parity.shared.b64 %p, [bar], 0;\n@!%p bra again;\n\
        mad.wide.u32 %out, %r, 4, %out; st.global.u32 [%out], 9;\nret;\n}\n";
    let lowered = to_chip(text, 80).expect("it is brought down");
    assert!(lowered.text.contains("mbarrier.test_wait.parity"), "{}", lowered.text);
    let output = vec![0_u32; 32];
    support::Run::new(&lowered.text).buffer(&output).launch().expect("it runs");
    assert_eq!(*std::hint::black_box(output), [9; 32]);
}
