//! A report is compared word for word: a change of wording is a change for the reader.

use super::*;
use crate::summary::{
    AllocSummary, CopySummary, DeviceSummary, DirectLaunches, ErrorSummary, FastSummary, Fit,
    GpuTime, LaunchBound, LaunchCostsSummary, LoadSummary, MemorySummary, OverlapSummary,
    OwnSummary, PoolSummary, SpecialisedSummary, SyncSummary, UnprovenKernel,
};

const LAYOUT: Layout = Layout { width: 100, colour: false };

fn kernel() -> KernelSummary {
    KernelSummary {
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
    }
}

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
        launch_bound: Some(LaunchBound {
            share: 0.38,
            found_idle: 0.9,
            timed: 812,
            basis: "event-pair".into(),
        }),
        kernels: vec![kernel()],
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
        syncs: SyncSummary {
            count: 340,
            waited_ns: 1_200_000_000,
            blocking_copies: 12,
            blocking_copies_ns: 300_000_000,
            share_of_wall: 0.122,
        },
        loads: LoadSummary {
            count: 1,
            host_ns: 19_000_000,
            first_launches: 3,
            first_launch_ns: 85_200_000,
            ..LoadSummary::default()
        },
        errors: vec![ErrorSummary {
            function: "cuMemAlloc_v2".into(),
            result: 2,
            name: "CUDA_ERROR_OUT_OF_MEMORY".into(),
            count: 3,
        }],
        own: OwnSummary {
            events: 130_812,
            median_ns: Some(31.4),
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
  waiting: 1.20 s in 340 synchronisations and 300 ms in 12 blocking copies, 12 % of the wall time; loading: 19.0 ms in 1 module or library, 85.2 ms in the first launches of 3 kernels
  errors: cuMemAlloc_v2 CUDA_ERROR_OUT_OF_MEMORY × 3
  kept in /state/x
  apex itself: 130,812 events, 31 ns each, 0.2 % of the wall time with sampling and look-ups; 0 lost, 0 damaged, 0 failures
";
    assert_eq!(report(&summary(), Some("/state/x"), LAYOUT), expected);
}

fn fast_lines(fast: FastSummary) -> Vec<String> {
    let summary = Summary { fast: Some(fast), ..summary() };
    let text = report(&summary, None, LAYOUT);
    text.lines().filter(|line| line.starts_with("  fast:")).map(str::to_owned).collect()
}

#[test]
fn two_lines_say_what_the_queue_did() {
    let direct = |reason: &str, launches| DirectLaunches { reason: reason.into(), launches };
    let fast = FastSummary {
        words: "launch".into(),
        has_queue: true,
        queued: 98_000,
        in_graphs: 90_000,
        graph_launches: 900,
        changed_nodes: 4_500,
        graphs: 12,
        direct: vec![
            direct("idle", 1_500),
            direct("first", 400),
            direct("form", 90),
            direct("new", 10),
        ],
        lag_ns: Some(3_210.0),
        saved_ns: Some(240_000_000),
        costs: Some(LaunchCostsSummary::default()),
        ..FastSummary::default()
    };
    let expected = [
        "  fast: 98,000 of 100,000 launches queued, 90,000 of them sent as 900 graph launches; 2,000 directly: \
         1,500 with nothing waiting, 400 first of their kind, 90 of a form that cannot wait, 10 for other reasons",
        "  fast: a queued launch was sent 3.21 µs (median) after its call; 12 graphs made, 5.0 % of their nodes \
         changed between launches; about 240 ms of launching saved, as launches cost an H200",
    ];
    assert_eq!(fast_lines(fast.clone()), expected);
    let costs = Some(LaunchCostsSummary { measured_here: true, ..LaunchCostsSummary::default() });
    let lost = FastSummary { saved_ns: Some(-2_000), costs, failed: 1, lag_ns: None, ..fast };
    let said = fast_lines(lost).pop().unwrap();
    assert!(said.ends_with("about 2.00 µs of launching lost, as launches cost here; 1 queued call refused by the driver"), "{said}");
}

#[test]
fn a_queue_that_was_not_there_has_its_reason() {
    let strict = FastSummary { words: "launch,strict".into(), ..FastSummary::default() };
    let expected = [
        "  fast: no launch waited in a queue: strict, so each call waited for the driver's answer",
    ];
    assert_eq!(fast_lines(strict), expected);
    let alone = FastSummary { words: "launch".into(), ..FastSummary::default() };
    assert!(fast_lines(alone)[0].contains("one processor"));
    let unused = FastSummary { words: "launch".into(), has_queue: true, ..FastSummary::default() };
    assert_eq!(fast_lines(unused), ["  fast: 0 of 0 launches queued"]);
    let of_memory = FastSummary { words: "memory".into(), ..FastSummary::default() };
    assert!(fast_lines(of_memory).is_empty());
}

