//! Where each launch stands: when it begins, and in which lane.

/// A launch in its lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Placed {
    pub(super) begin: f64,
    pub(super) end: f64,
    pub(super) lane: usize,
}

/// Each launch begins when those before it are done, in the lane of the last of them if that is free. `before` names
/// earlier launches alone.
pub(super) fn placed(durations: &[f64], before: &[Vec<usize>]) -> Vec<Placed> {
    let mut lanes: Vec<f64> = Vec::new();
    let mut all: Vec<Placed> = Vec::with_capacity(durations.len());
    for (duration, before) in durations.iter().zip(before) {
        let last =
            before.iter().copied().max_by(|&one, &other| all[one].end.total_cmp(&all[other].end));
        let begin = last.map_or(0.0, |last| all[last].end);
        let own = last.map(|last| all[last].lane).filter(|&lane| lanes[lane] <= begin);
        let lane =
            own.or_else(|| lanes.iter().position(|&end| end <= begin)).unwrap_or_else(|| {
                lanes.push(0.0);
                lanes.len() - 1
            });
        lanes[lane] = begin + duration;
        all.push(Placed { begin, end: begin + duration, lane });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_depends_on_nothing_gets_a_lane_of_its_own() {
        let before = [vec![], vec![], vec![1], vec![0, 2]];
        let found = placed(&[10.0, 5.0, 5.0, 1.0], &before);
        let at = |begin, end, lane| Placed { begin, end, lane };
        assert_eq!(found[..3], [at(0.0, 10.0, 0), at(0.0, 5.0, 1), at(5.0, 10.0, 1)]);
        assert_eq!((found[3].begin, found[3].end), (10.0, 11.0));
    }

    #[test]
    fn a_chain_has_one_lane() {
        let found = placed(&[2.0, 3.0, 4.0], &[vec![], vec![0], vec![1]]);
        assert!(found.iter().all(|it| it.lane == 0));
        assert_eq!(found[2], Placed { begin: 5.0, end: 9.0, lane: 0 });
    }
}
