//! The one place of this crate with `unsafe` code: what the libraries below cannot promise by themselves.
#![allow(
    unsafe_code,
    reason = "no safe way exists to lead a session or to watch a descriptor"
)]

use std::io;
use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Makes the child lead a new session (and so a new process group) whose controlling terminal is its standard input.
pub(crate) fn lead_terminal_session(command: &mut Command) {
    let lead = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes two raw
    // system calls, allocates nothing (an error is a bare number) and takes no lock.
    unsafe {
        command.pre_exec(lead);
    }
}

/// Lets the runtime tell when a descriptor is ready. Must run inside a tokio runtime.
pub(crate) fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open, names the same descriptor for as long as it lives, and is owned by the result.
    unsafe { AsyncFd::register_with_interest(descriptor, interest) }.map_err(io::Error::from)
}

/// A descriptor that the program which started us opened for us and told us of. To be called once per number, before this
/// program opens anything itself.
pub(crate) fn inherited(number: i32) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the number is used for one system call that fails if it names nothing.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
    // SAFETY: it is open, as that call has shown, and nobody else here knows of it: our guard opened it for this use.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
