//! Which children of this process are programs whose status somebody wants.
//!
//! An executor that is a subreaper also becomes the parent of orphans and has to reap those, but never a child whose
//! owner still waits for it. So births and releases are told here. Without a subreaper nobody listens and nothing is
//! kept.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{self, Pid, WaitId, WaitIdOptions};
use tokio::sync::mpsc;

use crate::descent;

/// Between two looks at our children. An orphan that has ended is reaped at the second look that finds it ended; by then
/// every program is known here, and a host has waited for children of its own.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Tells the reaper, if there is one, about programs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nursery(Option<mpsc::UnboundedSender<Note>>);

/// What the reaper hears.
#[derive(Debug)]
enum Note {
    /// A program was started.
    Born(Pid),
    /// Its owner has released its pid.
    Gone(Pid),
}

impl Nursery {
    /// The nursery of this process, with a reaper if it is a subreaper. Must run inside a tokio runtime; the reaper ends
    /// with the last clone.
    pub(crate) fn open() -> Self {
        match process::child_subreaper() {
            Ok(Some(_)) => {
                let (sender, notes) = mpsc::unbounded_channel();
                tokio::spawn(reap_orphans(notes));
                Self(Some(sender))
            }
            Ok(None) | Err(_) => Self(None),
        }
    }

    /// A program was started.
    pub(crate) fn born(&self, pid: Pid) {
        self.tell(Note::Born(pid));
    }

    /// A program's pid has been released.
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

async fn reap_orphans(mut notes: mpsc::UnboundedReceiver<Note>) {
    let mut programs = HashSet::new();
    let mut ended_before = HashSet::new();
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            note = notes.recv() => match note {
                Some(Note::Born(pid)) => drop(programs.insert(pid)),
                Some(Note::Gone(pid)) => drop(programs.remove(&pid)),
                None => return,
            },
            _ = looks.tick() => {
                let ended: HashSet<Pid> = descent::ended_children().collect();
                for orphan in ended.intersection(&ended_before).filter(|pid| !programs.contains(pid)) {
                    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
                    let _ = process::waitid(WaitId::Pid(*orphan), options);
                }
                ended_before = ended;
            }
        }
    }
}
