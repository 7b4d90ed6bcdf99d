//! A report is compared word for word: a change of wording is a change for the reader.

use super::*;
use crate::summary::{
    AllocSummary, CopySummary, DeviceSummary, ErrorSummary, Fit, GpuTime, LaunchBound,
    MemorySummary, OwnSummary, SyncSummary,
};

const LAYOUT: Layout = Layout { width: 100, colour: false };

fn summary() -> Summary {
    Summary {
        wall_ns: 12_300_000_000,
        gpu_phase_ns: 11_000_000_000,
        exit: Some(Exit { code: Some(0), signal: None }),
        calls: 130_000,
        launches: 120_000,
        kernels_executed: 140_000,
        graph_launches: 2_000,
        graph_kernels: 20_000,
        driver: Some("13.0".into()),
        devices: vec![DeviceSummary { name: "NVIDIA H200".into(), ..DeviceSummary::default() }],
        gpu_busy: Some(Busy {
            share: 0.414,
            basis: "event-pair".into(),
            timed: 812,
            covered: 0.98,
            ..Busy::default()
        }),
        launch_bound: Some(LaunchBound { share: 0.38, timed: 812, basis: "event-pair".into() }),
        kernels: vec![KernelSummary {
            name: "void at::native::copy<float>(float*)".into(),
            calls: 12_000,
            gpu: Some(GpuTime { share: 0.31, mean_ns: 4_100.0, ..GpuTime::default() }),
            fit: Some(Fit {
                occupancy: 0.5,
                limiter: "registers".into(),
                waves: 0.25,
                ..Fit::default()
            }),
            ..KernelSummary::default()
        }],
        memory: MemorySummary {
            device_peak_bytes: 3 << 30,
            kinds: vec![AllocSummary {
                kind: "plain".into(),
                peak_bytes: 3 << 30,
                ..AllocSummary::default()
            }],
            churn_per_second: Some(12.2),
            ..MemorySummary::default()
        },
        copies: vec![CopySummary {
            direction: "host-to-device".into(),
            count: 230,
            bytes: 1 << 30,
            pageable_count: 200,
            pageable_bytes: 1 << 29,
            ..CopySummary::default()
        }],
        syncs: SyncSummary { count: 340, waited_ns: 1_200_000_000, share_of_wall: 0.0976 },
        errors: vec![ErrorSummary {
            function: "cuMemAlloc_v2".into(),
            result: 2,
            name: "CUDA_ERROR_OUT_OF_MEMORY".into(),
            count: 3,
        }],
        own: OwnSummary {
            events: 130_812,
            mean_ns: Some(31.4),
            share_of_wall: Some(0.0021),
            ..OwnSummary::default()
        },
        ..Summary::default()
    }
}

#[test]
fn the_report_answers_first_and_names_its_own_cost_last() {
    let expected = "\
apex: GPU busy about 41 % of 11.0 s (from 812 timed launches, 98 % of all covered); launch-bound 38 % (812 timed)
  140,000 kernels executed: 120,000 launches, 20,000 through 2,000 graph launches; NVIDIA H200, CUDA 13.0; exit code 0
    time       calls      mean  occupancy                       kernel
    31 %      12,000   4.10 µs  50 % registers, 0.25 waves      at::native::copy<float>
  memory: peak 3.00 GiB on devices (peaks: plain 3.00 GiB); 12 allocations and frees a second in the steady phase
  copies: host-to-device 1.00 GiB in 230 (50 % pageable)
  waiting: 1.20 s in 340 synchronisations, 9.8 % of the wall time
  errors: cuMemAlloc_v2 CUDA_ERROR_OUT_OF_MEMORY × 3
  kept in /state/x
  apex itself: 130,812 events, 31 ns each, 0.2 % of the wall time with sampling and look-ups; 0 lost, 0 damaged, 0 failures
";
    assert_eq!(report(&summary(), Some("/state/x"), LAYOUT), expected);
}

#[test]
fn the_report_never_exceeds_fifteen_lines() {
    let mut full = summary();
    full.kernels = vec![full.kernels[0].clone(); 50];
    assert_eq!(report(&full, Some("/state/x"), LAYOUT).lines().count(), 14);
}

#[test]
fn what_was_not_measured_is_called_so() {
    let mut untimed = summary();
    untimed.gpu_busy = None;
    untimed.launch_bound = None;
    let first = report(&untimed, None, LAYOUT);
    assert!(
        first.starts_with("apex: GPU busy not measured over 11.0 s; launch-bound not measured\n")
    );
    untimed.soft = true;
    let first = report(&untimed, None, LAYOUT);
    assert!(first.contains("not measured (the software GPU: times are this CPU's)\n"), "{first}");
}

#[test]
fn a_program_without_cuda_is_told_why() {
    let none = Summary { command: vec!["ls".into()], ..Summary::default() };
    let text = report(&none, None, LAYOUT);
    assert!(text.contains("no CUDA call was seen") && text.contains("static, setuid"), "{text}");
}

#[test]
fn tables_are_cut_to_their_rows_and_say_so() {
    let mut full = summary();
    full.kernels = vec![full.kernels[0].clone(); 50];
    let text = table(&full, By::Kernel, 10, 100);
    assert_eq!(text.lines().count(), 12);
    assert!(text.ends_with("and 40 more; --json shows all\n"));
    assert_eq!(table(&full, By::Stream, 10, 100).lines().count(), 1);
}
