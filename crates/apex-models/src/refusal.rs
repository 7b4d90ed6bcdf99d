//! Why a model file is not used.
//!
//! Every check that can fail has a word of its own, with what was found: whoever replaces a model must learn what is
//! wrong with it, and what to do.

use core::fmt;

/// Why a model file is not used.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Shorter than its own header says.
    CutOff,
    /// The header is not the JSON it should be; with what was found.
    Header(String),
    /// A name that stands twice.
    Twice(String),
    /// A tensor's bytes are outside the file, overlap others or do not fit its shape.
    Misplaced(String),
    /// A tensor that the model needs is not there.
    Missing(String),
    /// A tensor has another type than the model needs.
    WrongType(String),
    /// A tensor has another shape than the model needs.
    WrongShape(String, Vec<usize>),
    /// A word that the file must carry is not there.
    NoWord(&'static str),
    /// The file holds another kind of model.
    WrongKind(String),
    /// The model was made for another list of features.
    OtherFeatures(String),
    /// The bytes are not those that were written.
    Damaged,
    /// A number is infinite or none.
    NotFinite(String),
    /// A tree asks for a feature that is not in the list.
    NoSuchFeature(usize),
    /// The model's own examples do not come out.
    Golden {
        /// Which example.
        example: usize,
        /// What the file says.
        expected: f32,
        /// What the model says.
        found: f32,
    },
    /// It errs more than the model in use.
    Worse {
        /// Error of the model in use, as a share.
        present: f32,
        /// Error of the model offered.
        offered: f32,
    },
    /// An ONNX graph that this engine does not run; with the reason.
    Graph(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::CutOff => write!(formatter, "the file is cut off"),
            Refusal::Header(why) => write!(formatter, "its header cannot be read: {why}"),
            Refusal::Twice(name) => write!(formatter, "{name} stands in it twice"),
            Refusal::Misplaced(name) => write!(formatter, "the bytes of {name} are out of place"),
            Refusal::Missing(name) => write!(formatter, "{name} is missing"),
            Refusal::WrongType(name) => write!(formatter, "{name} has the wrong type"),
            Refusal::WrongShape(name, shape) => {
                write!(formatter, "{name} has the wrong shape {shape:?}")
            }
            Refusal::NoWord(word) => write!(formatter, "it does not say its {word}"),
            Refusal::WrongKind(kind) => write!(formatter, "it is a {kind}"),
            Refusal::OtherFeatures(hash) => write!(
                formatter,
                "it was trained for another list of features ({hash}): train it again with apex train fit"
            ),
            Refusal::Damaged => write!(formatter, "its digest is wrong: it was changed or damaged"),
            Refusal::NotFinite(name) => {
                write!(formatter, "{name} holds a number that is not finite")
            }
            Refusal::NoSuchFeature(place) => {
                write!(formatter, "a tree asks for feature {place}, which is not in the list")
            }
            Refusal::Golden { example, expected, found } => write!(
                formatter,
                "it does not reproduce its own example {example}: {found} instead of {expected}"
            ),
            Refusal::Worse { present, offered } => write!(
                formatter,
                "it errs by {:.1} % on the check set, the model in use by {:.1} %",
                offered * 100.0,
                present * 100.0
            ),
            Refusal::Graph(why) => write!(formatter, "its graph is not one of ours: {why}"),
        }
    }
}

impl std::error::Error for Refusal {}
