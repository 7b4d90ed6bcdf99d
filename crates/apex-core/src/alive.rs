//! Whether a process lives, told by a lock that the living one holds.
//!
//! A name says nothing, because a binary may bear any; a process id is another process's in another namespace, and
//! after a while in the same one. A lock of an open file description is seen by everybody who sees the file. The
//! kernel releases it with the last reference to the description: a killed process has released its locks before it
//! is a zombie. Such a lock is asked for without being taken, so who asks never stands in the way of who takes.
//!
//! A program may close descriptors that it does not know, and its children inherit those that it keeps. Inside a
//! program the description is therefore held by a mapping of one page and by no descriptor: it survives `closefrom`
//! and becoming a daemon, `exec` and the end drop it with all memory, a forked child does not get it. Two cases
//! remain, and both make a dead process look alive, never a living one dead: a child of `vfork` has its parent's
//! memory until it executes, and a child that another thread forks within this file's few calls inherits the
//! descriptor.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Takes a file for as long as it, or a copy of its descriptor, is open; `false` if somebody else has it.
pub fn take(file: &File) -> io::Result<bool> {
    match ask(file, libc::F_OFD_SETLK) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Whether somebody has taken the file, by another description than this one.
pub fn is_taken(file: &File) -> io::Result<bool> {
    ask(file, libc::F_OFD_GETLK).map(|lock| i32::from(lock.l_type) != libc::F_UNLCK)
}

/// Takes a file for as long as this process has its memory. It is looked at afterwards: a kernel may release
/// the lock with the descriptor, and who relied on it would be taken for dead.
pub fn take_for_life(path: &Path) -> io::Result<()> {
    let open = || File::options().read(true).write(true).open(path);
    let file = open()?;
    if !take(&file)? {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    keep_by_mapping(&file)?;
    drop(file);
    if is_taken(&open()?)? { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

fn ask(file: &File, question: libc::c_int) -> io::Result<libc::flock> {
    // SAFETY: all of its fields are numbers; a description's lock wants zero for the process.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: an open descriptor, and a valid place for the answer.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), question, &raw mut lock) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(lock) }
}

fn keep_by_mapping(file: &File) -> io::Result<()> {
    const PAGE: usize = 4096;
    // SAFETY: a fresh mapping that nobody may touch, placed by the kernel; it is given back where it would be
    // inherited, and else stays to the end of the process.
    unsafe {
        let nowhere = std::ptr::null_mut();
        let page =
            libc::mmap(nowhere, PAGE, libc::PROT_NONE, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if libc::madvise(page, PAGE, libc::MADV_DONTFORK) != 0 {
            let error = io::Error::last_os_error();
            libc::munmap(page, PAGE);
            return Err(error);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("apex-{name}-{}", std::process::id()));
        std::fs::write(&path, [0; 4096]).unwrap();
        path
    }

    #[test]
    #[cfg_attr(miri, ignore = "locks of files are the kernel's")]
    fn a_file_is_taken_by_one_and_free_when_it_is_closed() {
        let path = file("taken");
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let (one, other) = (open(), open());
        assert!(take(&one).unwrap() && take(&one).unwrap());
        assert!(!take(&other).unwrap() && is_taken(&other).unwrap());
        assert!(!is_taken(&one).unwrap(), "nobody stands in his own way");
        drop(one);
        assert!(!is_taken(&other).unwrap() && take(&other).unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    #[cfg_attr(miri, ignore = "locks of files are the kernel's")]
    fn a_life_is_told_without_a_descriptor_and_not_by_a_forked_child() {
        let path = file("life");
        let mut between = [0; 2];
        // SAFETY: a valid place for two descriptors.
        assert_eq!(unsafe { libc::pipe(between.as_mut_ptr()) }, 0);
        let [reading, writing] = between;
        // SAFETY: the child makes only the calls below, which take no lock that a thread of this test could hold
        // but the allocator's, which glibc frees in a child; it ends by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let done = take_for_life(&path).is_ok();
            // SAFETY: plain system calls on descriptors of this process.
            unsafe {
                libc::syscall(libc::SYS_close_range, writing + 1, u32::MAX, 0);
                let inherits = libc::fork();
                if inherits == 0 {
                    libc::sleep(60);
                    libc::_exit(0);
                }
                libc::write(writing, (&raw const inherits).cast(), 4);
                libc::sleep(if done { 60 } else { 0 });
                libc::_exit(0);
            }
        }
        let mut inherits = 0_i32;
        // SAFETY: a valid place for the child's answer.
        assert_eq!(unsafe { libc::read(reading, (&raw mut inherits).cast(), 4) }, 4);
        let asker = File::options().read(true).write(true).open(&path).unwrap();
        let lived = is_taken(&asker).unwrap();
        // SAFETY: processes that this test has begun; the first is left as a zombie until it was asked about.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            let mut info = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOWAIT;
            libc::waitid(libc::P_PID, child.cast_unsigned(), &raw mut info, how);
        }
        let zombie_lives = is_taken(&asker).unwrap();
        // SAFETY: as above.
        unsafe {
            libc::waitpid(child, std::ptr::null_mut(), 0);
            libc::kill(inherits, libc::SIGKILL);
            libc::close(reading);
            libc::close(writing);
        }
        std::fs::remove_file(path).unwrap();
        assert!(lived, "without a descriptor it still holds the file");
        assert!(!zombie_lives, "its child lives, which does not hold it");
    }
}
