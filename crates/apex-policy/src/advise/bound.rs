//! What a program's time goes to, for one that no single change would make faster.
//!
//! Kernels come first: where they run for half of the time, the GPU is the bound, whatever the host does beside it. Where
//! none was timed, the waits for the GPU stand for them. Else the largest of what the host is known to do without
//! the GPU; what is left belongs to the host itself.

use super::evidence::Evidence;
use crate::amounts::percent;

/// The bound of a program's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// `gpu`, `launching`, `copies`, `loading` or `host`.
    pub by: &'static str,
    /// One sentence with the shares.
    pub sentence: String,
}

/// From this share on the GPU is the bound.
const BUSY: f64 = 0.5;

/// What bounds the program; nothing where it launched nothing.
#[must_use]
pub fn bound(evidence: &Evidence) -> Option<Bound> {
    if evidence.launch_count() == 0 {
        return None;
    }
    let waited_ns = evidence.waited_ns.min(evidence.phase_ns);
    let gpu_ns = evidence.busy_ns().unwrap_or(waited_ns);
    let gpu = evidence.share(gpu_ns);
    let copies_ns: f64 = evidence.copies.iter().map(|copies| copies.all.host_ns).sum();
    // A copy that found launches outstanding waited for them for the most part.
    let stalls = evidence.stalls.iter().filter(|stall| stall.function.starts_with("cuMemcpy"));
    let stalled_ns: f64 = stalls.map(|stall| stall.calls.host_ns).sum();
    let copies_ns = (copies_ns - stalled_ns).max(0.0);
    let launching_ns = evidence.launches.host_ns + evidence.graph_launches.host_ns;
    let launching_ns = launching_ns.min(evidence.phase_ns - gpu_ns);
    let parts = [
        ("launching", evidence.share(launching_ns)),
        ("copies", evidence.share(copies_ns)),
        ("loading", evidence.share(evidence.loading_ns)),
    ];
    let rest = 1.0 - gpu - parts.iter().map(|(_, share)| share).sum::<f64>();
    let most = parts
        .into_iter()
        .fold(("host", rest), |most, part| if part.1 > most.1 { part } else { most });
    let by = if gpu >= BUSY { "gpu" } else { most.0 };
    let (kernels, gpu_words) = match evidence.busy {
        Some(_) => (
            "kernels ran for",
            if evidence.soft { "the kernels, which this CPU runs" } else { "the GPU" },
        ),
        None => ("it waited for the GPU for", "the wait for the GPU"),
    };
    let name = match by {
        "gpu" => gpu_words,
        "launching" => "launch calls",
        "copies" => "copies",
        "loading" => "loading and compiling code",
        _ => "the host",
    };
    let [launching, copies, loading] = parts.map(|(_, share)| percent(share));
    let sentence = format!(
        "{name}: of the program's time {kernels} {}, launch calls took {launching}, copies {copies}, loading \
         {loading}",
        percent(gpu)
    );
    Some(Bound { by, sentence })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::{Busy, Calls, Copies, Stall};

    fn evidence(kernels_ns: f64, launches_ns: f64) -> Evidence {
        Evidence {
            program_ns: 1e9,
            phase_ns: 9e8,
            busy: Some(Busy { ns: kernels_ns, ..Busy::default() }),
            launches: Calls { count: 1000, host_ns: launches_ns },
            ..Evidence::default()
        }
    }

    #[test]
    fn the_largest_part_is_the_bound() {
        let of = |evidence: &Evidence| bound(evidence).map(|bound| bound.by);
        assert_eq!(of(&evidence(1.1e8, 5e7)), Some("host"));
        assert_eq!(of(&evidence(6e8, 9e8)), Some("gpu"));
        assert_eq!(of(&evidence(1e8, 6e8)), Some("launching"));
        assert_eq!(of(&Evidence { loading_ns: 7e8, ..evidence(1e8, 5e7) }), Some("loading"));
        let copies = Copies { all: Calls { count: 1, host_ns: 7e8 }, ..Copies::default() };
        let copied = Evidence { copies: vec![copies], ..evidence(1e8, 5e7) };
        assert_eq!(of(&copied), Some("copies"));
        let (function, calls) = ("cuMemcpyDtoH_v2".into(), copied.copies[0].all);
        let stalls = vec![Stall { function, calls, ..Stall::default() }];
        assert_eq!(of(&Evidence { stalls, ..copied }), Some("host"), "it waited for launches");
        let untimed = Evidence { busy: None, waited_ns: 8e8, ..evidence(1e8, 5e7) };
        let sentence = bound(&untimed).unwrap().sentence;
        assert!(
            sentence.starts_with("the wait for the GPU: of the program's time it waited"),
            "{sentence}"
        );
        assert_eq!(of(&Evidence::default()), None, "nothing was launched");
        let sentence = bound(&evidence(1.1e8, 5e7)).unwrap().sentence;
        assert!(
            sentence.starts_with("the host: of the program's time kernels ran for 11 %"),
            "{sentence}"
        );
    }
}
