//! The guard: a second process that makes sure no program outlives its executor (design.md 4).
//!
//! ```text
//! guard      single-threaded, subreaper, holds the writing end of a pipe, waits for its only child
//! └─ ward    this program again: the executor, subreaper too, holds the reading end
//!    └─ programs, and what they leave behind
//! ```
//!
//! Orphans become children of the nearest subreaper above them, so whatever a program does (setsid, double fork, nohup), it
//! stays a descendant of the ward. When the ward ends, everything becomes the guard's and is killed; when the guard ends,
//! the pipe does, and the ward kills everything and ends too.
//!
//! SIGINT, SIGTERM, SIGHUP and SIGQUIT sent to the guard are passed on through the pipe; [`signal()`](crate::signal())
//! counts a signal that reached both (from a terminal, a supervisor, `timeout`) once. SIGTSTP and SIGCONT are passed on,
//! and the guard stops when its ward does, so that job control sees one job. The guard ends with the ward's exit code.

mod keeper;
mod ward;

use std::io;

use rustix::process::{self, Pid};

pub(crate) use ward::{Counts, claim, forwarded, is_dying};

/// Tells the ward the number of its pipe and who its guard is; only true for the guard's own child.
const VARIABLE: &str = "MAINSTAY_GUARD";

/// Whether a variable is between guard and ward and no program's business.
pub(crate) fn is_private(name: &std::ffi::OsStr) -> bool {
    name == VARIABLE
}

/// Starts this program again under a guard, and returns in the one that is guarded; the guard itself never returns.
///
/// Call it first in `main`, before any thread is started and before arguments or input are used: everything before it
/// happens twice. An executor that runs without it keeps the weaker promise: programs in their own process groups
/// are ended, what left its group may survive a SIGKILL of the executor.
///
/// # Errors
/// The system refuses what is needed. The program may go on without a guard.
pub fn guard() -> io::Result<()> {
    let own = process::getpid();
    match ward_pipe() {
        Some(pipe) => ward::watch(pipe?),
        None => keeper::keep(own),
    }
}

/// The pipe to our guard, if we were started by one.
fn ward_pipe() -> Option<io::Result<std::os::fd::OwnedFd>> {
    let text = std::env::var(VARIABLE).ok()?;
    let (descriptor, guard) = text.split_once(':')?;
    let guard = Pid::from_raw(guard.parse().ok()?)?;
    // The variable also reaches programs that we start, which are not guarded and may be executors, too.
    if process::getppid() != Some(guard) {
        return None;
    }
    Some(crate::os::inherited(descriptor.parse().ok()?))
}
