//! Which of our children are ours to wait for.
//!
//! An executor that is a subreaper also becomes the parent of orphans and has to reap those, but never a child whose
//! owner still wants its status. The reaper therefore hears of every birth before it happens and of every pid that was
//! released; without a reaper (no subreaper) nobody listens and nothing is kept.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Pid;
use tokio::sync::mpsc;

static TICKETS: AtomicU64 = AtomicU64::new(0);

/// Tells the reaper, if there is one, about children.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nursery(Option<mpsc::UnboundedSender<Note>>);

/// What the reaper hears.
#[derive(Debug)]
pub(crate) enum Note {
    /// A child is about to be started.
    Birth(u64),
    /// It was started, or (`None`) was not.
    Born(u64, Option<Pid>),
    /// Its owner has released its pid.
    Gone(Pid),
}

/// A start in progress; dropping it says that nothing was started.
#[derive(Debug)]
pub(crate) struct Birth {
    nursery: Nursery,
    ticket: u64,
    pid: Option<Pid>,
}

impl Nursery {
    /// Tells this reaper. The channel carries a few numbers per child and is drained all the time.
    pub(crate) fn telling(reaper: mpsc::UnboundedSender<Note>) -> Self {
        Self(Some(reaper))
    }

    /// To be called before a child is started.
    pub(crate) fn birth(&self) -> Birth {
        let ticket = TICKETS.fetch_add(1, Ordering::Relaxed);
        self.tell(Note::Birth(ticket));
        Birth {
            nursery: self.clone(),
            ticket,
            pid: None,
        }
    }

    /// To be called when a child's pid has been released.
    pub(crate) fn gone(&self, pid: Pid) {
        self.tell(Note::Gone(pid));
    }

    fn tell(&self, note: Note) {
        if let Some(reaper) = &self.0 {
            // A reaper that is gone has no use for it.
            let _ = reaper.send(note);
        }
    }
}

impl Birth {
    /// The child was started.
    pub(crate) fn done(mut self, pid: Pid) {
        self.pid = Some(pid);
    }
}

impl Drop for Birth {
    fn drop(&mut self) {
        self.nursery.tell(Note::Born(self.ticket, self.pid));
    }
}
