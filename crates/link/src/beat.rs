//! The keepalive that the two halves of a socket share: when a ping left, and whether it was answered.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::Instant;

/// One ping at a time. The sending half marks it, the receiving half clears it and watches the deadline.
#[derive(Debug)]
pub(crate) struct Beat {
    epoch: Instant,
    /// Milliseconds from `epoch` to the unanswered ping, plus one; zero if there is none.
    sent: AtomicU64,
}

impl Beat {
    pub(crate) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            sent: AtomicU64::new(0),
        }
    }

    pub(crate) fn epoch(&self) -> Instant {
        self.epoch
    }

    pub(crate) fn ping_sent(&self, now: Instant) {
        let ms = now.duration_since(self.epoch).as_millis() as u64 + 1;
        self.sent.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn pong_received(&self) {
        self.sent.store(0, Ordering::Relaxed);
    }

    pub(crate) fn outstanding(&self) -> Option<Instant> {
        match self.sent.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(self.epoch + Duration::from_millis(ms - 1)),
        }
    }
}
