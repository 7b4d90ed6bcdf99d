//! Forests grown from made-up programs, whose times follow a rule.

use super::*;
use crate::metrics::TimeScores;
use crate::random::Random;

const MACHINE: &str = "1 181/2:4:2:0 186/2:2:1:0 23/0:40:30:0 147/0:1:1:0";

/// Programs of kernels whose code says how slow they are.
fn rows(programs: u32) -> Vec<Row> {
    let mut random = Random::new(3);
    let mut rows = Vec::new();
    for program in 0..programs {
        for kernel in 0..4_u32 {
            let work = 1 + random.below(200) as u32;
            let identity = u64::from(program * 100 + kernel) + 1;
            for nth in 0..12 {
                let blocks = 1 << random.below(14);
                let nanos = 2_000.0 + f64::from(blocks) * f64::from(work) * 0.5;
                rows.push(Row {
                    source: format!("program{program}"),
                    kernel: format!("k{kernel}"),
                    identity,
                    device: "made up".into(),
                    major: 9,
                    multiprocessors: 132,
                    l2_bytes: 50 << 20,
                    grid_x: blocks,
                    grid_y: 1,
                    grid_z: 1,
                    block_x: 128,
                    block_y: 1,
                    block_z: 1,
                    registers: 32,
                    machine: MACHINE.replace(":40:", &format!(":{}:", 40 * work)),
                    basis: "cupti".into(),
                    order: nth,
                    first_ns: nanos,
                    runs: 3,
                    median_ns: nanos * (1.0 + 0.03 * f64::from(random.normal())),
                    ..Row::default()
                });
            }
        }
    }
    rows
}

fn peaks() -> BTreeMap<String, Peaks> {
    crate::peaks::peaks(&rows(1))
}

fn options() -> Options {
    Options { seed: 7, trees: 60 }
}

#[test]
fn unseen_programs_are_answered_by_their_code_and_by_other_shapes() {
    let (rows, peaks) = (rows(40), peaks());
    let grown = grow(&rows, &peaks, &options(), &mut |_| {}).unwrap();
    let table = judge(&grown.programs, &rows, &rows, &peaks, options().seed);
    let of = |split: &str| table.judged.iter().find(|one| one.split == split).unwrap();
    let first = of("machine code only, first sight");
    let blind = of("shape alone, first sight");
    let one = of("machine code only, after 1");
    assert!(first.forests.median_error < 0.5 * first.roofline.median_error, "{first:?}");
    assert!(one.forests.median_error < one.last_value.median_error, "{one:?}");
    // Without the code nobody can tell slow kernels from fast ones, and intervals say so.
    assert!(first.forests.median_error < blind.forests.median_error || blind.answered < 0.5);
    let coverage = first.by_program.unwrap();
    assert!((0.65..0.95).contains(&coverage), "{coverage}");
    let again = of("second run, first launches");
    assert!(again.forests.rows > 0 && again.forests.median_error < 0.05);
    assert_eq!(of("code with PTX, first sight").forests, TimeScores::default());
    let judged = rows.iter().filter(|row| is_judged(row, options().seed));
    assert!(
        judged.clone().count() > 0
            && judged.clone().all(|row| table.programs.contains(&row.source))
    );
}

#[test]
fn a_seed_decides_and_too_few_programs_are_refused() {
    let (rows, peaks) = (rows(14), peaks());
    let quick = Options { trees: 8, ..options() };
    let once = grow(&rows, &peaks, &quick, &mut |_| {}).unwrap();
    let twice = grow(&rows, &peaks, &quick, &mut |_| {}).unwrap();
    assert_eq!(once.programs, twice.programs);
    let few: Vec<Row> = rows.into_iter().filter(|row| row.source == "program1").collect();
    assert!(matches!(grow(&few, &peaks, &quick, &mut |_| {}), Err(Error::TooFew { .. })));
}

#[test]
fn variants_of_a_program_stay_together() {
    let of = |source: &str| program(&Row { source: source.into(), ..Row::default() }).to_owned();
    assert_eq!(
        (of("resnet50-float32"), of("resnet50-bfloat16-train")),
        ("resnet50".into(), "resnet50".into())
    );
    assert_eq!(of("operators-matmul"), "operators-matmul");
}
