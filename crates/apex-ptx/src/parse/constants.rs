//! Constant expressions, folded while they are read.
//!
//! The rules are the PTX ISA's: integers are `.s64`, or `.u64` when written with `U`, too large
//! for `.s64`, or joined with one that is; comparisons give `.s64`; a decimal number makes the
//! whole expression double precision. Signed overflow wraps, a division by zero is an error.
//! Where the ISA is silent ptxas decides: `~` and `%` work on `.u64`, and only the low six bits
//! of a shift's distance count.

use super::{Parsed, Parser};
use crate::lex::Kind;
use crate::tree::Constant;

/// How strongly the operators bind; a higher number binds tighter.
const TERNARY: u8 = 1;
const SHIFT: u8 = 9;
const SUM: u8 = 10;
const PRODUCT: u8 = 11;

impl Parser<'_> {
    pub(super) fn constant(&mut self) -> Parsed<Constant> {
        self.expression(TERNARY)
    }

    /// A constant that must be an integer, as its bits.
    pub(super) fn integer(&mut self, what: &str) -> Parsed<u64> {
        let at = self.at;
        match self.constant()? {
            Constant::Integer { bits, .. } => Ok(bits),
            _ => Err(self.error_at(at, format!("expected {what} as an integer, found a float"))),
        }
    }

    /// An integer between two bounds.
    pub(super) fn integer_in(&mut self, what: &str, least: u32, most: u32) -> Parsed<u32> {
        let at = self.at;
        let bits = self.integer(what)?;
        match u32::try_from(bits) {
            Ok(value) if (least..=most).contains(&value) => Ok(value),
            _ => Err(self.error_at(at, format!("{what} must be between {least} and {most}"))),
        }
    }

    /// `+4`, `+-4`, `-4*2+1` behind a name; 0 where nothing stands.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        let mut offset = 0_i64;
        loop {
            let negative = match self.kind() {
                Kind::Sign(b'+') => false,
                Kind::Sign(b'-') => true,
                _ => return Ok(offset),
            };
            self.advance();
            let at = self.at;
            let Constant::Integer { bits, .. } = self.expression(PRODUCT)? else {
                return Err(self.error_at(at, "an offset must be an integer".into()));
            };
            let term = bits.cast_signed();
            offset = if negative { offset.wrapping_sub(term) } else { offset.wrapping_add(term) };
        }
    }

    /// Everything that binds at least as tightly as `least`.
    fn expression(&mut self, least: u8) -> Parsed<Constant> {
        let mut left = self.nested(Parser::unary)?;
        loop {
            let at = self.at;
            if least <= TERNARY && self.take(b'?') {
                let yes = self.nested(|parser| parser.expression(TERNARY))?;
                self.expect(b':', "between the two sides of `?`")?;
                let no = self.nested(|parser| parser.expression(TERNARY))?;
                return Ok(if is_true(left) { yes } else { no });
            }
            let operator = self.kind();
            let Some(strength) = strength(operator).filter(|strength| *strength >= least) else {
                return Ok(left);
            };
            self.advance();
            let right = self.nested(|parser| parser.expression(strength + 1))?;
            left = match binary(operator, left, right) {
                Ok(value) => value,
                Err(message) => return Err(self.error_at(at, message.into())),
            };
        }
    }

    fn unary(&mut self) -> Parsed<Constant> {
        let at = self.at;
        match self.kind() {
            Kind::Number => self.literal(),
            Kind::Word if self.slice() == "WARP_SZ" => {
                self.advance();
                Ok(Constant::signed(32))
            }
            // `.5`: the lexer gave the point to the digits as if they were a modifier.
            Kind::Dotted if self.slice().as_bytes()[1].is_ascii_digit() => self.literal(),
            Kind::Sign(b'(') if self.next_kind() == Kind::Dotted => self.cast(),
            Kind::Sign(b'(') => {
                self.advance();
                let value = self.expression(TERNARY)?;
                self.expect(b')', "at the end of the expression")?;
                Ok(value)
            }
            Kind::Sign(operator @ (b'+' | b'-' | b'~' | b'!')) => {
                self.advance();
                let value = self.nested(Parser::unary)?;
                unary(operator, value).map_err(|message| self.error_at(at, message.into()))
            }
            _ => Err(self.expected("a number")),
        }
    }

    fn cast(&mut self) -> Parsed<Constant> {
        self.advance();
        let unsigned = match self.slice() {
            ".u64" => true,
            ".s64" => false,
            _ => return Err(self.expected("`.s64` or `.u64`")),
        };
        self.advance();
        self.expect(b')', "at the end of the cast")?;
        let at = self.at;
        match self.nested(Parser::unary)? {
            Constant::Integer { bits, .. } => Ok(Constant::Integer { bits, unsigned }),
            _ => Err(self.error_at(at, "only an integer can be cast".into())),
        }
    }

    pub(super) fn literal(&mut self) -> Parsed<Constant> {
        let Some(value) = read(self.slice()) else {
            return Err(self.expected("a number"));
        };
        self.advance();
        Ok(value)
    }
}

