//! Numbers that look random and are the same in every run.

/// A generator by its seed (xorshift with a multiplication).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Between 0 and 1, neither reached.
    pub fn part(&mut self) -> f64 {
        ((self.next_bits() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// A whole number from `least` to below `end`.
    pub fn within(&mut self, least: u64, end: u64) -> u64 {
        least + (self.part() * (end.saturating_sub(least)) as f64) as u64
    }

    /// Arrivals of a Poisson process until `end_ns`.
    pub fn poisson(&mut self, per_second: f64, end_ns: u64) -> Vec<u64> {
        let mut arrivals = Vec::new();
        let mut time = 0.0;
        loop {
            time -= self.part().ln() / per_second * 1e9;
            if time >= end_ns as f64 {
                return arrivals;
            }
            arrivals.push(time as u64);
        }
    }

    /// A factor around 1 whose logarithm (base e) has that standard deviation.
    pub fn spread(&mut self, deviation: f64) -> f64 {
        let normal = (-2.0 * self.part().ln()).sqrt() * (std::f64::consts::TAU * self.part()).cos();
        (normal * deviation).exp()
    }
}
