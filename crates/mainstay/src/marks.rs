//! The three one-way marks, the only things that actors and callers share (`session.md` 15.6).
//!
//! | mark | set by | read by |
//! |---|---|---|
//! | [`Gate`] of a generation | the supervisor, before any other effect of a retirement | callers, before sending and with the answer in hand; the Writer |
//! | [`Closed`] of a link | its Reader, before it drains the pending calls | callers, the Writer |
//! | [`Written`] of a queued call | the Writer, before the first byte | the Reader's drain, to tell *not sent* from *unknown* |
//!
//! All accesses are sequentially consistent: the Writer sets *written* and then tests *closed* and the gate, the
//! Reader sets *closed* and then reads *written*, so at least one of them sees the other's store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};

use tokio::sync::watch;

/// Why a generation ended for its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its executor was replaced.
    Replaced,
    /// Its supervisor is gone: shut down, or crashed.
    SupervisorGone,
}

const OPEN: u8 = 0;
const REPLACED: u8 = 1;
const SUPERVISOR_GONE: u8 = 2;

/// Reads the gate of a generation.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    value: Arc<AtomicU8>,
    wake: watch::Receiver<()>,
}

/// Sets the gate of a generation; dropping it sets it too, so that no caller outlives its supervisor.
#[derive(Debug)]
pub(crate) struct GateKeeper {
    value: Arc<AtomicU8>,
    wake: watch::Sender<()>,
}

/// A new gate, open.
pub(crate) fn gate() -> (GateKeeper, Gate) {
    let value = Arc::new(AtomicU8::new(OPEN));
    let (sender, receiver) = watch::channel(());
    (
        GateKeeper {
            value: value.clone(),
            wake: sender,
        },
        Gate {
            value,
            wake: receiver,
        },
    )
}

impl GateKeeper {
    /// Shuts the gate. The first reason stays.
    pub(crate) fn shut(&self, ended: Ended) {
        let value = match ended {
            Ended::Replaced => REPLACED,
            Ended::SupervisorGone => SUPERVISOR_GONE,
        };
        if self
            .value
            .compare_exchange(OPEN, value, SeqCst, SeqCst)
            .is_ok()
        {
            self.wake.send_replace(());
        }
    }
}

impl Drop for GateKeeper {
    fn drop(&mut self) {
        self.shut(Ended::SupervisorGone);
    }
}

impl Gate {
    /// Why the generation ended, if it did.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match self.value.load(SeqCst) {
            OPEN => None,
            REPLACED => Some(Ended::Replaced),
            _ => Some(Ended::SupervisorGone),
        }
    }

    /// Waits until the generation has ended.
    pub(crate) async fn shut(&self) -> Ended {
        let mut wake = self.wake.clone();
        loop {
            if let Some(ended) = self.ended() {
                return ended;
            }
            if wake.changed().await.is_err() {
                return self.ended().unwrap_or(Ended::SupervisorGone);
            }
        }
    }
}

/// Set once a link can carry nothing more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Closed(Arc<AtomicBool>);

impl Closed {
    pub(crate) fn set(&self) {
        self.0.store(true, SeqCst);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(SeqCst)
    }
}

const QUEUED: u8 = 0;
const WRITTEN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Whether a queued call has entered the socket. Exactly one of Writer and caller moves it, once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(Arc<AtomicU8>);

impl Written {
    /// For the Writer: claims the call for writing. `false` if its caller withdrew it first.
    pub(crate) fn claim(&self) -> bool {
        self.0
            .compare_exchange(QUEUED, WRITTEN, SeqCst, SeqCst)
            .is_ok()
    }

    /// For a caller that goes away: keeps the call from being written. `false` if it was written already.
    pub(crate) fn withdraw(&self) -> bool {
        self.0
            .compare_exchange(QUEUED, WITHDRAWN, SeqCst, SeqCst)
            .is_ok()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(SeqCst) == WRITTEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_of_a_gate_stays() {
        let (keeper, gate) = gate();
        assert_eq!(gate.ended(), None);
        keeper.shut(Ended::Replaced);
        drop(keeper);
        assert_eq!(gate.ended(), Some(Ended::Replaced));
    }

    #[tokio::test]
    async fn a_dropped_keeper_wakes_those_who_wait() {
        let (keeper, gate) = gate();
        let waiter = tokio::spawn(async move { gate.shut().await });
        drop(keeper);
        assert_eq!(waiter.await.unwrap(), Ended::SupervisorGone);
    }

    #[test]
    fn a_call_is_either_written_or_withdrawn() {
        let call = Written::default();
        assert!(call.claim());
        assert!(!call.withdraw());
        assert!(call.is_set());
        let call = Written::default();
        assert!(call.withdraw());
        assert!(!call.claim());
        assert!(!call.is_set());
    }
}
