//! The form of the file, and its reader.
//!
//! A head, an index of keys in their order with the place of each record, and the records. Head, index and every record
//! carry a check: what does not fit it is not used. The reader holds the index and asks the file for a record by its
//! place; nothing is mapped, so whoever cuts the file short takes records away and not the reader's life. Form 1, numbers
//! little-endian:
//!
//! | part | what is in it |
//! |---|---|
//! | head, 48 bytes | `APEXHIST`, version, 0, kernels, bytes of the file, check of the index, check of the head before it |
//! | index, 16 bytes for a kernel | key, place in the file, bytes |
//! | record | check of the rest, code, driver, day, lengths of device, name and list; device, name; shapes of 40 bytes |

use super::{FILE, MOST_KERNELS, MOST_SHAPES, Measured, Past, Timed};
use apex_core::outputs::hash;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const MAGIC: [u8; 8] = *b"APEXHIST";
const VERSION: u32 = 1;
const HEAD: usize = 48;
const ENTRY: usize = 16;
const RECORD_HEAD: usize = 32;
const SHAPE: usize = 40;
/// Longer names are cut: a name tells people what it is, the code's hash tells apart.
const LONGEST_NAME: usize = 200;
/// A record is no longer.
const LONGEST: usize = RECORD_HEAD + 2 * LONGEST_NAME + MOST_SHAPES * SHAPE;

/// The pasts of one file.
#[derive(Debug, Default)]
pub struct History {
    file: Option<File>,
    /// Keys in their order, with place and bytes of their records.
    index: Vec<(u64, u32, u32)>,
}

impl History {
    /// Opens the file of a folder. Where there is none, nothing is known; one that is damaged or of another form is said.
    pub fn open(folder: &Path) -> Result<History, String> {
        History::read(&folder.join(FILE))
    }

    /// Opens a file by its path.
    pub fn read(path: &Path) -> Result<History, String> {
        let file = match apex_core::small_file::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(History::default()),
            Err(error) => return Err(format!("{} cannot be read: {error}", path.display())),
        };
        let index = index(&file).map_err(|why| format!("{} is not used: {why}", path.display()))?;
        Ok(History { file: Some(file), index })
    }

    /// Kernels in it.
    #[must_use]
    pub fn kernels(&self) -> usize {
        self.index.len()
    }

    /// The past of a kernel by its key.
    #[must_use]
    pub fn find(&self, key: u64) -> Option<Past> {
        let place = self.index.binary_search_by_key(&key, |entry| entry.0).ok()?;
        let mut buffer = [0; LONGEST];
        let record = self.record(place, &mut buffer)?;
        decode(record).filter(|past| past.key() == key)
    }

    /// All that can be read, in the order of their keys.
    pub fn all(&self) -> impl Iterator<Item = Past> + '_ {
        (0..self.index.len()).filter_map(|place| {
            let mut buffer = [0; LONGEST];
            decode(self.record(place, &mut buffer)?)
        })
    }

    /// Keys in their order.
    pub(super) fn keys(&self) -> impl Iterator<Item = u64> + '_ {
        self.index.iter().map(|entry| entry.0)
    }

    /// The bytes of a record, whole or none.
    pub(super) fn record<'a>(
        &self,
        place: usize,
        buffer: &'a mut [u8; LONGEST],
    ) -> Option<&'a [u8]> {
        let &(_, at, bytes) = self.index.get(place)?;
        let record = buffer.get_mut(..bytes as usize)?;
        self.file.as_ref()?.read_exact_at(record, u64::from(at)).ok()?;
        is_whole(record).then_some(record)
    }
}

/// Room for any record.
pub(super) fn buffer() -> [u8; LONGEST] {
    [0; LONGEST]
}

/// Whether a file begins as a history of another version: it belongs to that.
pub(super) fn is_of_other_version(path: &Path) -> bool {
    let mut head = [0; 12];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut head, 0));
    read.is_ok() && head[..8] == MAGIC && number::<4>(&head, 8) != u64::from(VERSION)
}

/// The index of a file that fits its checks.
fn index(file: &File) -> Result<Vec<(u64, u32, u32)>, String> {
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, 0).map_err(|_| "it is too short")?;
    if head[..8] != MAGIC {
        return Err("it is no history".into());
    }
    if number::<4>(&head, 8) != u64::from(VERSION) {
        return Err("another version of apex has written it".into());
    }
    let kernels = number::<8>(&head, 16) as usize;
    let is_right = number::<8>(&head, 40) == hash(&head[..40])
        && number::<8>(&head, 24) == bytes
        && kernels <= MOST_KERNELS;
    if !is_right {
        return Err("it is damaged".into());
    }
    let mut entries = vec![0; kernels * ENTRY];
    file.read_exact_at(&mut entries, HEAD as u64).map_err(|_| "it is cut short")?;
    if hash(&entries) != number::<8>(&head, 32) {
        return Err("its index is damaged".into());
    }
    let entry =
        |one: &[u8]| (number::<8>(one, 0), number::<4>(one, 8) as u32, number::<4>(one, 12) as u32);
    Ok(entries.chunks_exact(ENTRY).map(entry).collect())
}

