//! Upload, compute and download at the same time, over several streams.
//!
//! Work comes in pieces. Each piece goes through one of `depth` lanes: copied into pinned memory, uploaded,
//! computed, downloaded, all in that lane's stream; while the device computes one piece it uploads the next and
//! downloads the one before. Results are handed out in the order of the pieces, and the first error ends it:
//! what is under way is waited for, nothing further begins.

use crate::buffer::Buffer;
use crate::element::Element;
use crate::error::Result;
use crate::executor::Executor;
use crate::pinned::{Pending, Pinned};
use crate::stream::Stream;
use std::collections::VecDeque;

/// Streams through which pieces of work go, several at a time.
///
/// ```
/// # fn main() -> apex_exec::Result<()> {
/// use apex_exec::{Grid, Pipeline};
///
/// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
/// let scale = executor.load_ptx(apex_exec::EXAMPLE_PTX)?.kernel("scale")?;
/// let input: Vec<f32> = (0..1000).map(|number| number as f32).collect();
/// let mut doubled = Vec::new();
/// Pipeline::new(&executor, 3)?.run(
///     input.chunks(100),
///     |elements| elements,
///     |stream, piece, result| {
///         stream.copy(piece, &mut *result)?;
///         let (grid, length) = (Grid::for_elements(piece.len() as u64, 128), piece.len() as u32);
///         stream.launch(&scale, grid).arg(result).arg(&2.0_f32).arg(&length).run()
///     },
///     |result: &[f32]| {
///         doubled.extend_from_slice(result);
///         Ok(())
///     },
/// )?;
/// assert_eq!(doubled[999], 1998.0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Pipeline {
    executor: Executor,
    streams: Vec<Stream>,
}

impl Pipeline {
    /// A pipeline of `depth` pieces at a time; three overlap all there is to overlap, more even out pieces that
    /// take different times. One is the serial form.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(apex_exec::Pipeline::new(&executor, 3)?.depth(), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Executor::new_stream`].
    pub fn new(executor: &Executor, depth: usize) -> Result<Pipeline> {
        let streams = (0..depth.max(1)).map(|_| executor.new_stream()).collect::<Result<_>>()?;
        Ok(Pipeline { executor: executor.clone(), streams })
    }

    /// How many pieces are under way at a time.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// assert_eq!(apex_exec::Pipeline::new(&executor, 0)?.depth(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn depth(&self) -> usize {
        self.streams.len()
    }

    /// Takes every piece of `inputs` through `work` and hands each result, in order, to `results`.
    ///
    /// `result_length` says how many elements the result of a piece of so many elements has. `work` puts what it
    /// does into the stream it is given; the result's memory holds what an earlier piece left there.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let mut lengths = Vec::new();
    /// apex_exec::Pipeline::new(&executor, 2)?.run(
    ///     [vec![1_u8; 3], vec![2_u8; 5]],
    ///     |elements| elements,
    ///     |stream, piece, result| stream.copy(piece, result),
    ///     |result: &[u8]| Ok(lengths.push(result.len())),
    /// )?;
    /// assert_eq!(lengths, [3, 5]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of `work`, of `results` or of the device.
    pub fn run<T: Element, U: Element, P: AsRef<[T]>>(
        &self,
        inputs: impl IntoIterator<Item = P>,
        result_length: impl Fn(usize) -> usize,
        mut work: impl FnMut(&Stream, &Buffer<T>, &mut Buffer<U>) -> Result<()>,
        mut results: impl FnMut(&[U]) -> Result<()>,
    ) -> Result<()> {
        let staged = |slot: &mut Slot<T, U>, piece: P| {
            let piece = piece.as_ref();
            let fits = slot.input_staging.take().filter(|staging| staging.len() == piece.len());
            let mut staging = fits.map_or_else(|| self.executor.pinned(piece.len()), Ok)?;
            staging.copy_from_slice(piece);
            Ok(staging)
        };
        self.run_staged(inputs, staged, result_length, &mut work, |slot, input, result| {
            slot.input_staging = Some(input);
            results(result)
        })
    }

    /// As [`Pipeline::run`] for pieces that lie in pinned memory already and need not be copied there. Each comes
    /// back with its result, to be filled and used again.
    ///
    /// ```
    /// # fn main() -> apex_exec::Result<()> {
    /// let executor = apex_exec::Executor::new(apex_exec::Device::Auto)?;
    /// let pieces = vec![executor.pinned_from(&[1_u8, 2])?, executor.pinned_from(&[3_u8, 4])?];
    /// let mut output = Vec::new();
    /// apex_exec::Pipeline::new(&executor, 2)?.run_pinned(
    ///     pieces,
    ///     |elements| elements,
    ///     |stream, piece, result| stream.copy(piece, result),
    ///     |_piece, result: &[u8]| Ok(output.extend_from_slice(result)),
    /// )?;
    /// assert_eq!(output, [1, 2, 3, 4]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The first error of `work`, of `results` or of the device.
    pub fn run_pinned<T: Element, U: Element>(
        &self,
        inputs: impl IntoIterator<Item = Pinned<T>>,
        result_length: impl Fn(usize) -> usize,
        mut work: impl FnMut(&Stream, &Buffer<T>, &mut Buffer<U>) -> Result<()>,
        mut results: impl FnMut(Pinned<T>, &[U]) -> Result<()>,
    ) -> Result<()> {
        let as_it_is = |_: &mut Slot<T, U>, piece| Ok(piece);
        self.run_staged(inputs, as_it_is, result_length, &mut work, |_, input, result| {
            results(input, result)
        })
    }

    /// `staged` puts a piece into pinned memory; `done` takes that memory back with the result.
    fn run_staged<T: Element, U: Element, P>(
        &self,
        inputs: impl IntoIterator<Item = P>,
        mut staged: impl FnMut(&mut Slot<T, U>, P) -> Result<Pinned<T>>,
        result_length: impl Fn(usize) -> usize,
        work: &mut impl FnMut(&Stream, &Buffer<T>, &mut Buffer<U>) -> Result<()>,
        mut done: impl FnMut(&mut Slot<T, U>, Pinned<T>, &[U]) -> Result<()>,
    ) -> Result<()> {
        let mut idle: Vec<Slot<T, U>> = self.streams.iter().map(Slot::new).collect();
        let mut under_way: VecDeque<Piece<T, U>> = VecDeque::new();
        for piece in inputs {
            if idle.is_empty()
                && let Some(oldest) = under_way.pop_front()
            {
                idle.push(oldest.finish(&mut done)?);
            }
            let Some(mut slot) = idle.pop() else {
                unreachable!("there is a slot for each stream, idle or under way")
            };
            let input = staged(&mut slot, piece)?;
            let length = result_length(input.len());
            under_way.push_back(slot.begin(input, length, work)?);
        }
        under_way.into_iter().try_for_each(|piece| piece.finish(&mut done).map(drop))
    }
}

