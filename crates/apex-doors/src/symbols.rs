//! Reads the functions of CUDA's runtime out of the symbol table of an ELF file.
//!
//! The file may be anything: every number in it is a claim until the bytes that it points to were read. Only what is
//! wanted is kept in memory, and a table that claims more than a gigabyte is not read.

/// Reads so many bytes at an offset of the file; none where the file ends earlier.
pub(crate) type ReadAt<'a> = dyn Fn(u64, usize) -> Option<Vec<u8>> + 'a;

/// A function of the runtime as the file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name, which begins with `cuda` or `__cuda`.
    pub(crate) name: String,
    /// Its address before the loader moves the file.
    pub(crate) address: u64,
    /// Its bytes.
    pub(crate) bytes: u64,
}

const HEADER_BYTES: usize = 64;
const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const MOST_SECTIONS: usize = 100_000;
const MOST_TABLE_BYTES: u64 = 1 << 30;
/// Machine code for x86-64.
const MACHINE: u16 = 62;
const SYMBOL_TABLE: u32 = 2;
const FUNCTION: u8 = 2;
/// The sections of real addresses end before the reserved numbers begin.
const RESERVED_SECTION: u16 = 0xff00;

/// A file without this name carries no runtime: every unit with a kernel calls it.
const SIGN: &str = "\0__cudaRegisterFatBinary\0";

/// The functions of CUDA's runtime that the file defines, in the order of their addresses. Empty where the file has no
/// symbol table, is no ELF file of this machine, or contradicts itself.
pub(crate) fn runtime_functions(read: &ReadAt) -> Vec<Function> {
    let mut functions = found(read).unwrap_or_default();
    functions.sort_by(|one, other| (one.address, &one.name).cmp(&(other.address, &other.name)));
    functions
}

fn found(read: &ReadAt) -> Option<Vec<Function>> {
    let sections = sections(read)?;
    let table = sections.iter().find(|section| section.kind == SYMBOL_TABLE)?;
    let names = sections.get(usize::try_from(table.link).ok()?)?;
    let names = names.content(read)?;
    if !String::from_utf8_lossy(&names).contains(SIGN) {
        return None;
    }
    let symbols = table.content(read)?;
    let function = |symbol: &[u8]| {
        let section = u16_at(symbol, 6)?;
        let defines = symbol.get(4)? & 0xf == FUNCTION && (1..RESERVED_SECTION).contains(&section);
        let name = if defines { name_at(&names, u32_at(symbol, 0)?)? } else { return None };
        is_of_runtime(name).then_some(Function {
            name: name.to_owned(),
            address: u64_at(symbol, 8)?,
            bytes: u64_at(symbol, 16)?,
        })
    };
    Some(symbols.chunks_exact(SYMBOL_BYTES).filter_map(function).collect())
}

