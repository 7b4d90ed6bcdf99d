//! Which paths a source file uses, what it imports under which name, and what it defines.

use super::tokens::{Placed, Token, is_mark, tokens, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// Files that hold the root of a crate.
pub(super) const ROOT_FILES: [&str; 2] = ["lib.rs", "main.rs"];

/// A path of the crate that a module uses, from the root.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Use {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// What one file says of the others.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) file: String,
    pub(super) uses: Vec<Use>,
    /// The path behind each imported name.
    pub(super) imports: BTreeMap<String, Vec<String>>,
    /// Paths of which all names are imported.
    pub(super) globs: Vec<Vec<String>>,
    /// Names of its own items.
    pub(super) defines: BTreeSet<String>,
    /// Its modules that are compiled for tests only and have files of their own.
    pub(super) test_modules: Vec<String>,
}

impl Module {
    /// Takes in the other root of a crate that has two.
    pub(super) fn join(&mut self, other: Module) {
        self.uses.extend(other.uses);
        self.imports.extend(other.imports);
        self.globs.extend(other.globs);
        self.defines.extend(other.defines);
    }
}

/// Reads the file of the module at this path.
pub(super) fn read(at: &[String], file: &str, text: &str) -> Module {
    let (tokens, test_modules) = without_tests(&tokens(text));
    let module = Module { file: file.into(), test_modules, ..Module::default() };
    let mut reader = Reader { tokens: &tokens, here: at.to_vec(), open: Vec::new(), module };
    reader.read(at.len());
    let mut module = reader.module;
    let globs = module.globs.clone();
    // A name out of a glob is a use of what stands behind it.
    for (token, line) in &tokens {
        if let Token::Word(word) = token
            && !module.defines.contains(word)
            && !module.imports.contains_key(word)
        {
            let through = globs.iter().filter(|glob| at.starts_with(glob));
            let path = |glob: &Vec<String>| [glob.as_slice(), std::slice::from_ref(word)].concat();
            module.uses.extend(through.map(|glob| Use { path: path(glob), line: *line }));
        }
    }
    module
}

struct Reader<'a> {
    tokens: &'a [Placed],
    /// The module that is read, with those inside the file.
    here: Vec<String>,
    /// For each open brace whether a module inside the file begins with it.
    open: Vec<bool>,
    module: Module,
}

impl Reader<'_> {
    fn read(&mut self, file_depth: usize) {
        let mut at = 0;
        while let Some((token, line)) = self.tokens.get(at) {
            at += 1;
            match token {
                Token::Mark('{') => self.open.push(false),
                Token::Mark('}') => {
                    if self.open.pop() == Some(true) {
                        self.here.pop();
                    }
                }
                Token::Mark(_) => {}
                Token::Word(word) => match word.as_str() {
                    "mod" if is_mark(self.tokens, at + 1, '{') => {
                        self.here.push(self.word(at).unwrap_or_default().to_owned());
                        self.open.push(true);
                        at += 2;
                    }
                    "use" => {
                        let is_file = self.here.len() == file_depth;
                        at = self.tree(at, &mut Vec::new(), true, is_file);
                    }
                    "crate" | "super" | "self" => {
                        let (path, end) = self.path(at - 1);
                        if path.len() > 1 {
                            self.note(&path, *line);
                        }
                        at = end;
                    }
                    "fn" | "struct" | "enum" | "union" | "trait" | "const" | "static" | "type"
                        if self.here.len() == file_depth =>
                    {
                        let name = self.word(at).map(str::to_owned);
                        self.module.defines.extend(name);
                    }
                    _ => {}
                },
            }
        }
    }

    fn word(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at) {
            Some((Token::Word(word), _)) => Some(word),
            _ => None,
        }
    }

    /// The words of the path that begins here, and where it ends.
    fn path(&self, mut at: usize) -> (Vec<String>, usize) {
        let mut path = Vec::new();
        while let Some(word) = self.word(at) {
            path.push(word.to_owned());
            at += 1;
            let goes_on = is_mark(self.tokens, at, ':')
                && is_mark(self.tokens, at + 1, ':')
                && self.word(at + 2).is_some();
            if !goes_on {
                break;
            }
            at += 2;
        }
        (path, at)
    }

    /// Reads the tree of a `use` that begins here, below the words before it. Where it ends.
    fn tree(
        &mut self,
        mut at: usize,
        before: &mut Vec<String>,
        is_first: bool,
        is_file: bool,
    ) -> usize {
        if is_first && is_mark(self.tokens, at, ':') {
            at += 2;
        }
        let line = self.tokens.get(at).map_or(0, |(_, line)| *line);
        let (mut words, mut end) = self.path(at);
        if words.last().is_some_and(|word| word == "self") && before.len() + words.len() > 1 {
            words.pop();
        }
        let depth = before.len();
        before.extend(words);
        if is_mark(self.tokens, end, ':') {
            end += 2;
        }
        if is_mark(self.tokens, end, '{') {
            end += 1;
            while end < self.tokens.len() && !is_mark(self.tokens, end, '}') {
                end = self.tree(end, before, false, is_file);
                if is_mark(self.tokens, end, ',') {
                    end += 1;
                }
            }
            end += 1;
        } else if is_mark(self.tokens, end, '*') {
            end += 1;
            self.note(before, line);
            if let (true, Some(path)) = (is_file, self.absolute(before)) {
                self.module.globs.push(path);
            }
        } else {
            let mut name = before.last().cloned();
            if self.word(end) == Some("as") {
                name = self.word(end + 1).map(str::to_owned);
                end += 2;
            }
            self.note(before, line);
            if let (true, Some(name), Some(path)) = (is_file, name, self.absolute(before)) {
                self.module.imports.insert(name, path);
            }
        }
        before.truncate(depth);
        end
    }

    fn note(&mut self, path: &[String], line: usize) {
        if let Some(path) = self.absolute(path) {
            self.module.uses.push(Use { path, line });
        }
    }

    /// The path from the root. One that begins with a plain name may lead into a child; if it leads into another crate,
    /// no module is found there.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut from = self.here.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                from.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|word| word == "super") {
                    from.pop()?;
                    rest = &rest[1..];
                }
            }
            _ => {}
        }
        from.extend(rest.iter().cloned());
        Some(from)
    }
}
