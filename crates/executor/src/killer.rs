//! Ends programs with all their descendants.
//!
//! A program's own group is not all of it: jobs of a terminal have groups of their own, and so has what called setsid.
//! Finding the rest takes a look at all processes, so one task looks once for all programs that wait to be killed.

use rustix::process::Pid;
use tokio::sync::{mpsc, oneshot};

use crate::descent;

/// Programs killed with one look at most.
const TOGETHER: usize = 1024;

/// Takes programs to kill.
#[derive(Clone, Debug)]
pub(crate) struct Killer(mpsc::UnboundedSender<Victim>);

/// Sent, not dropped, when the family is killed.
pub(crate) type Killed = oneshot::Receiver<()>;

#[derive(Debug)]
struct Victim(Pid, oneshot::Sender<()>);

impl Killer {
    /// Starts the task; it ends with the last clone. Must run inside a tokio runtime.
    pub(crate) fn start() -> Self {
        let (sender, victims) = mpsc::unbounded_channel();
        tokio::spawn(kill(victims));
        Self(sender)
    }

    /// Kills a program's family; the program must not be released before that is done.
    pub(crate) fn kill(&self, program: Pid) -> Killed {
        let (done, killed) = oneshot::channel();
        // Without the task the runtime is ending, and everything with it.
        let _ = self.0.send(Victim(program, done));
        killed
    }
}

async fn kill(mut victims: mpsc::UnboundedReceiver<Victim>) {
    let mut batch = Vec::new();
    while victims.recv_many(&mut batch, TOGETHER).await > 0 {
        let programs: Vec<Pid> = batch.iter().map(|Victim(program, _)| *program).collect();
        let looked = tokio::task::spawn_blocking(move || descent::kill_families(&programs));
        if looked.await.is_err() {
            return;
        }
        for Victim(_, done) in batch.drain(..) {
            // Whoever asked may be gone.
            let _ = done.send(());
        }
    }
}
