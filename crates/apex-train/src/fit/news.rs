//! What training says while it works.

/// One thing that training says.
#[derive(Clone, Copy, Debug)]
pub enum News<'a> {
    /// What is being done: the step `done` of `all`, counted from one.
    Step {
        /// The work.
        what: &'a str,
        /// The step.
        done: usize,
        /// Steps in all.
        all: usize,
    },
    /// A sentence about what was found out.
    Found(&'a str),
}

/// Whoever hears it.
pub type Announce<'a> = dyn FnMut(News<'_>) + 'a;
