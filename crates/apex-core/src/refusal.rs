//! Tells the collector that a process could have no ring, and why.
//!
//! Such a process leaves nothing in the folder of the rings: often it may not write there, because it has become
//! another user. So it says it by one datagram to a socket that has no file; only its name is shared, and the
//! process keeps nothing open. Any process of the machine may send one: the reader believes only that somebody said
//! so. A process in another network namespace is not heard; what it says on standard error remains.

use crate::gate_page::session_number;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;

/// One process without a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its process id.
    pub pid: u32,
    /// Its user.
    pub user: u32,
    /// Why it could have none.
    pub why: String,
}

/// Bytes of a message at most.
const LONGEST: usize = 512;

/// The collector's end.
#[derive(Debug)]
pub struct Listener(UnixDatagram);

impl Listener {
    /// Listens for the processes whose rings would lie in this folder.
    pub fn of(rings: &Path) -> io::Result<Listener> {
        let socket = UnixDatagram::bind_addr(&address(rings)?)?;
        socket.set_nonblocking(true)?;
        Ok(Listener(socket))
    }

    /// The next one that was told; never waits.
    pub fn hear(&self) -> Option<Refusal> {
        let mut bytes = [0; LONGEST];
        loop {
            let length = self.0.recv(&mut bytes).ok()?;
            if let Some(refusal) = read(&bytes[..length]) {
                return Some(refusal);
            }
        }
    }
}

/// Tells it; `false` if nobody listens, because the session is over. Never waits.
pub fn tell(rings: &Path, refusal: &Refusal) -> bool {
    let Refusal { pid, user, why } = refusal;
    let send = || {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let text = format!("{pid} {user} {why}");
        socket.send_to_addr(&text.as_bytes()[..text.len().min(LONGEST)], &address(rings)?)
    };
    match send() {
        Ok(_) => true,
        // The collector listens, and has more to read than it can hold.
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

fn address(rings: &Path) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("apex-refused-{:016x}", session_number(rings)))
}

fn read(bytes: &[u8]) -> Option<Refusal> {
    let text = String::from_utf8_lossy(bytes);
    let mut words = text.splitn(3, ' ');
    let (pid, user) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    // It is shown on a terminal.
    let why = words.next()?.chars().filter(|letter| !letter.is_control()).collect();
    Some(Refusal { pid, user, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "sockets are the kernel's")]
    fn a_refusal_is_heard_while_somebody_listens() {
        let rings = std::env::temp_dir().join(format!("refusals-{}", std::process::id()));
        let refusal = Refusal { pid: 7, user: 8, why: "no room".into() };
        assert!(!tell(&rings, &refusal));
        let listener = Listener::of(&rings).unwrap();
        assert_eq!(listener.hear(), None);
        assert!(tell(&rings, &refusal));
        assert!(tell(&rings, &Refusal { why: "a\x1b[2J".repeat(200), ..refusal }));
        assert_eq!(listener.hear(), Some(refusal));
        assert!(!listener.hear().unwrap().why.contains('\x1b'));
        assert_eq!(listener.hear(), None);
    }

    #[test]
    fn what_is_no_refusal_is_passed_over() {
        for bytes in [&b""[..], b"7", b"7 8", b"x 8 why", b"7 -1 why", b"\xff\xff \xff"] {
            assert_eq!(read(bytes), None);
        }
    }
}
