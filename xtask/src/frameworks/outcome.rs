//! Reads what a program of `tests/frameworks` says of its cases.
//!
//! The first line names all of them. A case that is not spoken of after that has not passed: the program ended before.

/// How the cases ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) passed: usize,
    /// Cases in their order, each with its error.
    pub(super) failed: Vec<(String, String)>,
}

impl Outcome {
    /// How many there are.
    pub(super) fn all(&self) -> usize {
        self.passed + self.failed.len()
    }

    /// Reads a program's standard output; one that names no cases has failed as a whole.
    pub(super) fn read(said: &str) -> Outcome {
        let Some(cases) = said.lines().find_map(|line| line.strip_prefix("cases ")) else {
            let failed = vec![("start".into(), "the program ended before its first case".into())];
            return Outcome { passed: 0, failed };
        };
        let mut outcome = Outcome::default();
        for case in cases.split(' ') {
            let passed = format!("passed {case}");
            let failed = format!("failed {case}: ");
            if said.lines().any(|line| line == passed) {
                outcome.passed += 1;
            } else {
                let error = said.lines().find_map(|line| line.strip_prefix(&*failed));
                let error = error.unwrap_or("the program ended before");
                outcome.failed.push((case.to_owned(), error.to_owned()));
            }
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome;

    #[test]
    fn what_a_crash_cuts_off_has_not_passed() {
        let said = "Warp 1.19\ncases one two three four\npassed one\nfailed two: AssertionError: 1\npassed thr";
        let outcome = Outcome::read(said);
        let errors: Vec<&str> = outcome.failed.iter().map(|(_, error)| error.as_str()).collect();
        let before = "the program ended before";
        assert_eq!((outcome.passed, outcome.all()), (1, 4));
        assert_eq!(errors, ["AssertionError: 1", before, before]);
    }

    #[test]
    fn a_program_that_names_no_cases_has_failed() {
        assert_eq!(Outcome::read("").all(), 1);
        assert_eq!(Outcome::read("passed one\n").passed, 0);
    }
}
