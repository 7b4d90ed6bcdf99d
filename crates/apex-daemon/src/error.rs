//! What can go wrong outside the program, each with what to do next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A failure of the collector, the store or a reader of sessions.
#[derive(Debug)]
pub enum Error {
    /// A file or directory could not be made or written.
    Write(PathBuf, io::Error),
    /// A file could not be read.
    Read(PathBuf, io::Error),
    /// A file of a session is damaged.
    Damaged(PathBuf, String),
    /// A session was written by another version of apex.
    OtherSchema(PathBuf, u64),
    /// No session answers to a name.
    NoSuchSession(String, PathBuf),
    /// More than one session answers to a name.
    Ambiguous(String, Vec<String>),
    /// No session was kept so far.
    NoSessions(PathBuf),
    /// A directory given for a session holds one already.
    Occupied(PathBuf),
    /// The user has no home, and named no place for sessions.
    Nowhere,
    /// A directory on the way to the sessions is another user's.
    NotOwn(PathBuf),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Write(path, error) => write!(
                f,
                "{} cannot be written ({error}); free some space or choose another place with -o DIR or APEX_STATE",
                path.display()
            ),
            Error::Read(path, error) => {
                write!(f, "{} cannot be read: {error}", path.display())
            }
            Error::Damaged(path, why) => write!(
                f,
                "{} is damaged ({why}) and is left out; the rest is shown",
                path.display()
            ),
            Error::OtherSchema(path, found) => write!(
                f,
                "{} has schema {found}, this apex reads schema {}; read it with the apex that wrote it",
                path.display(),
                crate::summary::SCHEMA
            ),
            Error::NoSuchSession(name, place) => write!(
                f,
                "there is no session {name} in {}; `apex sessions` lists them",
                place.display()
            ),
            Error::Ambiguous(name, found) => {
                write!(f, "{name} may be any of {}; give more of its id", found.join(", "))
            }
            Error::NoSessions(place) => {
                write!(f, "no session is kept in {}; `apex run -- CMD` makes one", place.display())
            }
            Error::Occupied(path) => {
                write!(f, "{} is not empty; choose another directory or remove it", path.display())
            }
            Error::Nowhere => write!(
                f,
                "this user has no home directory for sessions; choose a place with -o DIR or APEX_STATE"
            ),
            Error::NotOwn(path) => write!(
                f,
                "{} belongs to another user; choose a place with -o DIR or APEX_STATE",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {}

impl Error {
    /// For `map_err` on a write.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |error| Error::Write(path.to_owned(), error)
    }

    /// For `map_err` on a read.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        move |error| Error::Read(path.to_owned(), error)
    }
}
