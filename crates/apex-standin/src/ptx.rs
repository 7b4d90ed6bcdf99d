//! A light look into PTX text: the kernels with their parameters, and the variables.
//!
//! It finds declarations and understands nothing else, so any text that begins like
//! PTX can be looked into. What it cannot read it leaves out.

use std::ffi::CString;

/// Where a parameter lies in a kernel's argument buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// What a PTX text declares.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Declarations {
    pub(crate) kernels: Vec<(CString, Vec<Parameter>)>,
    /// Variables in global and constant memory, with their size.
    pub(crate) variables: Vec<(CString, usize)>,
}

/// Finds the declarations.
pub(crate) fn declarations(text: &str) -> Declarations {
    let text = without_comments(text);
    let mut found = Declarations::default();
    // Declarations end with a semicolon or open a block; both end the words before.
    for statement in text.split([';', '{', '}']) {
        if let Some(start) = statement.find(".entry") {
            found.kernels.extend(kernel(&statement[start + ".entry".len()..]));
        } else if let Some(start) = statement.find(".global ").or(statement.find(".const ")) {
            found.variables.extend(variable(&statement[start..]));
        }
    }
    found
}

fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("//").into_iter().chain(rest.find("/*")).min() {
        kept.push_str(&rest[..start]);
        kept.push(' ');
        let (end, skipped) = if rest[start..].starts_with("//") { ("\n", 1) } else { ("*/", 2) };
        rest = match rest[start + 2..].find(end) {
            Some(length) => &rest[start + 2 + length + skipped..],
            None => "",
        };
    }
    kept.push_str(rest);
    kept
}

/// `name ( parameters )`, as it stands after `.entry`.
fn kernel(declaration: &str) -> Option<(CString, Vec<Parameter>)> {
    let declaration = declaration.trim_start();
    let end = declaration.find(|symbol: char| symbol == '(' || symbol.is_whitespace());
    let name = &declaration[..end.unwrap_or(declaration.len())];
    let mut parameters = Vec::new();
    let mut offset: usize = 0;
    if let Some((_, list)) = declaration.split_once('(') {
        for one in list.split(')').next()?.split(',').filter(|one| one.contains(".param")) {
            let (bytes, alignment) = size(one)?;
            offset = offset.next_multiple_of(alignment);
            parameters.push(Parameter { offset, bytes });
            offset += bytes;
        }
    }
    if name.is_empty() { None } else { Some((CString::new(name).ok()?, parameters)) }
}

/// `.global .align 4 .b8 name[size]`, perhaps with a value.
fn variable(declaration: &str) -> Option<(CString, usize)> {
    let declaration = declaration.split('=').next()?;
    let (bytes, _) = size(declaration)?;
    let before_size = declaration.split('[').next()?;
    let name = before_size.split_whitespace().next_back()?;
    if name.starts_with('.') { None } else { Some((CString::new(name).ok()?, bytes)) }
}

/// Bytes and alignment of what is declared.
fn size(declaration: &str) -> Option<(usize, usize)> {
    let mut words =
        declaration.split(['[', ' ', '\t', '\n', '\r', ']']).filter(|word| !word.is_empty());
    let (mut element, mut alignment) = (0, 0);
    while let Some(word) = words.next() {
        match word {
            ".align" => alignment = words.next()?.parse().ok()?,
            ".v2" => element = 2,
            ".v4" => element = 4,
            _ => {
                if let Some(bytes) = type_bytes(word) {
                    element = element.max(1) * bytes;
                    break;
                }
            }
        }
    }
    let mut count = 1;
    for dimension in declaration.split('[').skip(1) {
        let digits = dimension.split(']').next()?.trim();
        count *= if digits.is_empty() { 1 } else { digits.parse::<usize>().ok()? };
    }
    let alignment = if alignment == 0 { element } else { alignment };
    (element > 0 && alignment > 0).then(|| (element * count, alignment))
}

fn type_bytes(word: &str) -> Option<usize> {
    let bits = match word {
        ".texref" | ".samplerref" | ".surfref" => 64,
        ".f16x2" | ".bf16x2" => 32,
        ".bf16" => 16,
        _ => word.strip_prefix(['.'])?.strip_prefix(['b', 'u', 's', 'f'])?.parse::<usize>().ok()?,
    };
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some(bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, kernels: &[(&str, &[(usize, usize)])], variables: &[(&str, usize)]) {
        let found = declarations(text);
        let expected: Vec<_> = kernels
            .iter()
            .map(|(name, parameters)| {
                let parameters =
                    parameters.iter().map(|&(offset, bytes)| Parameter { offset, bytes }).collect();
                (CString::new(*name).unwrap(), parameters)
            })
            .collect();
        assert_eq!(found.kernels, expected);
        let expected: Vec<_> =
            variables.iter().map(|&(name, bytes)| (CString::new(name).unwrap(), bytes)).collect();
        assert_eq!(found.variables, expected);
    }

    #[test]
    fn kernels_and_their_parameters_are_found() {
        check(
            ".version 8.0\n.target sm_90\n.address_size 64\n\
             // .entry not_this()\n\
             .visible .entry _Z3addPfi(\n\t.param .u64 _Z3addPfi_param_0,\n\
             \t.param .u32 _Z3addPfi_param_1,\n\t.param .align 8 .b8 p2[24]\n)\n\
             .maxntid 128, 1, 1\n{\n\tret;\n}\n\
             .entry none() { ret; }\n.entry bare { ret; }",
            &[("_Z3addPfi", &[(0, 8), (8, 4), (16, 24)]), ("none", &[]), ("bare", &[])],
            &[],
        );
    }

    #[test]
    fn variables_are_found() {
        check(
            ".global .align 4 .b8 table[64];\n.const .f32 scale;\n\
             .visible .global .align 8 .u64 word = 5;\n.global .s32 grid[2][3];\n\
             .func f() { ld.global.u32 r, [a]; }",
            &[],
            &[("table", 64), ("scale", 4), ("word", 8), ("grid", 24)],
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        check("", &[], &[]);
        check(".entry", &[], &[]);
        check(".entry k(.param .what p)", &[], &[]);
        check("/* open", &[], &[]);
    }
}