#[test]
fn a_line_says_what_the_pool_did() {
    let pool = PoolSummary {
        served: 90,
        asked: 10,
        given_back: 1,
        stream_waits: 2,
        peak_bytes: 2 << 20,
        held_bytes: 3 << 20,
        kept_pools: 0,
    };
    let fast = FastSummary { words: "memory".into(), pool: Some(pool), ..FastSummary::default() };
    let expected = "  fast: 90 of 100 allocations served from freed memory; 3.00 MiB held at most, where the program alone \
                    had 2.00 MiB; 1 block given back to the driver; a stream waited for another 2 times because of it";
    assert_eq!(fast_lines(fast.clone()), [expected]);
    let kept = FastSummary {
        pool: Some(PoolSummary { kept_pools: 1, ..PoolSummary::default() }),
        ..fast.clone()
    };
    assert_eq!(fast_lines(kept), ["  fast: 1 stream-ordered pool kept what was freed"]);
    let unused =
        FastSummary { pool: Some(PoolSummary { asked: 3, ..PoolSummary::default() }), ..fast };
    assert_eq!(fast_lines(unused), [""; 0]);
}

#[test]
fn a_line_says_what_ran_at_once() {
    let unproven = vec![DirectLaunches { reason: "text".into(), launches: 3 }];
    let kernel = UnprovenKernel { kernel: "walk".into(), reason: "text".into(), launches: 3 };
    let overlap = OverlapSummary {
        looked: 10,
        proven: 7,
        unproven,
        branched: 1,
        beside: 1_200,
        fell_back: 4,
        kept: 2,
        saved_ns: 3_000_000,
        read_after_write: 12,
        write_after_write: 1_000,
        kernels: vec![kernel],
        ..OverlapSummary::default()
    };
    let words = "memory,overlap".into();
    let fast = FastSummary { words, overlap: Some(overlap), ..FastSummary::default() };
    let expected = "  fast: 1,200 kernels launched in 1 graph with branches; what they touch is proven of 7 of 10 in new \
                    graphs; not of others: text 3; 4 as a chain, as branches did not hold; branches are faster in 2 graphs and took \
                    about 3.00 ms less";
    let kept = "  fast: order kept in new graphs: read after write 12, write after write 1,000, walk not proven (text)";
    assert_eq!(fast_lines(fast), [expected, kept]);
}

#[test]
fn a_line_says_which_kernels_were_compiled_again() {
    let found = SpecialisedSummary {
        launches: 12_000,
        tried: 3,
        won: 2,
        lost: 1,
        left: 4,
        saved_ns: 240_000_000,
        kernels: Vec::new(),
    };
    let fast = |found| FastSummary {
        words: "specialise".into(),
        specialised: Some(found),
        ..FastSummary::default()
    };
    let expected = "  fast: 3 kernels compiled again for what they are called with, 2 kept, 4 left alone; 12,000 launches \
                    ran them and took about 240 ms less";
    assert_eq!(fast_lines(fast(found)), [expected]);
    let expected = "  fast: 0 kernels compiled again for what they are called with, 0 kept";
    assert_eq!(fast_lines(fast(SpecialisedSummary::default())), [expected]);
}

#[test]
fn what_is_missing_is_said_first_and_every_count_is_at_least() {
    let mut lossy = summary();
    lossy.own.lost = 265_068;
    lossy.own.not_kept = 1;
    let expected = "\
apex: 265,068 events lost, so every count is at least what is said, 1 event not kept on disk; GPU busy at least about 41 % of 11.0 s (from 812 timed launches, 98 % of all covered); launch-bound at least 38 % (812 timed)
  at least 140,000 kernels executed: at least 120,000 launches, at least 20,000 through at least 2,000 graph launches; NVIDIA H200, CUDA 13.0; exit code 0
    time       calls      mean  occupancy                       kernel
    31 %     ≥12,000   4.10 µs  50 % registers, 0.25 waves      at::native::copy<float>
  memory: peak about 3.00 GiB on devices (peaks: plain 3.00 GiB); at least 12 allocations and frees a second in the steady phase
  copies: host-to-device at least 1.00 GiB in at least 230 (50 % pageable)
  waiting: at least 1.20 s in at least 340 synchronisations and at least 300 ms in at least 12 blocking copies, at least 12 % of the wall time; loading: at least 19.0 ms in at least 1 module or library, at least 85.2 ms in the first launches of at least 3 kernels
  errors: cuMemAlloc_v2 CUDA_ERROR_OUT_OF_MEMORY × at least 3
  apex itself: 130,812 events, 31 ns each, 0.2 % of the wall time with sampling and look-ups; 265,068 lost, 0 damaged, 0 failures, 1 not kept on disk
";
    assert_eq!(report(&lossy, None, LAYOUT), expected);
    assert!(table(&lossy, By::Kernel, 10, LAYOUT).contains("≥12,000"));
    let mut nameless = summary();
    nameless.own.facts_lost = 1;
    let text = report(&nameless, None, LAYOUT);
    assert!(text.starts_with("apex: 1 fact lost, so kernels may lack their names; GPU busy about"));
    assert!(!text.contains("at least"), "{text}");
}

