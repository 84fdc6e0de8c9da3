//! One process's events, in their order (8.3): whatever order they come in, and however often, they are delivered once and without a
//! hole, or the process fails.

use std::collections::BTreeMap;

use bytes::Bytes;
use mainstay_wire::process::Stream;

/// What an event of a process says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// It wrote something.
    Output {
        /// Where.
        stream: Stream,
        /// What.
        data: Bytes,
    },
    /// It ended.
    Exited {
        /// Its exit code.
        code: i32,
        /// Whether a sandbox stopped it; older executors do not say.
        sandbox_denied: Option<bool>,
    },
    /// It ended and both its streams did: the last event.
    Closed,
}

impl Fact {
    fn bytes(&self) -> usize {
        match self {
            Fact::Output { data, .. } => data.len(),
            Fact::Exited { .. } | Fact::Closed => 0,
        }
    }
}

/// What subscribers get.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Published {
    /// The event `seq`, right after the ones before it.
    Event {
        /// Its place in the process's history.
        seq: u64,
        /// What it says.
        fact: Fact,
    },
    /// Output that the executor did not retain (W8). The exit may be among it.
    Gap {
        /// First missing seq.
        first: u64,
        /// Last missing seq.
        last: u64,
    },
    /// The process ended, at a place that is inside a gap.
    Exited {
        /// Its exit code.
        code: i32,
        /// Whether a sandbox stopped it.
        sandbox_denied: Option<bool>,
    },
}

/// Why events cannot be put in order: the process fails with this text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SequenceError {
    /// One event is larger than the whole buffer.
    #[error("event {seq} has {bytes} bytes")]
    TooLarge {
        /// Which.
        seq: u64,
        /// Its size.
        bytes: usize,
    },
    /// Too many events wait for an earlier one.
    #[error("too much output waits for event {missing}")]
    Overflow {
        /// The one that did not come.
        missing: u64,
    },
}

/// Bounds of what waits for an earlier event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Events.
    pub events: usize,
    /// Bytes of payload; also the largest single event.
    pub bytes: usize,
}

/// The order of one process's events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sequencer {
    pub(crate) limits: Limits,
    /// Everything up to here is published.
    pub(crate) last: u64,
    pub(crate) exited: bool,
    pub(crate) closed: bool,
    pub(crate) failed: bool,
    /// What waits for an earlier event.
    pub(crate) pending: BTreeMap<u64, Fact>,
    pending_bytes: usize,
    pub(crate) wake: u64,
}

impl Sequencer {
    /// A process that has said nothing yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            last: 0,
            exited: false,
            closed: false,
            failed: false,
            pending: BTreeMap::new(),
            pending_bytes: 0,
            wake: 0,
        }
    }

    /// Takes a live event and appends what can be published now to `out`.
    ///
    /// # Errors
    /// The process fails with the error: nothing is published any more.
    pub fn accept(
        &mut self,
        seq: u64,
        fact: Fact,
        out: &mut Vec<Published>,
    ) -> Result<(), SequenceError> {
        if self.over() || seq <= self.last || self.pending.contains_key(&seq) {
            return Ok(());
        }
        if let Err(error) = self.admit(seq, &fact) {
            self.fail();
            return Err(error);
        }
        self.wake = self.wake.max(seq);
        if seq == self.next() {
            self.publish(seq, fact, out);
            self.drain(out);
        } else {
            self.hold(seq, fact);
        }
        Ok(())
    }

    /// The process is lost, or its output is. Says whether that is news: only the first failure counts, and none after closed.
    pub fn fail(&mut self) -> bool {
        let news = !self.over();
        if news {
            self.failed = true;
            self.pending.clear();
            self.pending_bytes = 0;
            self.wake += 1;
        }
        news
    }

    /// The last published seq: what a replay asks to read after.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Goes up with every accepted event, also with one that waits.
    #[must_use]
    pub fn wake(&self) -> u64 {
        self.wake
    }

    /// Whether the exit was published.
    #[must_use]
    pub fn exited(&self) -> bool {
        self.exited
    }

    /// Whether nothing is published any more: closed, or failed. The entry can go.
    #[must_use]
    pub fn over(&self) -> bool {
        self.closed || self.failed
    }

    /// Whether it was closed as it should be.
    #[must_use]
    pub fn closed(&self) -> bool {
        self.closed
    }

    /// Events and bytes that wait for an earlier event.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.pending.len(), self.pending_bytes)
    }

    /// The seq that can be published next.
    pub(crate) fn next(&self) -> u64 {
        self.last.saturating_add(1)
    }

    /// The next event drains the buffer, so it may exceed it.
    fn admit(&self, seq: u64, fact: &Fact) -> Result<(), SequenceError> {
        let bytes = fact.bytes();
        if bytes > self.limits.bytes {
            return Err(SequenceError::TooLarge { seq, bytes });
        }
        let full = self.pending.len() >= self.limits.events
            || self.pending_bytes + bytes > self.limits.bytes;
        if full && seq != self.next() {
            return Err(SequenceError::Overflow {
                missing: self.next(),
            });
        }
        Ok(())
    }

    fn hold(&mut self, seq: u64, fact: Fact) {
        self.pending_bytes += fact.bytes();
        self.pending.insert(seq, fact);
    }

    /// Takes what waits up to `last`, for a replay that knows the rest.
    pub(crate) fn take_held(&mut self, last: u64) -> BTreeMap<u64, Fact> {
        let later = self.pending.split_off(&last.saturating_add(1));
        let taken = std::mem::replace(&mut self.pending, later);
        self.pending_bytes -= taken.values().map(Fact::bytes).sum::<usize>();
        taken
    }

    /// Publishes the event that is next.
    pub(crate) fn publish(&mut self, seq: u64, fact: Fact, out: &mut Vec<Published>) {
        self.last = seq;
        match fact {
            Fact::Output { .. } => {}
            Fact::Exited { .. } => self.exited = true,
            Fact::Closed => {
                self.closed = true;
                // Nothing comes after it; what claims to is not shown.
                self.pending.clear();
                self.pending_bytes = 0;
            }
        }
        out.push(Published::Event { seq, fact });
    }

    /// Publishes what waited for the event that was just published.
    pub(crate) fn drain(&mut self, out: &mut Vec<Published>) {
        while let Some(fact) = self.pending.remove(&self.next()) {
            self.pending_bytes -= fact.bytes();
            self.publish(self.next(), fact, out);
        }
    }
}
