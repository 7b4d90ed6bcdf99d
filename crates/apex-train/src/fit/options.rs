//! What to train, how long, and how much must be there to train from.

use crate::matmul::Threads;

/// Rows without which nothing is trained or judged.
pub(super) const LEAST_ROWS: usize = 100;
/// The share of times that intervals must hold.
pub(super) const SHARE: f32 = 0.8;

/// What to train and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything random comes from.
    pub seed: u64,
    /// Steps of learning how alike launches are.
    pub likeness_steps: usize,
    /// Trees of the forest for time.
    pub trees: usize,
    /// Epochs of the small network.
    pub small_epochs: usize,
    /// Epochs of the large network; none leaves it out.
    pub large_epochs: usize,
    /// Hidden layers of the large network.
    pub large_hidden: Vec<usize>,
    /// Epochs of the transformer that is trained for comparison; none leaves it out.
    pub transformer_epochs: usize,
    /// Threads for the large network.
    pub threads: Threads,
}

impl Options {
    /// The models that are shipped.
    #[must_use]
    pub fn full(seed: u64) -> Options {
        Options {
            seed,
            likeness_steps: 150,
            trees: 200,
            small_epochs: 200,
            large_epochs: 4,
            large_hidden: vec![448, 704, 320],
            transformer_epochs: 20,
            threads: Threads::all(),
        }
    }

    /// Enough to see that everything works, in seconds.
    #[must_use]
    pub fn quick(seed: u64) -> Options {
        Options {
            likeness_steps: 20,
            trees: 60,
            small_epochs: 30,
            large_epochs: 2,
            large_hidden: vec![64, 64],
            transformer_epochs: 2,
            ..Options::full(seed)
        }
    }
}
