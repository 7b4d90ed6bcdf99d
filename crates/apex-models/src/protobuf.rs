//! The wire form of protocol buffers, as far as ONNX files use it.
//!
//! A message is a row of fields, each a number, a kind and its content. Reading borrows and checks every
//! length; fields that are not asked for are passed over, as the format demands.

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content<'a> {
    Whole(u64),
    Bytes(&'a [u8]),
    Float(f32),
}

/// Fields of a message in their order; `None` in place of what cannot be read.
pub(crate) fn fields(mut message: &[u8]) -> impl Iterator<Item = Option<(u64, Content<'_>)>> {
    let mut broken = false;
    std::iter::from_fn(move || {
        if message.is_empty() || broken {
            return None;
        }
        let field = take_field(&mut message);
        broken = field.is_none();
        Some(field)
    })
}

fn take_field<'a>(message: &mut &'a [u8]) -> Option<(u64, Content<'a>)> {
    let tag = take_whole(message)?;
    let content = match tag & 7 {
        0 => Content::Whole(take_whole(message)?),
        1 => {
            let (eight, rest) = message.split_first_chunk::<8>()?;
            *message = rest;
            Content::Whole(u64::from_le_bytes(*eight))
        }
        2 => {
            let length = usize::try_from(take_whole(message)?).ok()?;
            let (bytes, rest) = message.split_at_checked(length)?;
            *message = rest;
            Content::Bytes(bytes)
        }
        5 => {
            let (four, rest) = message.split_first_chunk::<4>()?;
            *message = rest;
            Content::Float(f32::from_le_bytes(*four))
        }
        _ => return None,
    };
    Some((tag >> 3, content))
}

/// Takes a whole number off the front.
pub(crate) fn take_whole(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for nth in 0..10 {
        let (&byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f).checked_shl(7 * nth)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// A message as it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    pub(crate) fn whole(mut self, field: u64, value: u64) -> Message {
        self.put(field << 3);
        self.put(value);
        self
    }

    pub(crate) fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.put(field << 3 | 2);
        self.put(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn text(self, field: u64, text: &str) -> Message {
        self.bytes(field, text.as_bytes())
    }

    pub(crate) fn message(self, field: u64, message: &Message) -> Message {
        self.bytes(field, &message.0)
    }

    fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let inner = Message::default().text(2, "name");
        let message = Message::default().whole(1, 300).whole(20, u64::MAX).message(7, &inner).0;
        let read: Vec<_> = fields(&message).collect::<Option<_>>().unwrap();
        assert_eq!(
            read,
            [
                (1, Content::Whole(300)),
                (20, Content::Whole(u64::MAX)),
                (7, Content::Bytes(&inner.0)),
            ]
        );
        assert_eq!(message[..3], [8, 0xac, 2]);
    }

    #[test]
    fn what_is_cut_off_is_seen() {
        let message = Message::default().text(2, "name").whole(1, 1 << 40).0;
        for length in 1..message.len() {
            if length == 6 {
                continue;
            }
            assert!(fields(&message[..length]).any(|field| field.is_none()), "{length}");
        }
        assert!(fields(&[0x0b]).any(|field| field.is_none()));
        assert!(fields(&[0xff; 30]).any(|field| field.is_none()));
    }
}
