//! A command on a pseudo terminal: what it shows, what it is typed, and how it leaves the terminal.

use nix::pty::{Winsize, openpty};
use nix::sys::termios::{Termios, tcgetattr};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A pseudo terminal with a command on it.
pub(crate) struct OnTerminal {
    pub(crate) child: Child,
    keyboard: File,
    slave: OwnedFd,
    before: Termios,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

/// What became of it.
pub(crate) struct Left {
    pub(crate) status: ExitStatus,
    pub(crate) shown: String,
    /// The terminal's settings are what they were.
    pub(crate) restored: bool,
}

/// Which streams of the command are the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Streams {
    All,
    StandardError,
}

impl OnTerminal {
    /// Starts the command on a terminal of 80 columns and 24 rows.
    pub(crate) fn start(command: &mut Command, streams: Streams) -> OnTerminal {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let before = tcgetattr(&pty.slave).unwrap();
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        command.env("TERM", "xterm-256color").stderr(end());
        if streams == Streams::All {
            command.stdin(end()).stdout(end());
        }
        let child = command.spawn().unwrap();
        // The command keeps its ends open until it is dropped or given others.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut screen = File::from(pty.master.try_clone().unwrap());
        let paper = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails once nobody has the other end open.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                paper.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        let keyboard = File::from(pty.master);
        OnTerminal { child, keyboard, slave: pty.slave, before, shown, reader }
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the command has written this word.
    pub(crate) fn wait_for(&self, word: &str) {
        let deadline = Instant::now() + Duration::from_secs(240);
        while !self.text().contains(word) {
            assert!(Instant::now() < deadline, "{word} never came: {:?}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the command's end.
    pub(crate) fn left(mut self) -> Left {
        let status = self.child.wait().unwrap();
        let restored = tcgetattr(&self.slave).unwrap() == self.before;
        drop(self.slave);
        self.reader.join().unwrap();
        let shown = String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned();
        Left { status, shown, restored }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap()).into_owned()
    }
}

/// Whether a text holds a code that sets a colour.
pub(crate) fn has_colour(text: &str) -> bool {
    text.split("\x1b[").skip(1).any(|part| {
        let code = part.split_once('m').map_or("", |(code, _)| code);
        let sets = |number: &str| matches!(number.parse(), Ok(30..=38 | 40..=48 | 90..=107));
        code.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') && code.split(';').any(sets)
    })
}
