//! One process: its sequencer, its outlets, and the account of what is under way to its consumer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mainstay_session::config::OnGap;
use mainstay_session::replay::ReplayError;
use mainstay_session::sequence::{Fact, Limits, Published, SequenceError, Sequencer};
use mainstay_wire::extension::{Credit, CreditParams};
use mainstay_wire::limits::CREDIT_INITIAL_WINDOW;
use mainstay_wire::process::ReadAnswer;
use mainstay_wire::{Notice, envelope};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::watch;

use crate::config::{Config, OnSlow};
use crate::error::Error;
use crate::features::Features;
use crate::link::LinkRef;
use crate::network::{CancelCause, Decider, Network};
use crate::outlet::{EVENT_OVERHEAD, Outlets, Piece, PieceKind};
use crate::process::ExitStatus;
use crate::process_table::Paged;
use crate::setup::Setup;

/// See the module.
#[derive(Debug)]
pub(super) struct Entry {
    /// Tells it from another process with the same id.
    pub(super) number: u64,
    /// The executor has answered its start.
    pub(super) recoverable: bool,
    sequencer: Sequencer,
    /// A larger single event is an error, even if it is the next one (8.3).
    largest: usize,
    outlets: Outlets,
    /// Pieces delivered so far.
    ordinal: u64,
    /// Bytes delivered and not read yet.
    waiting: usize,
    /// Without credit: so many may wait. `None` with credit.
    buffer: Option<usize>,
    on_slow: OnSlow,
    /// First and last event that found no room.
    missed: Option<(u64, u64)>,
    /// With credit: so many may be granted in all.
    window: usize,
    /// What is left of the last grant.
    granted: usize,
    network: Network,
    /// Why the next closing of policy questions happens, if that is known.
    cause: Option<CancelCause>,
    /// Closes the undecided policy questions.
    cancel: watch::Sender<Option<CancelCause>>,
    /// Scratch for the sequencer.
    published: Vec<Published>,
}

impl Entry {
    pub(super) fn new(
        number: u64,
        outlets: Outlets,
        network: Network,
        setup: &Setup,
        features: &Features,
    ) -> Self {
        Self {
            number,
            recoverable: false,
            sequencer: Sequencer::new(reorder(&setup.config)),
            largest: setup.config.session.largest_event,
            outlets,
            ordinal: 0,
            waiting: 0,
            buffer: (!features.credit).then_some(setup.config.process_buffer),
            on_slow: setup.config.on_slow,
            missed: None,
            window: setup.config.credit_window,
            granted: CREDIT_INITIAL_WINDOW,
            network,
            cause: None,
            cancel: watch::channel(None).0,
            published: Vec::new(),
        }
    }

    /// The process's decider and the time it has, if it has one.
    pub(super) fn decider(&self) -> Option<(Arc<dyn Decider>, Duration)> {
        self.network.decider.clone().zip(self.network.timeout)
    }

    /// Under whose name the proxy's decisions are logged, if they are.
    pub(super) fn audit_identity(&self) -> Option<&BTreeMap<String, String>> {
        self.network.audit.as_ref()
    }

    /// Tells when the policy questions of this process are closed.
    pub(super) fn cancelled(&self) -> watch::Receiver<Option<CancelCause>> {
        self.cancel.subscribe()
    }

    /// Remembers why policy questions will be closed; the first cause counts.
    pub(super) fn record(&mut self, cause: CancelCause) {
        self.cause.get_or_insert(cause);
    }

    /// Closes the policy questions.
    pub(super) fn cancel(&mut self) {
        let cause = self.cause.unwrap_or(CancelCause::ProcessCancelled);
        self.cancel.send_if_modified(|closed| {
            let open = closed.is_none();
            *closed = Some(closed.unwrap_or(cause));
            open
        });
    }

    pub(super) fn last(&self) -> u64 {
        self.sequencer.last()
    }

    /// Nothing will be delivered any more.
    pub(super) fn is_over(&self) -> bool {
        self.sequencer.over()
    }

    /// Whether its consumer has to read before anything more is taken from the link.
    pub(super) fn is_full(&self) -> bool {
        self.on_slow == OnSlow::Wait && self.overflows()
    }

    fn overflows(&self) -> bool {
        self.buffer.is_some_and(|buffer| self.waiting > buffer)
    }

    /// A live event.
    pub(super) fn accept(&mut self, seq: u64, fact: Fact) {
        if let Fact::Output { data, .. } = &fact {
            self.granted = self.granted.saturating_sub(data.len());
            if data.len() > self.largest && !self.is_over() {
                let error = SequenceError::TooLarge {
                    seq,
                    bytes: data.len(),
                };
                self.lose(Error::protocol(error.to_string()));
                return;
            }
        }
        let accepted = self.sequencer.accept(seq, fact, &mut self.published);
        self.deliver_published();
        if let Err(error) = accepted {
            self.deliver(PieceKind::Lost(Error::protocol(error.to_string())));
        }
    }

    /// Takes one page of what was missed, as if it had come live: from a log that keeps everything unacknowledged it
    /// has no holes but the exit's.
    pub(super) fn page(&mut self, answer: ReadAnswer) -> Paged {
        let before = self.last();
        let complete = answer
            .mainstay_first_seq
            .is_some_and(|first| first <= before + 1);
        for chunk in answer.chunks {
            let next = self.last() + 1;
            if chunk.seq == next + 1
                && complete
                && answer.exited
                && !self.sequencer.exited()
                && let Some(code) = answer.exit_code
            {
                self.accept(
                    next,
                    Fact::Exited {
                        code,
                        sandbox_denied: Some(answer.sandbox_denied),
                    },
                );
            }
            if chunk.seq > self.last() + 1 {
                return Paged::Rest(self.last());
            }
            self.accept(
                chunk.seq,
                Fact::Output {
                    stream: chunk.stream,
                    data: chunk.chunk.0,
                },
            );
        }
        if self.last() > before && !self.is_over() {
            Paged::More(self.last())
        } else {
            Paged::Rest(self.last())
        }
    }

