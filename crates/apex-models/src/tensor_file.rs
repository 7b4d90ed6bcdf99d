//! Reads and writes model files: named tensors and a few words, in the safetensors format.
//!
//! A file is eight bytes of header length, a JSON header, and the tensors' bytes. Everything is checked before
//! a number is used, and each check that fails has a [`Refusal`] of its own: whoever replaces a model must
//! learn what is wrong with it. Beyond the format, a file of ours names its kind, the feature list it was made
//! for and a digest of its bytes. So a flipped bit is found although every number stays plausible.

use crate::json::{self, Value};
use crate::refusal::Refusal;
use apex_policy::predict::features::{FNV_START, fnv};

/// The types a tensor can have here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Single precision.
    F32,
    /// Bytes.
    U8,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::F32 => "F32",
            Kind::U8 => "U8",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Kind::F32 => 4,
            Kind::U8 => 1,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    kind: Option<Kind>,
    shape: Vec<usize>,
    begin: usize,
    end: usize,
}

/// A file that was read: its words, and its tensors in place.
#[derive(Clone, Debug)]
pub struct TensorFile<'a> {
    words: Vec<(String, String)>,
    entries: Vec<Entry>,
    data: &'a [u8],
}

/// Longest header that is believed.
const LONGEST_HEADER: usize = 1 << 20;
const DIGEST: &str = "digest";

impl<'a> TensorFile<'a> {
    /// Reads a file and checks its format; what the numbers mean is not looked at.
    pub fn parse(bytes: &'a [u8]) -> Result<TensorFile<'a>, Refusal> {
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or(Refusal::CutOff)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| Refusal::CutOff)?;
        if length > LONGEST_HEADER {
            return Err(Refusal::Header(format!("{length} bytes are no header's length")));
        }
        let (header, data) = rest.split_at_checked(length).ok_or(Refusal::CutOff)?;
        let header =
            std::str::from_utf8(header).map_err(|_| Refusal::Header("it is no text".into()))?;
        let Value::Object(fields) = json::parse(header).map_err(Refusal::Header)? else {
            return Err(Refusal::Header("it is no object".into()));
        };
        let mut file = TensorFile { words: Vec::new(), entries: Vec::new(), data };
        for (name, value) in fields {
            if name == "__metadata__" {
                file.words = words(value)?;
            } else {
                file.entries.push(entry(name, &value)?);
            }
        }
        file.check_places()?;
        Ok(file)
    }

    /// A word that the file carries.
    #[must_use]
    pub fn word(&self, key: &str) -> Option<&str> {
        self.words.iter().find(|(known, _)| known == key).map(|(_, word)| word.as_str())
    }

    /// Checks that the file is the kind of model that is wanted, made for this list of features, and whole.
    pub fn check_words(&self, kind: &str, features: u64) -> Result<(), Refusal> {
        let found = self.word("kind").ok_or(Refusal::NoWord("kind"))?;
        if found != kind {
            return Err(Refusal::WrongKind(found.into()));
        }
        let hash = self.word("features").ok_or(Refusal::NoWord("features"))?;
        if hash != format!("{features:016x}") {
            return Err(Refusal::OtherFeatures(hash.into()));
        }
        let digest = self.word(DIGEST).ok_or(Refusal::NoWord("digest"))?;
        if digest != format!("{:016x}", fnv(FNV_START, self.data)) {
            return Err(Refusal::Damaged);
        }
        Ok(())
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Result<&[usize], Refusal> {
        Ok(&self.entry(name)?.shape)
    }

    /// A tensor of finite single-precision numbers with a given shape; 0 stands for any length.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, Refusal> {
        let bytes = self.bytes_of(name, Kind::F32, shape)?;
        let values: Vec<f32> =
            bytes.as_chunks::<4>().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect();
        if values.iter().any(|value| !value.is_finite()) {
            return Err(Refusal::NotFinite(name.into()));
        }
        Ok(values)
    }