/// The value of a literal.
fn read(text: &str) -> Option<Constant> {
    let (head, tail) = text.split_at_checked(2).unwrap_or((text, ""));
    match head {
        "0f" | "0F" if tail.len() == 8 => {
            return hexadecimal(tail).map(|bits| Constant::Float32(bits as u32));
        }
        "0d" | "0D" if tail.len() == 16 => return hexadecimal(tail).map(Constant::Float64),
        _ => {}
    }
    let (digits, marked) = match text.strip_suffix(['U', 'u']) {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', rest @ ..] if rest.iter().all(u8::is_ascii_digit) && !rest.is_empty() => (8, digits),
        _ => (10, digits),
    };
    if digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && let Ok(bits) = u64::from_str_radix(digits, radix)
    {
        let unsigned = marked || bits > i64::MAX as u64;
        return Some(Constant::Integer { bits, unsigned });
    }
    let decimal =
        text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
            && text.bytes().any(|b| matches!(b, b'.' | b'e' | b'E'));
    decimal
        .then(|| text.parse::<f64>().ok())
        .flatten()
        .map(|value| Constant::Float64(value.to_bits()))
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_digits.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

fn strength(operator: Kind) -> Option<u8> {
    Some(match operator {
        Kind::Or => 2,
        Kind::And => 3,
        Kind::Sign(b'|') => 4,
        Kind::Sign(b'^') => 5,
        Kind::Sign(b'&') => 6,
        Kind::Equal | Kind::NotEqual => 7,
        Kind::Sign(b'<' | b'>') | Kind::LessEqual | Kind::GreaterEqual => 8,
        Kind::ShiftLeft | Kind::ShiftRight => SHIFT,
        Kind::Sign(b'+' | b'-') => SUM,
        Kind::Sign(b'*' | b'/' | b'%') => PRODUCT,
        _ => return None,
    })
}

fn is_true(value: Constant) -> bool {
    match value {
        Constant::Integer { bits, .. } => bits != 0,
        Constant::Float32(bits) => f32::from_bits(bits) != 0.0,
        Constant::Float64(bits) => f64::from_bits(bits) != 0.0,
    }
}

fn unary(operator: u8, value: Constant) -> Result<Constant, &'static str> {
    Ok(match (operator, value) {
        (b'+', value) => value,
        (b'!', value) => Constant::signed(i64::from(!is_true(value))),
        (b'-', Constant::Integer { bits, unsigned }) => {
            Constant::Integer { bits: bits.wrapping_neg(), unsigned }
        }
        (b'~', Constant::Integer { bits, .. }) => Constant::Integer { bits: !bits, unsigned: true },
        (b'-', Constant::Float32(bits)) => Constant::Float32(bits ^ (1 << 31)),
        (b'-', Constant::Float64(bits)) => Constant::Float64(bits ^ (1 << 63)),
        _ => return Err("`~` needs an integer"),
    })
}

