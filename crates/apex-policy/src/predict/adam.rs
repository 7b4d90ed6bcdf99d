//! Adam: steps along the mean gradient, scaled by its size, for every weight on its own.

/// The state of one list of weights.
#[derive(Clone, Debug)]
pub struct Adam {
    mean: Vec<f32>,
    square: Vec<f32>,
    steps: i32,
}

const MEAN_DECAY: f32 = 0.9;
const SQUARE_DECAY: f32 = 0.999;
const TINY: f32 = 1e-8;

impl Adam {
    /// For so many weights.
    #[must_use]
    pub fn new(weights: usize) -> Adam {
        Adam { mean: vec![0.0; weights], square: vec![0.0; weights], steps: 0 }
    }

    /// One step. Decay pulls every weight towards zero apart from its gradient.
    pub fn step(&mut self, weights: &mut [f32], gradient: &[f32], rate: f32, decay: f32) {
        self.steps += 1;
        let rate_now = rate * (1.0 - SQUARE_DECAY.powi(self.steps)).sqrt()
            / (1.0 - MEAN_DECAY.powi(self.steps));
        let states = self.mean.iter_mut().zip(&mut self.square);
        for ((weight, gradient), (mean, square)) in weights.iter_mut().zip(gradient).zip(states) {
            *mean = MEAN_DECAY * *mean + (1.0 - MEAN_DECAY) * gradient;
            *square = SQUARE_DECAY * *square + (1.0 - SQUARE_DECAY) * gradient * gradient;
            *weight -= rate_now * *mean / (square.sqrt() + TINY) + rate * decay * *weight;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_bottom_of_a_bowl() {
        let (mut weights, mut adam) = (vec![5.0, -3.0], Adam::new(2));
        for _ in 0..2_000 {
            let gradient = [weights[0] - 1.0, 10.0 * (weights[1] - 2.0)];
            adam.step(&mut weights, &gradient, 0.01, 0.0);
        }
        assert!((weights[0] - 1.0).abs() < 1e-2 && (weights[1] - 2.0).abs() < 1e-2);
    }
}
