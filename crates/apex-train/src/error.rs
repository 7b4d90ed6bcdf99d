//! What can go wrong between measuring and a trained model, with what to do about it.

use apex_models::Refusal;
use std::fmt;
use std::path::{Path, PathBuf};

/// An error of collecting or training.
#[derive(Debug)]
pub enum Error {
    /// A file cannot be read.
    Read(PathBuf, std::io::Error),
    /// A file cannot be written.
    Write(PathBuf, std::io::Error),
    /// A file of rows is damaged or has other columns.
    Rows(PathBuf, String),
    /// Too few rows or kernels to train and to judge.
    TooFew {
        /// What there are too few of.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// A model file was refused.
    Refused(PathBuf, Refusal),
    /// A device could not be used, for this reason.
    Device(String),
    /// What the executor said.
    Executor(Box<apex_exec::Error>),
    /// A profiler could not be run, or said something unexpected.
    Profiler(String),
}

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |error| Error::Read(path, error)
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |error| Error::Write(path, error)
    }
}

impl From<apex_exec::Error> for Error {
    fn from(error: apex_exec::Error) -> Error {
        Error::Executor(Box::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read(path, error) => {
                write!(formatter, "{} cannot be read: {error}", path.display())
            }
            Error::Write(path, error) => {
                write!(formatter, "{} cannot be written: {error}", path.display())
            }
            Error::Rows(path, why) => write!(
                formatter,
                "{} does not hold measured launches: {why}; collect it again with apex train collect",
                path.display()
            ),
            Error::TooFew { what, found, needed } => write!(
                formatter,
                "{found} {what} are too few to train and to judge on; collect at least {needed}"
            ),
            Error::Refused(path, refusal) => {
                write!(formatter, "{} is refused: {refusal}", path.display())
            }
            Error::Executor(error) => write!(formatter, "{error}"),
            Error::Device(sentence) | Error::Profiler(sentence) => write!(formatter, "{sentence}"),
        }
    }
}

// The reason stands in the sentence: given as a source too, it would be said twice.
impl std::error::Error for Error {}
