//! A run file: PTX text whose foot says, in comments, how to run it and what must come out.
//!
//! The directives are described in `tests/device/run_files.py`, which reads the same files and
//! gives no heed to one: `open: first=F step=S` names places that are not compared, because
//! hardware leaves the ISA's text there; the line above it says how.

use crate::generate::{Input, Kind, Type};
use std::collections::HashMap;

/// A parameter of the kernel, after the output's address.
#[derive(Debug, Clone)]
pub(crate) enum Parameter {
    /// The address of these values.
    Memory(Input),
    /// The values themselves.
    Value(Input),
    /// A texture or surface with these values.
    Image(Box<Image>),
}

/// A texture or a surface.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub(crate) surface: bool,
    pub(crate) values: Input,
    pub(crate) channels: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) slices: u32,
    pub(crate) linear_filter: bool,
    pub(crate) address: String,
    pub(crate) normalized: bool,
    pub(crate) reads_integers: bool,
    /// Plain memory: outside it is zero.
    pub(crate) linear_memory: bool,
}

/// What must come out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expect {
    Pending,
    /// The driver's error number.
    Fault(u32),
    Values(Vec<u64>),
}

/// What is near enough where the ISA leaves the bits open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) ulp: u64,
    pub(crate) absolute: f64,
}

/// What a run file says.
#[derive(Debug)]
pub(crate) struct RunFile {
    pub(crate) kernel: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) cluster: [u32; 3],
    pub(crate) shared: u32,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) out: Type,
    pub(crate) out_count: usize,
    pub(crate) tolerance: Option<Tolerance>,
    /// Places `first + n * step` where hardware leaves the ISA's text; they are not compared.
    pub(crate) open: Option<(usize, usize)>,
    pub(crate) expect: Expect,
    /// Types of the inputs whose special values are combined.
    pub(crate) combined: Vec<Type>,
}

impl RunFile {
    pub(crate) fn read(text: &str) -> Result<RunFile, String> {
        let mut file = RunFile {
            kernel: String::new(),
            grid: [1; 3],
            block: [1; 3],
            cluster: [1; 3],
            shared: 0,
            parameters: Vec::new(),
            out: Type::named("u32")?,
            out_count: 0,
            tolerance: None,
            open: None,
            expect: Expect::Pending,
            combined: Vec::new(),
        };
        let mut expected = Vec::new();
        for line in text.lines() {
            let Some((role, rest)) = line.strip_prefix("// ").and_then(|line| line.split_once(':'))
            else {
                continue;
            };
            let words = Words::split(rest);
            match role {
                "run" => file.read_run(&words)?,
                "out" => {
                    file.out = Type::named(words.plain(0)?)?;
                    file.out_count = words.number("count", 0)?;
                }
                "in" | "arg" => file.read_input(role == "arg", &words)?,
                "texture" | "surface" => file.read_image(role == "surface", &words)?,
                "tolerance" => {
                    let absolute = words.options.get("abs").map_or(Ok(0.0), |word| word.parse());
                    let absolute = absolute.map_err(|_| "abs is no number")?;
                    file.tolerance = Some(Tolerance { ulp: words.number("ulp", 0)?, absolute });
                }
                "open" => {
                    file.open =
                        Some((words.number("first", 0)?, words.number("step", 1usize)?.max(1)));
                }
                "expect" => expected.extend(words.plain.iter().map(|word| (*word).to_owned())),
                _ => {}
            }
        }
        if file.kernel.is_empty() || file.out_count == 0 {
            return Err("it has no `run` or no `out` line".into());
        }
        file.expect = read_expect(&expected)?;
        Ok(file)
    }

    fn read_run(&mut self, words: &Words<'_>) -> Result<(), String> {
        self.kernel = words.plain(0)?.to_owned();
        self.grid = words.triple("grid")?;
        self.block = words.triple("block")?;
        self.cluster = words.triple("cluster")?;
        self.shared = words.number("shared", 0)?;
        Ok(())
    }

