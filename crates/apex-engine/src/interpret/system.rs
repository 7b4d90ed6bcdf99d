//! Functions every program finds on the device: `vprintf`, `malloc`, `free`, `__assertfail`.

use super::context::{Context, Outcome};
use super::file::lanes_of;
use super::memory::peek;
use crate::code::{Reg, Src, SystemCall};
use crate::fault::Fault;

/// The longest string that is read from the device.
const LONGEST: usize = 1 << 20;

/// Executes a call.
pub(crate) fn call(x: &Context, call: SystemCall, dst: Option<Reg>, arguments: &[Src]) -> Outcome {
    let argument =
        |index: usize, lane: usize| arguments.get(index).map_or(0, |&src| x.get(src, lane));
    match call {
        SystemCall::Vprintf => {
            for lane in lanes_of(x.mask()) {
                let mut text = Vec::new();
                let given = format(&mut text, argument(0, lane), argument(1, lane));
                x.block().facts().device.services.print(&text);
                if let Some(dst) = dst {
                    x.set(dst, lane, given as u64);
                }
            }
        }
        SystemCall::Malloc => {
            for lane in lanes_of(x.mask()) {
                let address = x.block().facts().device.services.heap_alloc(argument(0, lane));
                if let Some(dst) = dst {
                    x.set(dst, lane, address);
                }
            }
        }
        SystemCall::Free => {
            for lane in lanes_of(x.mask()) {
                let address = argument(0, lane);
                if address != 0 {
                    x.block().facts().device.services.heap_free(address);
                }
            }
        }
        SystemCall::AssertFail => {
            for lane in lanes_of(x.mask()) {
                let text = |index: usize| {
                    String::from_utf8_lossy(&string(argument(index, lane))).into_owned()
                };
                let place = x.place(Some(lane));
                let ([a, b, c], [d, e, f]) = (place.block, place.thread.unwrap_or_default());
                let message = format!(
                    "{}:{}: {}: block: [{a},{b},{c}], thread: [{d},{e},{f}] Assertion `{}` failed.",
                    text(1),
                    argument(2, lane) as u32,
                    text(3),
                    text(0)
                );
                x.block().facts().device.services.assert_failed(&message);
            }
            let place = x.place(Some(x.mask().trailing_zeros() as usize));
            return x.fail(Fault::Assert(place));
        }
    }
    Ok(())
}

/// A string of the device, which is host memory; the guard catches a bad address.
fn string(address: u64) -> Vec<u8> {
    if address == 0 {
        return b"(null)".to_vec();
    }
    let mut bytes = Vec::new();
    for index in 0..LONGEST as u64 {
        // SAFETY: a page that is not there is the guard's affair.
        let byte: u8 = unsafe { peek(address + index) };
        if byte == 0 {
            break;
        }
        bytes.push(byte);
    }
    bytes
}

/// Reads arguments as the compiler laid them out: each at a multiple of its size.
struct Arguments {
    at: u64,
    read: i32,
}

impl Arguments {
    fn word(&mut self) -> u32 {
        self.at = self.at.next_multiple_of(4);
        self.read += 1;
        // SAFETY: as in `string`.
        let value = unsafe { peek(self.at) };
        self.at += 4;
        value
    }

    fn long(&mut self) -> u64 {
        self.at = self.at.next_multiple_of(8);
        self.read += 1;
        // SAFETY: as in `string`.
        let value = unsafe { peek(self.at) };
        self.at += 8;
        value
    }
}

/// Formats as C's `printf` does; gives what the device's `printf` returns.
fn format(out: &mut Vec<u8>, format: u64, arguments: u64) -> i32 {
    if format == 0 {
        return -1;
    }
    let text = string(format);
    let mut arguments = Arguments { at: arguments, read: 0 };
    let mut rest = text.as_slice();
    while let Some(&byte) = rest.first() {
        if byte != b'%' {
            out.push(byte);
            rest = &rest[1..];
            continue;
        }
        match conversion(rest, &mut arguments) {
            Some((text, length)) => {
                out.extend(text);
                rest = &rest[length..];
            }
            None => {
                out.push(b'%');
                rest = &rest[1..];
            }
        }
    }
    arguments.read
}

/// One conversion at the start of `text`: what it gives and how long it is.
fn conversion(text: &[u8], arguments: &mut Arguments) -> Option<(Vec<u8>, usize)> {
    let mut at = 1;
    let mut spec = vec![b'%'];
    while matches!(text.get(at), Some(b'-' | b'+' | b' ' | b'#' | b'0')) {
        spec.push(text[at]);
        at += 1;
    }
    number(text, &mut at, &mut spec, arguments);
    if text.get(at) == Some(&b'.') {
        spec.push(b'.');
        at += 1;
        number(text, &mut at, &mut spec, arguments);
    }
    let start = at;
    while matches!(text.get(at), Some(b'h' | b'l' | b'j' | b'z' | b't' | b'L' | b'q')) {
        at += 1;
    }
    let kind = *text.get(at)?;
    Some((converted(&text[start..at], kind, spec, arguments)?, at + 1))
}