/// Whether a name is one that CUDA's runtime gives its functions. C++ changes the names of a program's own.
fn is_of_runtime(name: &str) -> bool {
    let rest = name.strip_prefix("__").unwrap_or(name).strip_prefix("cuda");
    rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// A row of the section table.
struct Section {
    kind: u32,
    offset: u64,
    bytes: u64,
    link: u32,
}

impl Section {
    fn content(&self, read: &ReadAt) -> Option<Vec<u8>> {
        if self.bytes > MOST_TABLE_BYTES {
            return None;
        }
        read(self.offset, usize::try_from(self.bytes).ok()?)
    }
}

fn sections(read: &ReadAt) -> Option<Vec<Section>> {
    let header = read(0, HEADER_BYTES)?;
    let is_known = header.starts_with(b"\x7fELF\x02\x01") && u16_at(&header, 18)? == MACHINE;
    let (offset, row) = (u64_at(&header, 40)?, usize::from(u16_at(&header, 58)?));
    let count = usize::from(u16_at(&header, 60)?);
    if !is_known || row != SECTION_BYTES || count > MOST_SECTIONS {
        return None;
    }
    let rows = read(offset, count * SECTION_BYTES)?;
    let section = |row: &[u8]| {
        Some(Section {
            kind: u32_at(row, 4)?,
            offset: u64_at(row, 24)?,
            bytes: u64_at(row, 32)?,
            link: u32_at(row, 40)?,
        })
    };
    rows.chunks_exact(SECTION_BYTES).map(section).collect()
}

fn name_at(names: &[u8], offset: u32) -> Option<&str> {
    let rest = names.get(usize::try_from(offset).ok()?..)?;
    let end = rest.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these symbols: name, type, section, address, bytes.
    fn file(symbols: &[(&str, u8, u16, u64, u64)]) -> Vec<u8> {
        let mut names = vec![0];
        let mut table = vec![0; SYMBOL_BYTES];
        for &(name, kind, section, address, bytes) in symbols {
            let mut row = [0; SYMBOL_BYTES];
            row[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
            row[4] = kind;
            row[6..8].copy_from_slice(&section.to_le_bytes());
            row[8..16].copy_from_slice(&address.to_le_bytes());
            row[16..].copy_from_slice(&bytes.to_le_bytes());
            table.extend(row);
            names.extend(name.as_bytes());
            names.push(0);
        }
        let row = |kind: u32, offset: usize, bytes: usize, link: u32| {
            let mut row = [0; SECTION_BYTES];
            row[4..8].copy_from_slice(&kind.to_le_bytes());
            row[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
            row[32..40].copy_from_slice(&(bytes as u64).to_le_bytes());
            row[40..44].copy_from_slice(&link.to_le_bytes());
            row
        };
        let names_offset = HEADER_BYTES + table.len();
        let rows = [
            row(0, 0, 0, 0),
            row(SYMBOL_TABLE, HEADER_BYTES, table.len(), 2),
            row(3, names_offset, names.len(), 0),
        ];
        let mut header = [0; HEADER_BYTES];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[18..20].copy_from_slice(&MACHINE.to_le_bytes());
        header[40..48].copy_from_slice(&((names_offset + names.len()) as u64).to_le_bytes());
        header[58..60].copy_from_slice(&(SECTION_BYTES as u16).to_le_bytes());
        header[60..62].copy_from_slice(&(rows.len() as u16).to_le_bytes());
        [&header[..], &table, &names, &rows.concat()].concat()
    }

    fn functions(file: &[u8]) -> Vec<Function> {
        let read = |offset: u64, length: usize| {
            let start = usize::try_from(offset).ok()?;
            file.get(start..start.checked_add(length)?).map(<[u8]>::to_vec)
        };
        runtime_functions(&read)
    }

    const SIGN_ROW: (&str, u8, u16, u64, u64) = ("__cudaRegisterFatBinary", 2, 1, 16, 43);

    #[test]
    fn functions_of_the_runtime_are_found_by_name() {
        let whole = file(&[
            ("cudaMalloc", 2, 1, 64, 500),
            SIGN_ROW,
            ("main", 2, 1, 0, 9),
            ("cudart", 2, 1, 0, 9),
            ("cudaVariable", 1, 1, 0, 8),
            ("cudaImported", 2, 0, 0, 0),
            ("_Z10cudaMallocIfEiPPT_m", 2, 1, 0, 8),
        ]);
        let found = functions(&whole);
        let names: Vec<&str> = found.iter().map(|function| &*function.name).collect();
        assert_eq!(names, ["__cudaRegisterFatBinary", "cudaMalloc"]);
        assert_eq!((found[1].address, found[1].bytes), (64, 500));
    }

    #[test]
    fn a_file_without_the_runtime_has_none() {
        assert_eq!(functions(&file(&[("cudaMalloc", 2, 1, 64, 500)])), []);
        assert_eq!(functions(b"#!/bin/sh\n"), []);
        assert_eq!(functions(&[]), []);
    }

    #[test]
    fn whatever_is_cut_off_or_says_nonsense_is_no_file() {
        let whole = file(&[SIGN_ROW, ("cudaMalloc", 2, 1, 64, 500)]);
        for length in 0..whole.len() {
            assert_eq!(functions(&whole[..length]), [], "{length} bytes");
        }
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut broken = whole.clone();
                broken[at] = byte;
                assert!(functions(&broken).len() <= 2);
            }
        }
    }
}