/// Head and index of records in the order of their keys, which follow it one after the other.
pub(super) fn front(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut at = HEAD + ENTRY * records.len();
    let mut index = Vec::with_capacity(at);
    for (key, record) in records {
        index.extend_from_slice(&key.to_le_bytes());
        index.extend_from_slice(&(at as u32).to_le_bytes());
        index.extend_from_slice(&(record.len() as u32).to_le_bytes());
        at += record.len();
    }
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&0_u32.to_le_bytes());
    for number in [records.len() as u64, at as u64, hash(&index)] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(&hash(&head).to_le_bytes());
    head.extend_from_slice(&index);
    head
}

/// A past as its record.
pub(super) fn encode(past: &Past) -> Vec<u8> {
    let (device, kernel) = (cut(&past.device), cut(&past.kernel));
    let shapes = &past.shapes[..past.shapes.len().min(MOST_SHAPES)];
    let mut record = vec![0; 8];
    record.extend_from_slice(&past.code.to_le_bytes());
    record.extend_from_slice(&past.driver.to_le_bytes());
    record.extend_from_slice(&past.day.to_le_bytes());
    record.extend_from_slice(&[
        device.len() as u8,
        kernel.len() as u8,
        shapes.len() as u8,
        0,
        0,
        0,
        0,
        0,
    ]);
    record.extend_from_slice(device.as_bytes());
    record.extend_from_slice(kernel.as_bytes());
    for shape in shapes {
        let Measured { grid, block, dynamic_shared, timed, nanos, half_width, count } = *shape;
        grid.iter().for_each(|side| record.extend_from_slice(&side.to_le_bytes()));
        block.iter().for_each(|side| record.extend_from_slice(&side.to_le_bytes()));
        record.extend_from_slice(&(timed as u16).to_le_bytes());
        record.extend_from_slice(&dynamic_shared.to_le_bytes());
        record.extend_from_slice(&nanos.to_le_bytes());
        record.extend_from_slice(&half_width.to_le_bytes());
        record.extend_from_slice(&count.to_le_bytes());
        record.extend_from_slice(&[0; 4]);
    }
    let check = hash(&record[8..]).to_le_bytes();
    record[..8].copy_from_slice(&check);
    record
}

/// As much of a name as is kept, cut where a letter ends.
fn cut(name: &str) -> &str {
    let end = (0..=LONGEST_NAME.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    &name[..end.unwrap_or(0)]
}

fn is_whole(record: &[u8]) -> bool {
    record.len() >= RECORD_HEAD && number::<8>(record, 0) == hash(&record[8..])
}

/// The past of a record that fits its check.
pub(super) fn decode(record: &[u8]) -> Option<Past> {
    let lengths = record.get(24..27)?;
    let [device, kernel, shapes] = [lengths[0], lengths[1], lengths[2]].map(usize::from);
    let rest = record.get(RECORD_HEAD..)?;
    let (device, rest) = rest.split_at_checked(device)?;
    let (kernel, rest) = rest.split_at_checked(kernel)?;
    let list = rest.get(..shapes * SHAPE)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some(Past {
        device: text(device),
        driver: number::<4>(record, 16) as u32,
        code: number::<8>(record, 8),
        kernel: text(kernel),
        day: number::<4>(record, 20) as u32,
        shapes: list.chunks_exact(SHAPE).filter_map(shape).collect(),
    })
}

fn shape(bytes: &[u8]) -> Option<Measured> {
    let word = |at: usize| number::<4>(bytes, at) as u32;
    let half = |at: usize| number::<2>(bytes, at) as u16;
    let measured = Measured {
        grid: [word(0), word(4), word(8)],
        block: [half(12), half(14), half(16)],
        timed: match half(18) {
            0 => Timed::Events,
            1 => Timed::Idle,
            2 => Timed::Cupti,
            _ => return None,
        },
        dynamic_shared: word(20),
        nanos: f32::from_bits(word(24)),
        half_width: f32::from_bits(word(28)),
        count: word(32),
    };
    let is_time = |number: f32| number.is_finite() && number > 0.0;
    (is_time(measured.nanos) && is_time(measured.half_width)).then_some(measured)
}

/// The file of a folder.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

fn number<const BYTES: usize>(bytes: &[u8], offset: usize) -> u64 {
    let mut whole = [0; 8];
    if let Some(field) = bytes.get(offset..offset + BYTES) {
        whole[..BYTES].copy_from_slice(field);
    }
    u64::from_le_bytes(whole)
}