    pub(super) fn replay(&mut self, answer: ReadAnswer, on_gap: OnGap) -> Result<(), ReplayError> {
        let replayed = self.sequencer.replay(answer, on_gap, &mut self.published);
        self.deliver_published();
        replayed
    }

    /// The session ended under the process.
    pub(super) fn disconnect(&mut self, error: Error) {
        self.record(CancelCause::ConnectionClosed);
        self.lose(error);
    }

    /// The process is lost; only the first time, and not after its close.
    pub(super) fn lose(&mut self, error: Error) {
        if self.sequencer.fail() {
            self.deliver(PieceKind::Lost(error));
        }
    }

    /// Nobody will read: everything counts as read from now on.
    pub(super) fn detach(&mut self) {
        self.cancel();
        self.network = Network::default();
        self.outlets.stdout = None;
        self.outlets.stderr = None;
        self.outlets.status = None;
        self.waiting = 0;
    }

    pub(super) fn consumed(&mut self, bytes: usize) {
        self.waiting = self.waiting.saturating_sub(bytes);
        if !self.overflows() {
            self.tell_missed();
        }
    }

    /// Output that finds no room under [`OnSlow::Gap`].
    fn misses(&mut self, seq: u64) -> bool {
        let misses = self.on_slow == OnSlow::Gap && self.overflows();
        if misses {
            let first = self.missed.map_or(seq, |(first, _)| first);
            self.missed = Some((first, seq));
        }
        misses
    }

    /// A gap in the place of what was missed.
    fn tell_missed(&mut self) {
        if let Some((first, last)) = self.missed.take() {
            self.deliver(PieceKind::Gap { first, last });
        }
    }

    fn deliver_published(&mut self) {
        let mut published = std::mem::take(&mut self.published);
        for item in published.drain(..) {
            let what = match item {
                Published::Event {
                    seq,
                    fact: Fact::Output { stream, data },
                } => {
                    if self.misses(seq) {
                        continue;
                    }
                    PieceKind::Chunk {
                        stream,
                        bytes: data,
                    }
                }
                Published::Event {
                    fact:
                        Fact::Exited {
                            code,
                            sandbox_denied,
                        },
                    ..
                }
                | Published::Exited {
                    code,
                    sandbox_denied,
                } => PieceKind::Exited(ExitStatus {
                    code,
                    sandbox_denied,
                }),
                Published::Event {
                    fact: Fact::Closed, ..
                } => PieceKind::Closed,
                Published::Gap { first, last } => PieceKind::Gap { first, last },
            };
            self.deliver(what);
        }
        self.published = published;
    }

    fn deliver(&mut self, what: PieceKind) {
        // Its entry goes next, and its policy questions with it (8.3).
        if matches!(what, PieceKind::Closed) && self.sequencer.exited() {
            self.record(CancelCause::ProcessFinished);
        }
        if self.is_over() {
            let wake = self.sequencer.wake();
            self.outlets
                .progress
                .send_modify(|progress| progress.wake = wake);
        }
        self.tell_missed();
        self.ordinal += 1;
        let piece = Piece {
            ordinal: self.ordinal,
            what,
        };
        self.waiting += piece.cost();
        let unread = self.outlets.deliver(piece);
        self.waiting -= unread;
    }

    /// Tells the executor how much it may send, when enough has become free to be worth a message. `false`: the link has
    /// no room for that message now.
    pub(super) fn grant(&mut self, process_id: &str, link: &LinkRef) -> bool {
        let free = self.window.saturating_sub(self.waiting);
        let worth_it = free >= self.granted + self.window / 4;
        self.is_over() || !worth_it || self.send_grant(process_id, link, free)
    }

    /// A grant whatever was granted before: the first one on a new link, where the executor starts from what it
    /// remembers, and one that is owed. Returns as [`grant`](Self::grant).
    pub(super) fn regrant(&mut self, process_id: &str, link: &LinkRef) -> bool {
        let free = self.window.saturating_sub(self.waiting);
        self.is_over() || self.send_grant(process_id, link, free)
    }

    fn send_grant(&mut self, process_id: &str, link: &LinkRef, window: usize) -> bool {
        let params = CreditParams {
            process_id: process_id.to_owned(),
            ack_seq: self.sequencer.last(),
            // A window of a machine's memory fits in 64 bits.
            window: window as u64,
        };
        let grant = envelope::notification(Credit::METHOD, &params);
        match link.control().try_send(grant) {
            Ok(()) => {
                self.granted = window;
                true
            }
            Err(TrySendError::Full(_)) => false,
            // The next link begins with a grant.
            Err(TrySendError::Closed(_)) => true,
        }
    }
}

/// What may wait for an earlier event: as much as may wait for the consumer. A fast program outruns the reference's
/// bounds (256 events, 1 MiB) while a replay is under way on the same link.
fn reorder(config: &Config) -> Limits {
    let bytes = config.process_buffer.max(config.session.largest_event);
    Limits {
        events: bytes / EVENT_OVERHEAD,
        bytes,
    }
}

/// Whatever removes an entry closes its policy questions.
impl Drop for Entry {
    fn drop(&mut self) {
        self.cancel();
    }
}