    /// A tensor of bytes with a given shape; 0 stands for any length.
    pub fn bytes(&self, name: &str, shape: &[usize]) -> Result<&'a [u8], Refusal> {
        self.bytes_of(name, Kind::U8, shape)
    }

    fn bytes_of(&self, name: &str, kind: Kind, shape: &[usize]) -> Result<&'a [u8], Refusal> {
        let entry = self.entry(name)?;
        if entry.kind != Some(kind) {
            return Err(Refusal::WrongType(name.into()));
        }
        let fits = entry.shape.len() == shape.len()
            && entry.shape.iter().zip(shape).all(|(found, wanted)| *wanted == 0 || found == wanted);
        if !fits {
            return Err(Refusal::WrongShape(name.into(), entry.shape.clone()));
        }
        Ok(&self.data[entry.begin..entry.end])
    }

    fn entry(&self, name: &str) -> Result<&Entry, Refusal> {
        self.entries
            .iter()
            .find(|entry| entry.name == name)
            .ok_or_else(|| Refusal::Missing(name.into()))
    }

    /// Every tensor lies in the file, no two share bytes, and no byte belongs to none.
    fn check_places(&self) -> Result<(), Refusal> {
        let mut places: Vec<&Entry> = self.entries.iter().collect();
        places.sort_by_key(|entry| (entry.begin, entry.end));
        let mut at = 0;
        for entry in &places {
            let count =
                entry.shape.iter().try_fold(entry.kind.map_or(0, Kind::bytes), |product, &side| {
                    product.checked_mul(side)
                });
            let whole = entry.kind.is_none() || count == entry.end.checked_sub(entry.begin);
            if entry.begin != at || entry.end < entry.begin || entry.end > self.data.len() || !whole
            {
                return Err(Refusal::Misplaced(entry.name.clone()));
            }
            at = entry.end;
        }
        if at != self.data.len() {
            return Err(if places.is_empty() { Refusal::CutOff } else { Refusal::Damaged });
        }
        let mut names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Refusal::Twice(pair[0].into())),
            None => Ok(()),
        }
    }
}

fn words(value: Value) -> Result<Vec<(String, String)>, Refusal> {
    let Value::Object(fields) = value else {
        return Err(Refusal::Header("__metadata__ is no object".into()));
    };
    let word = |(key, value)| match value {
        Value::Text(text) => Ok((key, text)),
        _ => Err(Refusal::Header(format!("{key} in __metadata__ is no text"))),
    };
    fields.into_iter().map(word).collect()
}

fn entry(name: String, value: &Value) -> Result<Entry, Refusal> {
    let whole = |value: Option<&Value>| -> Option<Vec<usize>> {
        value?.list()?.iter().map(Value::whole).collect()
    };
    let kind = match value.get("dtype") {
        Some(Value::Text(word)) => [Kind::F32, Kind::U8].into_iter().find(|k| k.word() == word),
        _ => return Err(Refusal::Header(format!("{name} has no dtype"))),
    };
    match (whole(value.get("shape")), whole(value.get("data_offsets")).as_deref()) {
        (Some(shape), Some(&[begin, end])) => Ok(Entry { name, kind, shape, begin, end }),
        _ => Err(Refusal::Header(format!("{name} has no shape or no place"))),
    }
}

/// Makes a model file.
#[derive(Clone, Debug, Default)]
pub struct TensorWriter {
    words: Vec<(String, String)>,
    tensors: Vec<(String, Kind, Vec<usize>, Vec<u8>)>,
}

impl TensorWriter {
    /// A file of a kind, for a list of features.
    #[must_use]
    pub fn new(kind: &str, features: u64) -> TensorWriter {
        TensorWriter::default().word("kind", kind).word("features", &format!("{features:016x}"))
    }

    /// Adds a word.
    #[must_use]
    pub fn word(mut self, key: &str, word: &str) -> TensorWriter {
        self.words.push((key.into(), word.into()));
        self
    }

    /// Adds a tensor of single-precision numbers.
    #[must_use]
    pub fn floats(mut self, name: &str, shape: &[usize], values: &[f32]) -> TensorWriter {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensors.push((name.into(), Kind::F32, shape.to_vec(), bytes));
        self
    }

    /// Adds a tensor of bytes.
    #[must_use]
    pub fn bytes(mut self, name: &str, shape: &[usize], values: &[u8]) -> TensorWriter {
        self.tensors.push((name.into(), Kind::U8, shape.to_vec(), values.to_vec()));
        self
    }

