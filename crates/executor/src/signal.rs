//! Signals of a program that may have a guard.

use std::io;

use tokio::signal::unix::{self, SignalKind};
use tokio::sync::watch;

use crate::guard::{self, Counts};

/// Listens for a signal, whether it is sent to this process or to its guard.
#[derive(Debug)]
pub struct Signal {
    number: usize,
    direct: unix::Signal,
    direct_count: u64,
    forwarded: Option<watch::Receiver<Counts>>,
    /// Forwarded ones that came before this listener.
    before: u64,
    reported: u64,
}

/// Starts to listen, like [`tokio::signal::unix::signal`], which a guarded program must not use for SIGINT, SIGTERM,
/// SIGHUP and SIGQUIT: it would not hear those sent to its guard. Must be called inside a tokio runtime.
///
/// # Errors
/// The system refuses the handler.
pub fn signal(kind: SignalKind) -> io::Result<Signal> {
    let direct = unix::signal(kind)?;
    let number = kind.as_raw_value();
    guard::claim(number);
    let forwarded = guard::forwarded();
    let number = usize::try_from(number).unwrap_or(0);
    let before = forwarded.as_ref().map_or(0, |counts| count(counts, number));
    Ok(Signal {
        number,
        direct,
        direct_count: 0,
        forwarded,
        before,
        reported: 0,
    })
}

impl Signal {
    /// The next one. One that reaches both this process and its guard counts once. `None` never comes while the runtime
    /// lives. Cancel-safe.
    pub async fn recv(&mut self) -> Option<()> {
        loop {
            let forwarded = self
                .forwarded
                .as_ref()
                .map_or(0, |counts| count(counts, self.number));
            if self.direct_count.max(forwarded - self.before) > self.reported {
                self.reported += 1;
                return Some(());
            }
            tokio::select! {
                direct = self.direct.recv() => {
                    direct?;
                    self.direct_count += 1;
                }
                () = changed(self.forwarded.as_mut()) => {}
            }
        }
    }
}

fn count(counts: &watch::Receiver<Counts>, number: usize) -> u64 {
    counts.borrow().get(number).copied().unwrap_or(0)
}

async fn changed(counts: Option<&mut watch::Receiver<Counts>>) {
    if let Some(counts) = counts
        && counts.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}