/// What a conversion of a kind gives: `length` stands before it, `spec` is the format up to there.
fn converted(
    length: &[u8],
    kind: u8,
    mut spec: Vec<u8>,
    arguments: &mut Arguments,
) -> Option<Vec<u8>> {
    let wide = matches!(length, b"l" | b"ll" | b"j" | b"z" | b"t" | b"q" | b"L");
    Some(match kind {
        b'%' => b"%".to_vec(),
        b'd' | b'i' => {
            let value = match length {
                _ if wide => arguments.long() as i64,
                b"hh" => (arguments.word() as i8).into(),
                b"h" => (arguments.word() as i16).into(),
                _ => (arguments.word() as i32).into(),
            };
            spec.extend([b'l', b'l', kind]);
            print_integer(spec, value as u64)
        }
        b'u' | b'o' | b'x' | b'X' => {
            let value = match length {
                _ if wide => arguments.long(),
                b"hh" => (arguments.word() as u8).into(),
                b"h" => (arguments.word() as u16).into(),
                _ => arguments.word().into(),
            };
            spec.extend([b'l', b'l', kind]);
            print_integer(spec, value)
        }
        b'c' => {
            spec.push(kind);
            let character = arguments.word() as u8;
            if character == 0 {
                vec![0]
            } else {
                print_with(spec, |room, spec| {
                    // SAFETY: the format asks for one `int`.
                    unsafe {
                        libc::snprintf(
                            room.as_mut_ptr().cast(),
                            room.len(),
                            spec,
                            libc::c_int::from(character),
                        )
                    }
                })
            }
        }
        b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => {
            spec.push(kind);
            let value = f64::from_bits(arguments.long());
            print_with(spec, |room, spec| {
                // SAFETY: the format asks for one `double`.
                unsafe { libc::snprintf(room.as_mut_ptr().cast(), room.len(), spec, value) }
            })
        }
        b's' => {
            spec.push(kind);
            let mut value = string(arguments.long());
            value.push(0);
            print_with(spec, |room, spec| {
                // SAFETY: the format asks for one string, which ends with zero.
                unsafe {
                    libc::snprintf(room.as_mut_ptr().cast(), room.len(), spec, value.as_ptr())
                }
            })
        }
        b'p' => {
            spec.push(kind);
            let value = arguments.long();
            print_with(spec, |room, spec| {
                let pointer = std::ptr::without_provenance::<u8>(value as usize);
                // SAFETY: the format asks for one pointer, which is printed and not followed.
                unsafe { libc::snprintf(room.as_mut_ptr().cast(), room.len(), spec, pointer) }
            })
        }
        _ => return None,
    })
}

/// A width or a precision, perhaps from an argument.
fn number(text: &[u8], at: &mut usize, spec: &mut Vec<u8>, arguments: &mut Arguments) {
    if text.get(*at) == Some(&b'*') {
        *at += 1;
        let value = (arguments.word() as i32).clamp(-4096, 4096);
        spec.extend(value.to_string().bytes());
        return;
    }
    let mut value = 0u32;
    let mut any = false;
    while let Some(digit) = text.get(*at).filter(|byte| byte.is_ascii_digit()) {
        value = (value * 10 + u32::from(digit - b'0')).min(4096);
        any = true;
        *at += 1;
    }
    if any {
        spec.extend(value.to_string().bytes());
    }
}

fn print_integer(spec: Vec<u8>, value: u64) -> Vec<u8> {
    print_with(spec, |room, spec| {
        // SAFETY: the format asks for one `long long`.
        unsafe { libc::snprintf(room.as_mut_ptr().cast(), room.len(), spec, value) }
    })
}

/// Prints with C's own function, in room that grows when it must.
fn print_with(mut spec: Vec<u8>, print: impl Fn(&mut [u8], *const libc::c_char) -> i32) -> Vec<u8> {
    spec.push(0);
    let mut room = vec![0u8; 512];
    let length = print(&mut room, spec.as_ptr().cast());
    let length = usize::try_from(length).unwrap_or(0);
    if length >= room.len() {
        room.resize(length + 1, 0);
        print(&mut room, spec.as_ptr().cast());
    }
    room.truncate(length);
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_like_c() {
        let check = |text: &str, arguments: &[u64], expected: &str, count: i32| {
            let mut format_text = text.as_bytes().to_vec();
            format_text.push(0);
            let mut out = Vec::new();
            let got = format(&mut out, format_text.as_ptr() as u64, arguments.as_ptr() as u64);
            assert_eq!(String::from_utf8_lossy(&out), expected);
            assert_eq!(got, count);
        };
        check("plain 100%%\n", &[], "plain 100%\n", 0);
        check(
            "%d|%5u|%-4x|%lld",
            &[u64::from(-3i32 as u32) | 42 << 32, 255, (-9i64) as u64],
            "-3|   42|ff  |-9",
            4,
        );
        check(
            "%f %.2e %g",
            &[1.5f64.to_bits(), 12345.678f64.to_bits(), 0.25f64.to_bits()],
            "1.500000 1.23e+04 0.25",
            3,
        );
        let name = c"world";
        check("hello %s%c", &[name.as_ptr() as u64, u64::from(b'!')], "hello world!", 2);
        check("%*d|%.*f", &[4 | 7 << 32, 1, 2.5f64.to_bits()], "   7|2.5", 4);
        check("%p %p", &[0x1234, 0], "0x1234 (nil)", 2);
        check("%llx %hhd %y", &[0xdead_beef_0000, 0x1ff], "deadbeef0000 -1 %y", 2);
    }
}
