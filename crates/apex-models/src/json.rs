//! Reads the JSON header of a model file.
//!
//! The program's process holds this code too, so it brings no library for it. Whatever is not JSON, is nested
//! deeper than a header can be, or goes on after its end is refused with the place.

/// A JSON value. Numbers are whole in a header, so they are kept as text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Truth(bool),
    Number(String),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// The whole number it is.
    pub(crate) fn whole(&self) -> Option<usize> {
        match self {
            Value::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    /// Its elements.
    pub(crate) fn list(&self) -> Option<&[Value]> {
        match self {
            Value::List(values) => Some(values),
            _ => None,
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }
}

/// Reads a whole text.
pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    let value = reader.value(DEEPEST)?;
    reader.space();
    if reader.at != text.len() {
        return Err(reader.wrong("the end"));
    }
    Ok(value)
}

/// Text as a JSON string, with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(letter);
            }
            control if u32::from(control) < 0x20 => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

const DEEPEST: u32 = 8;

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: u32) -> Result<Value, String> {
        self.space();
        if depth == 0 {
            return Err(self.wrong("less nesting"));
        }
        match self.text.get(self.at) {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b't') => self.word("true", Value::Truth(true)),
            Some(b'f') => self.word("false", Value::Truth(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(b'-' | b'0'..=b'9') => Ok(self.number()),
            _ => Err(self.wrong("a value")),
        }
    }

    fn object(&mut self, depth: u32) -> Result<Value, String> {
        let mut entries = Vec::new();
        self.at += 1;
        self.space();
        if self.took(b'}') {
            return Ok(Value::Object(entries));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.expect(b':')?;
            entries.push((key, self.value(depth - 1)?));
            self.space();
            if self.took(b'}') {
                return Ok(Value::Object(entries));
            }
            self.expect(b',')?;
        }
    }

    fn array(&mut self, depth: u32) -> Result<Value, String> {
        let mut values = Vec::new();
        self.at += 1;
        self.space();
        if self.took(b']') {
            return Ok(Value::List(values));
        }
        loop {
            values.push(self.value(depth - 1)?);
            self.space();
            if self.took(b']') {
                return Ok(Value::List(values));
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect(b'"')?;
        let mut bytes = Vec::new();
        loop {
            match self.text.get(self.at) {
                None => return Err(self.wrong("the end of a string")),
                Some(b'"') => break,
                Some(b'\\') => {
                    let letter = self.escaped()?;
                    bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes());
                }
                Some(&byte) => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        String::from_utf8(bytes).map_err(|_| self.wrong("UTF-8"))
    }

    /// One escaped character. Pairs of surrogates do not occur in names of tensors.
    fn escaped(&mut self) -> Result<char, String> {
        self.at += 1;
        let letter = *self.text.get(self.at).ok_or_else(|| self.wrong("an escape"))?;
        self.at += 1;
        Ok(match letter {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => char::from(letter),
            b'u' => {
                let digits = self.text.get(self.at..self.at + 4);
                let code = digits
                    .and_then(|digits| std::str::from_utf8(digits).ok())
                    .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                    .and_then(char::from_u32);
                self.at += 4;
                code.ok_or_else(|| self.wrong("four hex digits"))?
            }
            _ => return Err(self.wrong("an escape")),
        })
    }

    fn number(&mut self) -> Value {
        let start = self.at;
        while matches!(self.text.get(self.at), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'))
        {
            self.at += 1;
        }
        Value::Number(String::from_utf8_lossy(&self.text[start..self.at]).into_owned())
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        if self.text[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.wrong(word))
    }

    fn space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn took(&mut self, byte: u8) -> bool {
        let there = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.took(byte) { Ok(()) } else { Err(self.wrong(&format!("'{}'", char::from(byte)))) }
    }

    fn wrong(&self, expected: &str) -> String {
        format!("{expected} was expected at byte {}", self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        let value = parse(r#" {"a": {"shape": [2, 3], "dtype": "F32"}, "é\"": null} "#).unwrap();
        let a = value.get("a").unwrap();
        let shape: Vec<_> =
            a.get("shape").unwrap().list().unwrap().iter().map(Value::whole).collect();
        assert_eq!(shape, [Some(2), Some(3)]);
        assert_eq!(a.get("dtype"), Some(&Value::Text("F32".into())));
        assert_eq!(value.get("é\""), Some(&Value::Null));
    }

    #[test]
    fn what_is_quoted_is_read_back() {
        for text in ["", "plain", "a\"b\\c", "line\nbreak\u{1}", "é√"] {
            assert_eq!(parse(&quoted(text)), Ok(Value::Text(text.into())));
        }
    }

    #[test]
    fn everything_else_is_refused() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "{",
            "{\"a\"}",
            "{\"a\":1,}",
            "[1 2]",
            "tru",
            "\"\\u12",
            "\"",
            "1 1",
            "{\"a\":",
            &deep,
        ] {
            assert!(parse(text).is_err(), "{}", &text[..text.len().min(20)]);
        }
    }
}
