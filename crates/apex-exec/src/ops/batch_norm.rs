//! Batch normalisation over [batch, channels, plane] tensors, for training and for inference.
//!
//! Training makes the statistics of each channel in parts, joins them, and reads the input a second time to
//! normalise it. Statistics, gamma and beta are in the type that is computed in.

use super::rows::on_borders;
use super::{Norm, Ops, kernels};
use crate::buffer::{Buffer, Readable, View, ViewMut, Writable};
use crate::error::Result;
use crate::float::{Float, lanes};
use crate::grid::Grid;
use crate::shape;

/// Threads of every block here.
const THREADS: u32 = 256;

/// The shape of a tensor whose channels are normalised.
///
/// ```
/// use apex_exec::Channels;
///
/// assert_eq!(Channels::nchw(8, 3, 32, 32), Channels { batch: 8, channels: 3, plane: 1024 });
/// assert_eq!(Channels::nc(8, 3), Channels { batch: 8, channels: 3, plane: 1 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Samples.
    pub batch: usize,
    /// Channels of a sample.
    pub channels: usize,
    /// Elements of a channel of a sample, side by side.
    pub plane: usize,
}

impl Channels {
    /// Images: samples, channels, height, width.
    ///
    /// ```
    /// assert_eq!(apex_exec::Channels::nchw(1, 2, 3, 4).plane, 12);
    /// ```
    #[must_use]
    pub fn nchw(batch: usize, channels: usize, height: usize, width: usize) -> Channels {
        Channels { batch, channels, plane: height.saturating_mul(width) }
    }

    /// Vectors: samples and channels.
    ///
    /// ```
    /// assert_eq!(apex_exec::Channels::nc(4, 2).plane, 1);
    /// ```
    #[must_use]
    pub fn nc(batch: usize, channels: usize) -> Channels {
        Channels { batch, channels, plane: 1 }
    }

    fn check(self, operation: &'static str, input: usize, output: usize) -> Result<usize> {
        let expected = shape::product(operation, &[self.batch, self.channels, self.plane])?;
        shape::exact(operation, "the input", input, expected)?;
        shape::exact(operation, "the output", output, expected)?;
        Ok(expected)
    }
}

/// The running statistics that training moves: r + momentum · (batch - r). The variance is the unbiased one.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::{Channels, Norm, Running};
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let (mut mean, mut variance) = (executor.zeros::<f32>(1)?, executor.zeros::<f32>(1)?);
/// let running =
///     Running { mean: mean.view_mut(), variance: variance.view_mut(), momentum: 0.5 };
/// let x = executor.upload(&[1.0_f32, 3.0])?;
/// let mut y = executor.zeros::<f32>(2)?;
/// executor.ops().batch_norm_training(&x, Channels::nc(2, 1), &Norm::new(0.0), Some(running), &mut y)?;
/// assert_eq!((executor.download(&mean)?[0], executor.download(&variance)?[0]), (1.0, 1.0));
/// # Ok(())
/// # }
/// ```
pub struct Running<'a, W: Float> {
    /// The mean of each channel.
    pub mean: ViewMut<'a, W>,
    /// The variance of each channel.
    pub variance: ViewMut<'a, W>,
    /// How much of the new is taken, from 0 to 1.
    pub momentum: f64,
}

/// What training found in its batch, as the backward pass needs it.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::{Channels, Norm};
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let x = executor.upload(&[1.0_f32, 3.0])?;
/// let mut y = executor.zeros::<f32>(2)?;
/// let found =
///     executor.ops().batch_norm_training(&x, Channels::nc(2, 1), &Norm::new(0.0), None, &mut y)?;
/// assert_eq!(executor.download(&found.mean)?, [2.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct BatchStatistics<W: Float> {
    /// The mean of each channel.
    pub mean: Buffer<W>,
    /// 1 / √(variance + epsilon) of each channel.
    pub inverse_deviation: Buffer<W>,
}