    fn read_input(&mut self, by_value: bool, words: &Words<'_>) -> Result<(), String> {
        let kind = if by_value { Kind::Given } else { Kind::named(words.plain(1)?)? };
        let given = words.plain.iter().skip(if by_value { 1 } else { 2 });
        let given = given.map(|word| hexadecimal(word)).collect::<Result<Vec<_>, _>>()?;
        let input = self.input(words, kind, given)?;
        let parameter = if by_value { Parameter::Value(input) } else { Parameter::Memory(input) };
        self.parameters.push(parameter);
        Ok(())
    }

    fn read_image(&mut self, surface: bool, words: &Words<'_>) -> Result<(), String> {
        let kind = Kind::named(words.options.get("kind").unwrap_or(&"ordinary"))?;
        let values = self.input(words, kind, Vec::new())?;
        let depth = words.number("depth", 0u32)?.max(1);
        let layers = words.number("layers", 0u32)?.max(1);
        let faces = if words.number("cube", 0)? == 1 { 6 } else { 1 };
        let mut image = Box::new(Image {
            surface,
            values,
            channels: words.number("channels", 1)?,
            width: words.number("width", 1)?,
            height: words.number("height", 0u32)?.max(1),
            slices: depth * layers * faces,
            linear_filter: words.options.get("filter") == Some(&"linear"),
            address: (*words.options.get("address").unwrap_or(&"clamp")).to_owned(),
            normalized: words.options.get("coordinates") == Some(&"normalized"),
            linear_memory: words.number("linear", 0)? == 1,
            reads_integers: words.options.get("read") == Some(&"integer"),
        });
        let texels = image.width * image.height * image.slices;
        image.values.count = (texels * image.channels) as usize;
        self.parameters.push(Parameter::Image(image));
        Ok(())
    }

    fn input(&mut self, words: &Words<'_>, kind: Kind, given: Vec<u64>) -> Result<Input, String> {
        let ty = Type::named(words.plain(0)?)?;
        let place = u32::try_from(self.combined.len()).unwrap_or(0);
        if kind.combined() {
            self.combined.push(ty);
        }
        let count = words.number("count", given.len())?;
        if kind == Kind::Given && given.is_empty() {
            return Err("a `given` input names no values".into());
        }
        Ok(Input { ty, kind, count, seed: words.number("seed", 1)?, given, place })
    }
}

fn read_expect(words: &[String]) -> Result<Expect, String> {
    match words {
        [] => Ok(Expect::Pending),
        [word] if word == "pending" => Ok(Expect::Pending),
        [word, number] if word == "fault" => {
            number.parse().map(Expect::Fault).map_err(|_| "the fault has no number".into())
        }
        _ => {
            words.iter().map(|word| hexadecimal(word)).collect::<Result<_, _>>().map(Expect::Values)
        }
    }
}

fn hexadecimal(word: &str) -> Result<u64, String> {
    u64::from_str_radix(word, 16).map_err(|_| format!("{word} is no hexadecimal number"))
}

/// The words of a directive: plain ones, and `name=value`.
struct Words<'a> {
    plain: Vec<&'a str>,
    options: HashMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn split(text: &'a str) -> Words<'a> {
        Words {
            plain: text.split_whitespace().filter(|word| !word.contains('=')).collect(),
            options: text.split_whitespace().filter_map(|word| word.split_once('=')).collect(),
        }
    }

    fn plain(&self, at: usize) -> Result<&'a str, String> {
        self.plain.get(at).copied().ok_or_else(|| "a directive has too few words".to_owned())
    }

    fn number<T: std::str::FromStr>(&self, name: &str, otherwise: T) -> Result<T, String> {
        match self.options.get(name) {
            Some(word) => word.parse().map_err(|_| format!("{name}={word} is no number")),
            None => Ok(otherwise),
        }
    }

    fn triple(&self, name: &str) -> Result<[u32; 3], String> {
        let mut numbers = [1; 3];
        for (number, word) in
            numbers.iter_mut().zip(self.options.get(name).unwrap_or(&"1").split(','))
        {
            *number = word.parse().map_err(|_| format!("{name} is no number"))?;
        }
        Ok(numbers)
    }
}