fn binary(operator: Kind, left: Constant, right: Constant) -> Result<Constant, &'static str> {
    match (left, right) {
        (
            Constant::Integer { bits: left, unsigned: left_unsigned },
            Constant::Integer { bits: right, unsigned: right_unsigned },
        ) => integers(operator, left, left_unsigned, right, right_unsigned),
        (Constant::Float32(_), _) | (_, Constant::Float32(_)) => {
            Err("a single-precision number in hexadecimal cannot be part of an expression")
        }
        _ => floats(operator, double(left), double(right)),
    }
}

fn integers(
    operator: Kind,
    left: u64,
    left_unsigned: bool,
    right: u64,
    right_unsigned: bool,
) -> Result<Constant, &'static str> {
    let unsigned = left_unsigned || right_unsigned;
    let (signed_left, signed_right) = (left.cast_signed(), right.cast_signed());
    let order = if unsigned { left.cmp(&right) } else { signed_left.cmp(&signed_right) };
    let truth = |holds: bool| Ok(Constant::signed(i64::from(holds)));
    let bits = match operator {
        Kind::Or => return truth(left != 0 || right != 0),
        Kind::And => return truth(left != 0 && right != 0),
        Kind::Equal => return truth(order.is_eq()),
        Kind::NotEqual => return truth(order.is_ne()),
        Kind::LessEqual => return truth(order.is_le()),
        Kind::GreaterEqual => return truth(order.is_ge()),
        Kind::Sign(b'<') => return truth(order.is_lt()),
        Kind::Sign(b'>') => return truth(order.is_gt()),
        // A shift has the type of what is shifted.
        Kind::ShiftLeft => {
            let bits = left.wrapping_shl(right as u32);
            return Ok(Constant::Integer { bits, unsigned: left_unsigned });
        }
        Kind::ShiftRight => {
            let bits = match left_unsigned {
                true => left.wrapping_shr(right as u32),
                false => signed_left.wrapping_shr(right as u32).cast_unsigned(),
            };
            return Ok(Constant::Integer { bits, unsigned: left_unsigned });
        }
        Kind::Sign(b'/' | b'%') if right == 0 => return Err("division by zero"),
        Kind::Sign(b'/') if unsigned => left / right,
        Kind::Sign(b'/') => signed_left.wrapping_div(signed_right).cast_unsigned(),
        Kind::Sign(b'%') => {
            return Ok(Constant::Integer { bits: left % right, unsigned: true });
        }
        Kind::Sign(b'*') => left.wrapping_mul(right),
        Kind::Sign(b'+') => left.wrapping_add(right),
        Kind::Sign(b'-') => left.wrapping_sub(right),
        Kind::Sign(b'&') => left & right,
        Kind::Sign(b'^') => left ^ right,
        Kind::Sign(b'|') => left | right,
        _ => return Err("no operator of constant expressions"),
    };
    Ok(Constant::Integer { bits, unsigned })
}

fn double(value: Constant) -> f64 {
    match value {
        Constant::Integer { bits, unsigned: true } => bits as f64,
        Constant::Integer { bits, unsigned: false } => bits.cast_signed() as f64,
        Constant::Float32(bits) => f64::from(f32::from_bits(bits)),
        Constant::Float64(bits) => f64::from_bits(bits),
    }
}

fn floats(operator: Kind, left: f64, right: f64) -> Result<Constant, &'static str> {
    let truth = |holds: bool| Ok(Constant::signed(i64::from(holds)));
    let value = match operator {
        Kind::Equal => return truth(left == right),
        Kind::NotEqual => return truth(left != right),
        Kind::LessEqual => return truth(left <= right),
        Kind::GreaterEqual => return truth(left >= right),
        Kind::Sign(b'<') => return truth(left < right),
        Kind::Sign(b'>') => return truth(left > right),
        Kind::Or => return truth(left != 0.0 || right != 0.0),
        Kind::And => return truth(left != 0.0 && right != 0.0),
        Kind::Sign(b'+') => left + right,
        Kind::Sign(b'-') => left - right,
        Kind::Sign(b'*') => left * right,
        Kind::Sign(b'/') => left / right,
        _ => return Err("this operator needs integers"),
    };
    Ok(Constant::Float64(value.to_bits()))
}
