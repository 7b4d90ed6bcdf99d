//! Stays beside the program until it ends: hands signals on and looks at the rings in between.
//!
//! Signals are read as data (`signalfd`), so no handler ever runs and one loop does everything. A signal
//! that the terminal sent has reached the program too, because both are in one process group; only what
//! another process sent to apex alone is handed on.

use apex_bench::child::with_mask;
use apex_daemon::speech::say;
use apex_daemon::summary::Exit;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

/// Signals that are handed on to the program.
const HANDED_ON: [Signal; 8] = [
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGALRM,
];

/// Signals that end the waiting for orphans. A terminal that is closed does not: a server is left behind to
/// outlive it.
const ENDS_WAITING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT];

/// The signals of this process, held back to be read.
pub(crate) struct Signals {
    source: SignalFd,
    held: SigSet,
    before: SigSet,
}

impl Signals {
    /// Holds signals back from here on: before any thread is made, because a thread inherits what is held
    /// back and a signal goes to whichever thread takes it; and before the program is started, so that
    /// none is missed.
    pub(crate) fn hold() -> io::Result<Signals> {
        let mut held = SigSet::empty();
        for signal in HANDED_ON.into_iter().chain([Signal::SIGCHLD, Signal::SIGXFSZ]) {
            held.add(signal);
        }
        let before = held.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Signals { source: SignalFd::with_flags(&held, flags)?, held, before })
    }

    /// Starts the program with the signals held back that were so when apex began. If its orphans are wanted they
    /// become children of ours, and not of the machine's first process.
    pub(crate) fn start(&self, command: &mut Command, with_orphans: bool) -> io::Result<Child> {
        with_mask(command, self.before);
        if with_orphans {
            set_child_subreaper(true)?;
        }
        command.spawn()
    }

    /// Holds nothing back any more.
    pub(crate) fn let_go(self) {
        let _ = self.before.thread_set_mask();
    }

    /// Waits for the program's end, calling `look` again whenever its last answer has passed.
    pub(crate) fn wait(
        &self,
        child: &mut Child,
        mut look: impl FnMut() -> Duration,
    ) -> io::Result<ExitStatus> {
        let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            self.pause(look())?;
            while let Ok(Some(signal)) = self.source.read_signal() {
                hand_on(&signal, pid);
            }
        }
    }

    /// Waits until nothing runs any more that the program has started. A signal to end ends the waiting instead;
    /// what runs then goes on.
    pub(crate) fn wait_for_orphans(&self, mut look: impl FnMut() -> Duration) -> io::Result<()> {
        let mut is_said = false;
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) if is_said => {}
                Ok(WaitStatus::StillAlive) => {
                    say("the program has ended; Ctrl-C ends the waiting for what it left behind");
                    is_said = true;
                }
                Ok(_) => continue,
                Err(Errno::ECHILD) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            self.pause(look())?;
            while let Ok(Some(signal)) = self.source.read_signal() {
                let number = i32::try_from(signal.ssi_signo).ok();
                let signal = number.and_then(|number| Signal::try_from(number).ok());
                if signal.is_some_and(|signal| ENDS_WAITING.contains(&signal)) {
                    return Ok(());
                }
            }
        }
    }

    /// Until a signal comes, or the time is over.
    fn pause(&self, longest: Duration) -> io::Result<()> {
        let mut sources = [PollFd::new(self.source.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut sources, Some(TimeSpec::from_duration(longest)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends as the program ended: with its code, or of the signal that killed it.
    pub(crate) fn end_like(&self, exit: Exit) -> ExitCode {
        let Some(signal) = exit.signal else {
            return ExitCode::from(exit.code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
        };
        // The program left its core, if any; apex has none of interest.
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
        let _ = self.held.thread_unblock();
        let _ = signal_hook::low_level::emulate_default_handler(signal);
        // A signal that cannot end us: what shells say in its place.
        ExitCode::from(128 + u8::try_from(signal).unwrap_or(0))
    }
}

/// How the program ended.
pub(crate) fn exit_of(status: ExitStatus) -> Exit {
    Exit { code: status.code(), signal: status.signal() }
}

/// Many processes have many rings: each takes a descriptor of ours, none of the program's.
pub(crate) fn raise_descriptor_limit() {
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Under so many descriptors none is spent on what a session can do without.
const FEW_DESCRIPTORS: u64 = 64;

/// Whether there are descriptors beyond what the session itself needs.
pub(crate) fn has_spare_descriptors() -> bool {
    getrlimit(Resource::RLIMIT_NOFILE).is_ok_and(|(soft, _)| soft >= FEW_DESCRIPTORS)
}

fn hand_on(signal: &siginfo, child: Pid) {
    // Codes above zero are the kernel's own: the terminal's keys and hang-up.
    let from_process = signal.ssi_code <= 0;
    let number = i32::try_from(signal.ssi_signo).ok().and_then(|n| Signal::try_from(n).ok());
    match number {
        // A write beyond a limit is told by the write itself.
        Some(Signal::SIGCHLD | Signal::SIGXFSZ) | None => {}
        Some(signal) if from_process => {
            // It may have ended in this very moment.
            let _ = kill(child, signal);
        }
        Some(_) => {}
    }
}
