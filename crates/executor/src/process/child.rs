//! One child and its process group.
//!
//! An ended child stays a zombie until its [`Child`] is dropped: as long as the kernel keeps its pid, no other process or
//! group can get that number, so a signal to the group never hits a stranger.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::{self, Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use tokio::io::unix::AsyncFd;
use tokio::io::{Interest, Ready};

use crate::nursery::Nursery;
use crate::os;

/// Exit code of a program whose status was lost (protocol.md 6).
const STATUS_LOST: i32 = -1;

/// A started child that leads its own process group. Dropping it kills the group.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    handle: Option<AsyncFd<OwnedFd>>,
    nursery: Nursery,
}

impl Child {
    /// Takes over a child just started, by its pid; a child that cannot be watched is ended. Must run inside a tokio
    /// runtime, where blocking is allowed.
    pub(crate) fn new(pid: Pid, nursery: Nursery) -> std::io::Result<Self> {
        let handle = process::pidfd_open(pid, PidfdFlags::empty())
            .map_err(std::io::Error::from)
            .and_then(|handle| os::watch(handle, Interest::READABLE));
        match handle {
            Ok(handle) => Ok(Self {
                pid,
                handle: Some(handle),
                nursery,
            }),
            Err(error) => {
                let _ = process::kill_process_group(pid, Signal::KILL);
                let _ = process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
                nursery.gone(pid);
                Err(error)
            }
        }
    }

    /// Its pid, which is its process group's number too.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for its end and returns the exit code, 128 + n after signal n. Cancel-safe; may be asked again.
    pub(crate) async fn exited(&self) -> i32 {
        let Some(handle) = &self.handle else {
            return STATUS_LOST;
        };
        loop {
            let Ok(mut guard) = handle.readable().await else {
                return STATUS_LOST;
            };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            match process::waitid(WaitId::PidFd(guard.get_inner().as_fd()), options) {
                Ok(Some(status)) => {
                    let killed = status.terminating_signal().map(|signal| 128 + signal);
                    return status.exit_status().or(killed).unwrap_or(STATUS_LOST);
                }
                Ok(None) => guard.clear_ready_matching(Ready::READABLE),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return STATUS_LOST,
            }
        }
    }

    /// Signals every process of the group; none left is no error.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let _ = process::kill_process_group(self.pid, signal);
    }

    /// Lets go of an ended child without ending what it left behind: the number of its group if others are in it.
    pub(crate) fn release(mut self) -> Option<Pid> {
        if let Some(handle) = self.handle.take() {
            reap(handle.get_ref());
            self.nursery.gone(self.pid);
        }
        process::test_kill_process_group(self.pid)
            .is_ok()
            .then_some(self.pid)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        self.signal_group(Signal::KILL);
        if reap(handle.get_ref()) {
            self.nursery.gone(self.pid);
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (pid, nursery) = (self.pid, self.nursery.clone());
            runtime.spawn(async move {
                // Killed, so it becomes readable; a runtime that ends first leaves the zombie to our own parent.
                let _ = handle.readable().await;
                reap(handle.get_ref());
                nursery.gone(pid);
            });
        }
    }
}

/// Releases the pid if the child has ended.
fn reap(handle: &OwnedFd) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    !matches!(
        process::waitid(WaitId::PidFd(handle.as_fd()), options),
        Ok(None)
    )
}