    /// The file, with the digest of its bytes.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut data: Vec<u8> = Vec::new();
        let mut fields = Vec::new();
        for (name, kind, shape, bytes) in &self.tensors {
            let begin = data.len();
            data.extend(bytes);
            fields.push(format!(
                "{}:{{\"dtype\":\"{}\",\"shape\":{shape:?},\"data_offsets\":[{begin},{}]}}",
                json::quoted(name),
                kind.word(),
                data.len()
            ));
        }
        let digest = (DIGEST.to_owned(), format!("{:016x}", fnv(FNV_START, &data)));
        let words: Vec<String> = self
            .words
            .iter()
            .chain([&digest])
            .map(|(key, word)| format!("{}:{}", json::quoted(key), json::quoted(word)))
            .collect();
        let mut header =
            format!("{{\"__metadata__\":{{{}}},{}}}", words.join(","), fields.join(","));
        // The tensors begin at a multiple of eight, as readers that map the file expect.
        header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(data);
        file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        TensorWriter::new("test", 7)
            .word("note", "a \"word\"")
            .floats("a", &[2, 2], &[1.0, 2.0, 3.0, 4.0])
            .bytes("b", &[3], &[9, 8, 7])
            .finish()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = file();
        let read = TensorFile::parse(&bytes).unwrap();
        assert_eq!(read.check_words("test", 7), Ok(()));
        assert_eq!(read.word("note"), Some("a \"word\""));
        assert_eq!(read.floats("a", &[2, 0]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(read.bytes("b", &[3]).unwrap(), [9, 8, 7]);
    }

    #[test]
    fn the_format_is_the_one_others_read() {
        let bytes = TensorWriter::default().floats("x", &[1], &[1.0]).finish();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(length % 8, 0);
        let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
        assert!(header.contains(r#""x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#));
        assert_eq!(bytes.len(), 8 + length + 4);
    }

    #[test]
    fn each_fault_has_its_reason() {
        let good = file();
        let parse = |bytes: &[u8]| TensorFile::parse(bytes).map(|_| ()).unwrap_err();
        assert_eq!(parse(&[]), Refusal::CutOff);
        assert_eq!(parse(&good[..20]), Refusal::CutOff);
        assert_eq!(parse(&good[..good.len() - 1]), Refusal::Misplaced("b".into()));
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(parse(&longer), Refusal::Damaged);
        let mut huge = good.clone();
        huge[7] = 0x7f;
        assert!(matches!(parse(&huge), Refusal::Header(_)));
        let twice = TensorWriter::default().bytes("a", &[1], &[1]).bytes("a", &[1], &[1]).finish();
        assert_eq!(parse(&twice), Refusal::Twice("a".into()));
        let short = TensorWriter::default().floats("a", &[3], &[1.0]).finish();
        assert_eq!(parse(&short), Refusal::Misplaced("a".into()));
        let broad = TensorWriter::default().floats("a", &[usize::MAX, 8], &[1.0]).finish();
        assert_eq!(parse(&broad), Refusal::Misplaced("a".into()));

        let read = TensorFile::parse(&good).unwrap();
        assert_eq!(read.floats("c", &[1]), Err(Refusal::Missing("c".into())));
        assert_eq!(read.floats("b", &[3]), Err(Refusal::WrongType("b".into())));
        assert_eq!(read.floats("a", &[4]), Err(Refusal::WrongShape("a".into(), vec![2, 2])));
        assert_eq!(read.check_words("other", 7), Err(Refusal::WrongKind("test".into())));
        assert!(matches!(read.check_words("test", 8), Err(Refusal::OtherFeatures(_))));
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let read = TensorFile::parse(&flipped).unwrap();
        assert_eq!(read.check_words("test", 7), Err(Refusal::Damaged));
    }

    #[test]
    fn noise_is_refused_and_never_panics() {
        let good = file();
        for place in 0..good.len() {
            for value in [0, 0xff, b'"', b'9'] {
                let mut bytes = good.clone();
                bytes[place] = value;
                if let Ok(read) = TensorFile::parse(&bytes) {
                    let _ = (read.check_words("test", 7), read.floats("a", &[2, 2]));
                }
            }
        }
    }
}
