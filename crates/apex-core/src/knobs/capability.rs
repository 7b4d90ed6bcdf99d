//! A compute capability, as two numbers.

use super::Value;
use core::fmt;

/// What a chip can do: 12.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The number before the point.
    pub major: i32,
    /// The number behind it.
    pub minor: i32,
}

impl fmt::Display for Capability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.major, self.minor)
    }
}

impl Value for Option<Capability> {
    fn parse(text: &str) -> Result<Option<Capability>, &'static str> {
        const WANTED: &str = "a compute capability such as 12.0";
        if text.is_empty() {
            return Ok(None);
        }
        let (major, minor) = text.split_once('.').ok_or(WANTED)?;
        let number = |text: &str| text.parse().ok().filter(|number| (0..100).contains(number));
        let (major, minor) = (number(major).ok_or(WANTED)?, number(minor).ok_or(WANTED)?);
        Ok(Some(Capability { major, minor }))
    }

    fn show(&self) -> String {
        self.map_or("none".into(), |capability| capability.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_two_numbers() {
        let twelve = Some(Capability { major: 12, minor: 0 });
        assert_eq!(Value::parse("12.0"), Ok(twelve));
        assert_eq!(Value::show(&twelve), "12.0");
        assert_eq!(Option::<Capability>::parse(""), Ok(None));
        for wrong in ["12", "12.x", "-1.0", "sm_90"] {
            assert!(Option::<Capability>::parse(wrong).is_err(), "{wrong}");
        }
    }
}