impl Ops<'_> {
    /// Normalises each channel by its own mean and variance over batch and plane, and gives both back.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::{Channels, Norm};
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let x = executor.upload(&[1.0_f32, 10.0, 3.0, 30.0])?;
    /// let mut y = executor.zeros::<f32>(4)?;
    /// executor.ops().batch_norm_training(&x, Channels::nc(2, 2), &Norm::new(0.0), None, &mut y)?;
    /// assert_eq!(executor.download(&y)?, [-1.0, -1.0, 1.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch_norm_training<T: Float>(
        &self,
        input: impl Readable<T>,
        shape: Channels,
        norm: &Norm<'_, T::Wide>,
        running: Option<Running<'_, T::Wide>>,
        mut output: impl Writable<T>,
    ) -> Result<BatchStatistics<T::Wide>> {
        let (input, output) = (input.as_view(), output.as_view_mut());
        let count = shape.check("batch_norm_training", input.len(), output.len())?;
        norm.check("batch_norm_training", shape.channels)?;
        if let Some(running) = &running {
            let (mean, variance) = (running.mean.len(), running.variance.len());
            shape::exact("batch_norm_training", "the running mean", mean, shape.channels)?;
            shape::exact("batch_norm_training", "the running variance", variance, shape.channels)?;
            if shape.batch * shape.plane == 1 {
                let reason = "one value per channel has no unbiased variance to move the running \
                              one: give more values, or no running statistics";
                return Err(shape::refuse("batch_norm_training", reason));
            }
        }
        if count == 0 && shape.channels > 0 {
            let reason = "a channel without values has no mean: give at least one sample";
            return Err(shape::refuse("batch_norm_training", reason));
        }
        let mut found = BatchStatistics {
            mean: self.stream.uninitialized(shape.channels)?,
            inverse_deviation: self.stream.uninitialized(shape.channels)?,
        };
        if count == 0 {
            return Ok(found);
        }
        let (parts, parts_of_channel) = self.channel_parts(input, shape)?;
        self.finish_statistics(&parts, parts_of_channel, norm, running, &mut found)?;
        let statistics = (found.mean.view(), found.inverse_deviation.view());
        self.normalise(input, shape, statistics, false, norm, output)?;
        Ok(found)
    }

    /// Normalises each channel by given statistics, as a trained network does.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// use apex_exec::{Channels, Norm};
    ///
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let (mean, variance) = (executor.upload(&[1.0_f32])?, executor.upload(&[4.0_f32])?);
    /// let x = executor.upload(&[1.0_f32, 5.0])?;
    /// let mut y = executor.zeros::<f32>(2)?;
    /// let shape = Channels::nc(2, 1);
    /// executor.ops().batch_norm_inference(&x, shape, &mean, &variance, &Norm::new(0.0), &mut y)?;
    /// assert_eq!(executor.download(&y)?, [0.0, 2.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch_norm_inference<T: Float>(
        &self,
        input: impl Readable<T>,
        shape: Channels,
        mean: impl Readable<T::Wide>,
        variance: impl Readable<T::Wide>,
        norm: &Norm<'_, T::Wide>,
        mut output: impl Writable<T>,
    ) -> Result<()> {
        let (input, output) = (input.as_view(), output.as_view_mut());
        let (mean, variance) = (mean.as_view(), variance.as_view());
        let count = shape.check("batch_norm_inference", input.len(), output.len())?;
        norm.check("batch_norm_inference", shape.channels)?;
        shape::exact("batch_norm_inference", "the mean", mean.len(), shape.channels)?;
        shape::exact("batch_norm_inference", "the variance", variance.len(), shape.channels)?;
        if count == 0 {
            return Ok(());
        }
        self.normalise(input, shape, (mean, variance), true, norm, output)
    }

    /// Count, mean and squared distances of parts of every channel, and how many parts a channel has.
    fn channel_parts<T: Float>(
        &self,
        input: View<'_, T>,
        shape: Channels,
    ) -> Result<(Buffer<T::Wide>, u32)> {
        let (batch, channels, plane) =
            (shape.batch as u32, shape.channels as u32, shape.plane as u32);
        let lanes = lanes::<T>();
        let aligned = on_borders(&[*input.place().address]);
        let is_columns = plane == 1;
        let whole = aligned && (if is_columns { channels } else { plane }) % lanes == 0;
        let run = if whole { lanes } else { 1 };
        let odd = if whole { "" } else { "odd_" };
        let wanted = 32 * self.multiprocessors();
        let (name, blocks, parts, threads) = if is_columns {
            let blocks = channels.div_ceil(32 * run);
            let parts = (wanted / blocks).min(batch / 64).clamp(1, 512);
            (format!("batch_norm_{odd}columns"), blocks, parts, [32, THREADS / 32, 1])
        } else {
            let runs = batch * (plane / run);
            let parts = (wanted / channels).min(runs / (THREADS * 4)).clamp(1, 512);
            (format!("batch_norm_{odd}statistics"), channels, parts, [THREADS, 1, 1])
        };
        let kernel = self.kernel::<T>(&kernels::BATCH_NORM, &name)?;
        let numbers = shape.channels * parts as usize * 3;
        let mut wide = self.stream.uninitialized::<T::Wide>(numbers)?;
        let mut launch = self.stream.launch(&kernel, Grid::new([blocks, parts, 1], threads));
        launch.arg(&input).arg(&mut wide).arg(&batch).arg(&channels);
        if !is_columns {
            launch.arg(&plane);
        }
        launch.run()?;
        Ok((wide, parts))
    }

    fn finish_statistics<W: Float<Wide = W>>(
        &self,
        parts: &Buffer<W>,
        parts_of_channel: u32,
        norm: &Norm<'_, W>,
        running: Option<Running<'_, W>>,
        found: &mut BatchStatistics<W>,
    ) -> Result<()> {
        let kernel = self.kernel::<W>(&kernels::BATCH_NORM, "batch_norm_finish")?;
        let channels = found.mean.len() as u32;
        let (.., epsilon) = norm.parts();
        let momentum = W::from_f64(running.as_ref().map_or(0.0, |running| running.momentum));
        let absent = [0_u64];
        let mut running = running;
        let grid = Grid::linear(channels.div_ceil(THREADS / 32), THREADS);
        let mut launch = self.stream.launch(&kernel, grid);
        launch.arg(parts).arg(&mut found.mean).arg(&mut found.inverse_deviation);
        match &mut running {
            Some(running) => launch.arg(&mut running.mean).arg(&mut running.variance),
            None => launch.arg(&absent).arg(&absent),
        };
        launch.arg(&channels).arg(&parts_of_channel).arg(&epsilon).arg(&momentum).run()
    }

    fn normalise<T: Float>(
        &self,
        input: View<'_, T>,
        shape: Channels,
        (mean, deviation): (View<'_, T::Wide>, View<'_, T::Wide>),
        is_variance: bool,
        norm: &Norm<'_, T::Wide>,
        mut output: ViewMut<'_, T>,
    ) -> Result<()> {
        let kernel = self.kernel::<T>(&kernels::BATCH_NORM, "batch_norm_apply")?;
        let (gamma, beta, epsilon) = norm.parts();
        let count = input.len() as u32;
        let (plane, channels) =
            (Divisor::new(shape.plane as u32), Divisor::new(shape.channels as u32));
        let statistics = [*mean.place().address, *deviation.place().address];
        let addresses: Vec<u64> = statistics.into_iter().chain(norm.addresses()).collect();
        let aligned = on_borders(&[*input.place().address]);
        let layout = Layout::new(shape, lanes::<T>(), aligned, on_borders(&addresses)) as u32;
        let is_variance = u32::from(is_variance);
        let absent = [0_u64];
        // As many as the kernel has on their way.
        let vectors_each = match size_of::<T>() {
            2 => 2,
            8 => 1,
            _ => 4,
        };
        let grid = super::launch_shape::<T>(count, vectors_each, self.multiprocessors());
        let mut launch = self.stream.launch(&kernel, grid);
        launch.arg(&input).arg(&mut output).arg(&mean).arg(&deviation);
        for parameter in [&gamma, &beta] {
            match parameter {
                Some(view) => launch.arg(view),
                None => launch.arg(&absent),
            };
        }
        launch.arg(&count);
        for divisor in [&plane, &channels] {
            launch.arg(&divisor.divisor).arg(&divisor.magic).arg(&divisor.shift);
        }
        launch.arg(&layout).arg(&is_variance).arg(&epsilon).run()
    }
}

