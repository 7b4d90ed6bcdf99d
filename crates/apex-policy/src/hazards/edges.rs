//! From the launches on which each depends to the edges of a graph.

/// All launches that each depends on, through others too.
#[must_use]
pub fn ancestors(edges: &[u128]) -> Vec<u128> {
    let mut all: Vec<u128> = Vec::with_capacity(edges.len());
    for &edge in edges {
        let through = (0..all.len()).filter(|at| edge >> at & 1 != 0);
        let through = through.fold(edge, |found, at| found | all[at]);
        all.push(through);
    }
    all
}

/// The predecessors that no others imply.
#[must_use]
pub fn reduced(direct: &[u128]) -> Vec<u128> {
    let all = ancestors(direct);
    let reduce = |&edge: &u128| {
        let implied = (0..direct.len()).filter(|at| edge >> at & 1 != 0);
        edge & !implied.fold(0, |found, at| found | all[at])
    };
    direct.iter().map(reduce).collect()
}

/// Whether each launch follows the one before it, so that there is nothing to run at once.
#[must_use]
pub fn is_chain(edges: &[u128]) -> bool {
    edges.iter().enumerate().all(|(nth, &edge)| nth == 0 || edge == 1 << (nth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_imply_is_no_edge() {
        assert_eq!(reduced(&[0, 0, 0b1, 0b101]), [0, 0, 0b1, 0b100]);
        assert_eq!(ancestors(&[0, 0, 0b1, 0b100]), [0, 0, 0b1, 0b101]);
    }

    #[test]
    fn a_chain_has_nothing_to_run_at_once() {
        assert!(is_chain(&reduced(&[0, 0b1, 0b11, 0b101])));
        assert!(!is_chain(&reduced(&[0, 0, 0b11])));
        assert!(is_chain(&[]));
    }
}