#[test]
fn one_of_a_kind_is_not_called_several() {
    let mut one = summary();
    (one.kernels_executed, one.launches, one.graph_launches, one.graph_kernels) = (1, 1, 0, 0);
    one.gpu_busy.as_mut().unwrap().timed = 1;
    (one.syncs.count, one.syncs.blocking_copies) = (1, 1);
    (one.loads.first_launches, one.own.events, one.own.failures) = (1, 1, 1);
    let text = report(&one, None, LAYOUT);
    for words in [
        "from 1 timed launch,",
        "  1 kernel executed;",
        "in 1 synchronisation and",
        "in 1 blocking copy,",
        "in 1 module or library,",
        "in the first launch of 1 kernel",
        "apex itself: 1 event,",
        "1 failure",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn the_report_never_exceeds_fifteen_lines() {
    let mut full = summary();
    full.kernels = vec![full.kernels[0].clone(); 50];
    assert_eq!(report(&full, Some("/state/x"), LAYOUT).lines().count(), 14);
}

#[test]
fn a_count_that_is_a_bound_is_called_so() {
    let open = Summary { open_graph_launches: 12, ..summary() };
    let text = report(&open, None, LAYOUT);
    let expected = "  at least 140,000 kernels executed: 120,000 launches, 20,000 through 2,000 graph launches \
        (in 12 of them the GPU decided what else ran: conditional nodes, launches by kernels); NVIDIA";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn a_hang_names_its_call() {
    let call = |pid, tid, function: &str, host_ns| UnderWay {
        pid,
        tid,
        function: function.into(),
        host_ns,
    };
    let mut hung = summary();
    hung.under_way = vec![call(7, 1234, "cuCtxSynchronize", Some(12_300_000_000))];
    let text = report(&hung, None, LAYOUT);
    let expected = "\n  when it ended, thread 1234 was in cuCtxSynchronize for 12.3 s\n";
    assert!(text.contains(expected), "{text}");
    hung.processes = 2;
    hung.under_way = vec![call(7, 8, "cuMemFree_v2", None); 5];
    let one = "thread 8 of process 7 was in cuMemFree_v2";
    let expected =
        format!("\n  when it ended, {one}, {one}, {one}, 2 more threads were in calls\n");
    assert!(report(&hung, None, LAYOUT).contains(&expected), "{}", report(&hung, None, LAYOUT));
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
    let text = table(&full, By::Kernel, 10, LAYOUT);
    assert_eq!(text.lines().count(), 12);
    assert!(text.ends_with("and 40 more; --json shows all\n"));
    assert_eq!(table(&full, By::Stream, 10, LAYOUT).lines().count(), 1);
}

/// The text without the codes of colour, and those codes.
fn split(text: &str) -> (String, Vec<&str>) {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    let mut codes = Vec::new();
    for part in parts {
        let (code, words) = part.split_once('m').unwrap();
        codes.push(code);
        plain.push_str(words);
    }
    (plain, codes)
}

#[test]
fn colour_adds_to_the_words_and_changes_none() {
    let coloured = Layout { colour: true, ..LAYOUT };
    let mut full = summary();
    full.kernels.push(KernelSummary {
        name: "rare".into(),
        gpu: Some(GpuTime { share: 0.002, ..GpuTime::default() }),
        ..KernelSummary::default()
    });
    let text = report(&full, Some("/state/x"), coloured);
    let (plain, codes) = split(&text);
    assert_eq!(plain, report(&full, Some("/state/x"), LAYOUT));
    // The answer, exit code 0, the heading, a large share, a small one, errors, the place, our own cost.
    assert_eq!(codes.join(" "), "1 0 32 0 2 0 1 0 2 0 31 0 2 0 2 0");
    for by in [By::Kernel, By::Config, By::Stream, By::Thread] {
        assert_eq!(split(&table(&full, by, 10, coloured)).0, table(&full, by, 10, LAYOUT));
    }
    let rows = table(&full, By::Kernel, 10, coloured);
    assert!(
        rows.contains("\n\x1b[1m 31 %\x1b[0m ") && rows.contains("\n\x1b[2m0.2 %\x1b[0m "),
        "{rows}"
    );
}

#[test]
fn what_went_wrong_stands_out() {
    let coloured = Layout { colour: true, ..LAYOUT };
    let mut bad = summary();
    bad.exit = Some(Exit { code: None, signal: Some(9) });
    bad.own.lost = 3;
    let text = report(&bad, None, coloured);
    assert!(text.contains("\x1b[31mkilled by signal 9\x1b[0m"), "{text}");
    assert!(text.contains("\x1b[33m  apex itself"), "{text}");
    let none = Summary { command: vec!["ls".into()], ..Summary::default() };
    assert!(report(&none, None, coloured).starts_with("\x1b[33mapex: no CUDA call"));
}