/// How the elements of a vector find their channel; the kernel knows the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// All have one.
    OneChannel = 0,
    /// Each has its own, side by side.
    Neighbours = 1,
    /// Each looks.
    EachLooks = 2,
}

impl Layout {
    fn new(shape: Channels, lanes: u32, aligned: bool, parameters_aligned: bool) -> Layout {
        let lanes = lanes as usize;
        if aligned && shape.plane.is_multiple_of(lanes) {
            Layout::OneChannel
        } else if aligned
            && parameters_aligned
            && shape.plane == 1
            && shape.channels.is_multiple_of(lanes)
        {
            Layout::Neighbours
        } else {
            Layout::EachLooks
        }
    }
}

/// A divisor prepared so that a device divides by a multiplication: n / d is (high(n · magic) + n) >> shift
/// for every n below 2^31.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    divisor: u32,
    magic: u32,
    shift: u32,
}

impl Divisor {
    fn new(divisor: u32) -> Divisor {
        let divisor = divisor.max(1);
        let shift = 32 - (divisor - 1).leading_zeros();
        let magic =
            ((1_u64 << 32) * ((1_u64 << shift) - u64::from(divisor)) / u64::from(divisor)) + 1;
        Divisor { divisor, magic: magic as u32, shift }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_divisor_divides() {
        for d in [1, 2, 3, 5, 7, 49, 64, 3136, 65535, 65537, (1 << 31) - 1] {
            let Divisor { magic, shift, .. } = Divisor::new(d);
            for n in [0, 1, d - 1, d, d.saturating_add(1), 12_345_678, (1 << 31) - 1] {
                let n = n.min((1 << 31) - 1);
                let high = ((u64::from(n) * u64::from(magic)) >> 32) as u32;
                assert_eq!((high + n) >> shift, n / d, "{n} / {d}");
            }
        }
    }

    #[test]
    fn a_vector_finds_its_channels() {
        let layout = |shape, aligned| Layout::new(shape, 4, aligned, true);
        assert_eq!(layout(Channels::nchw(2, 3, 4, 4), true), Layout::OneChannel);
        assert_eq!(layout(Channels::nchw(2, 3, 4, 4), false), Layout::EachLooks);
        assert_eq!(layout(Channels::nchw(2, 3, 7, 7), true), Layout::EachLooks);
        assert_eq!(layout(Channels::nc(2, 8), true), Layout::Neighbours);
        assert_eq!(layout(Channels::nc(2, 7), true), Layout::EachLooks);
    }
}