/// A stream with the memory that pieces use one after the other.
struct Slot<T: Element, U: Element> {
    stream: Stream,
    input_staging: Option<Pinned<T>>,
    input: Option<Buffer<T>>,
    result: Option<Buffer<U>>,
    result_staging: Option<Pinned<U>>,
}

/// A piece under way.
struct Piece<T: Element, U: Element> {
    slot: Slot<T, U>,
    uploaded: Pending<Pinned<T>>,
    downloaded: Pending<Pinned<U>>,
}

impl<T: Element, U: Element> Slot<T, U> {
    fn new(stream: &Stream) -> Slot<T, U> {
        Slot {
            stream: stream.clone(),
            input_staging: None,
            input: None,
            result: None,
            result_staging: None,
        }
    }

    fn begin(
        mut self,
        staging: Pinned<T>,
        length: usize,
        work: &mut impl FnMut(&Stream, &Buffer<T>, &mut Buffer<U>) -> Result<()>,
    ) -> Result<Piece<T, U>> {
        let stream = &self.stream;
        let elements = staging.len();
        let input = match self.input.take().filter(|input| input.len() == elements) {
            Some(input) => input,
            None => stream.uninitialized(elements)?,
        };
        let input = self.input.insert(input);
        let result = match self.result.take().filter(|result| result.len() == length) {
            Some(result) => result,
            None => stream.uninitialized(length)?,
        };
        let result = self.result.insert(result);
        let uploaded = stream.write_async(staging, &mut *input)?;
        work(stream, input, result)?;
        let fits = self.result_staging.take().filter(|staging| staging.len() == length);
        // New memory is not filled with zeros first: that would keep the device waiting for the next piece.
        let downloaded = match fits {
            Some(staging) => stream.read_async(&*result, staging)?,
            None => stream.download_async(&*result)?,
        };
        Ok(Piece { uploaded, downloaded, slot: self })
    }
}

impl<T: Element, U: Element> Piece<T, U> {
    fn finish(
        self,
        done: &mut impl FnMut(&mut Slot<T, U>, Pinned<T>, &[U]) -> Result<()>,
    ) -> Result<Slot<T, U>> {
        let Piece { mut slot, uploaded, downloaded } = self;
        let result = downloaded.wait()?;
        done(&mut slot, uploaded.wait()?, &result)?;
        slot.result_staging = Some(result);
        Ok(slot)
    }
}
