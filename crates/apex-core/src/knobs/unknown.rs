//! Says which variables look like settings of apex and are none, with the one that was probably meant.
//!
//! A mistyped name would otherwise do nothing, and nobody would know. The command alone looks: a program has its own
//! reasons for what stands in its environment.

use super::list;

/// Names that belong to apex's own tests.
const TESTS: &str = "APEX_TEST_";

/// A sentence for each name that begins like a setting and is none.
pub(super) fn unknown<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let known: Vec<&str> = list().iter().map(|knob| knob.variable).collect();
    let ours = |name: &&str| name.starts_with("APEX_") && !name.starts_with(TESTS);
    names
        .filter(|name| ours(name) && !known.contains(name))
        .map(|name| {
            let nearest = known.iter().map(|known| (distance(name, known), known)).min();
            match nearest {
                Some((edits, known)) if edits <= name.len() / 4 => {
                    format!("{name} is no setting of apex; {known} may be meant")
                }
                _ => format!("{name} is no setting of apex; apex --help lists them"),
            }
        })
        .collect()
}

/// Letters that must be added, removed or replaced to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (nth, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = nth + 1;
        for (place, against) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != against);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(row[place] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn a_mistyped_name_is_told_the_right_one() {
        let names =
            ["APEX", "APEX_TIMING", "PATH", "APEX_TEST_BIN", "APEXX", "APEX_TIMNG", "APEX_ZEBRA"];
        assert_eq!(
            unknown(names.into_iter()),
            [
                "APEX_TIMNG is no setting of apex; APEX_TIMING may be meant",
                "APEX_ZEBRA is no setting of apex; apex --help lists them",
            ]
        );
    }
}
