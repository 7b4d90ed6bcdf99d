//! Values of parameters as people write them: `n=1024`.

use super::{Known, Place};
use crate::tree::Type;

/// The bytes that `name=value` says, for one of the parameters: by its name, by the end of its name, or by its number
/// from 0. A value is a whole number, a number with a point, or `0x` and bytes in hexadecimal digits for what is longer.
///
/// # Errors
///
/// What is wrong, for people.
pub fn given(places: &[Place], text: &str) -> Result<Known, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("{text} is not NAME=VALUE, such as n=1024"))?;
    let place = find(places, name.trim())?;
    let bytes = bytes(place, value.trim()).ok_or_else(|| {
        let ty = place.ty.word();
        format!("{value} is no value of {}, which has {} bytes (.{ty})", place.name, place.bytes)
    })?;
    Ok(Known { offset: place.offset, bytes })
}

fn find<'a>(places: &'a [Place], name: &str) -> Result<&'a Place, String> {
    let by_number = name.parse::<usize>().ok().and_then(|number| places.get(number));
    let exact = places.iter().find(|place| &*place.name == name);
    if let Some(place) = exact.or(by_number) {
        return Ok(place);
    }
    let ends: Vec<&Place> = places.iter().filter(|place| place.name.ends_with(name)).collect();
    match ends.as_slice() {
        [place] if !name.is_empty() => Ok(place),
        _ => {
            let names: Vec<&str> = places.iter().map(|place| &*place.name).collect();
            Err(format!("{name} is none of the kernel's parameters: {}", names.join(", ")))
        }
    }
}

fn bytes(place: &Place, value: &str) -> Option<Vec<u8>> {
    let size = place.bytes as usize;
    let whole = || {
        let (digits, sign) = value.strip_prefix('-').map_or((value, 1), |digits| (digits, -1));
        let number = match digits.strip_prefix("0x") {
            Some(digits) => i128::from_str_radix(digits, 16).ok()?,
            None => digits.parse::<i128>().ok()?,
        };
        let number = number.checked_mul(sign)?;
        let bits = 8 * u32::try_from(size).ok()?;
        let fits = (-(1_i128 << (bits - 1))..1 << bits).contains(&number);
        fits.then(|| number.to_le_bytes()[..size].to_vec())
    };
    match (place.ty, size) {
        (Type::F32, 4) => Some(value.parse::<f32>().ok()?.to_le_bytes().to_vec()),
        (Type::F64, 8) => Some(value.parse::<f64>().ok()?.to_le_bytes().to_vec()),
        // Newer compilers give floats no type.
        (_, 4) if value.contains('.') => Some(value.parse::<f32>().ok()?.to_le_bytes().to_vec()),
        (_, 8) if value.contains('.') => Some(value.parse::<f64>().ok()?.to_le_bytes().to_vec()),
        (_, 1 | 2 | 4 | 8) => whole(),
        _ => {
            let digits = value.strip_prefix("0x").filter(|digits| digits.len() == 2 * size)?;
            let byte = |nth: usize| u8::from_str_radix(digits.get(2 * nth..2 * nth + 2)?, 16).ok();
            (0..size).map(byte).collect()
        }
    }
}
