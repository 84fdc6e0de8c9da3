//! ProcessTable: one per session, outlives its links. Owns the entries, their sequencers, the starts in progress.
//!
//! A [worker](crate::worker) of the supervisor's, spawned when it installs a session: a loop over its control queue and
//! the bounded queue of the links' events, so that output never waits in a mailbox, until nobody holds the session. It
//! takes no further event while a consumer without credit is full, unless a resume is under way.
//!
//! | control | from | meaning |
//! |---|---|---|
//! | `BeginStart`, `StartEnded`, `Started`, `Forget`, `Orphan` | a start | `session.md` 8.1 |
//! | `Detach`, `Consumed` | handles | nobody reads any more; bytes were read |
//! | `Candidate`, `LinkUp` | supervisor | whose events count |
//! | `DrainStarts`, `FailAll` | supervisor | recovery and retirement |
//! | `Cancelling`, `Cancel` | handles | a terminate, before and after |
//! | `Verdict` | Policy | `session.md` 10.6 |
//! | `TakeReplay`, `Page`, `Replayed`, `Lost` | Replay | `session.md` 8.4 |

mod catching_up;
mod entries;
mod entry;
mod questions;
mod starts;

use std::sync::Arc;

use mainstay_session::ids::{Epoch, RecoveryId};
use mainstay_wire::network::Decision;
use mainstay_wire::process::ReadAnswer;
use ractor::ActorRef;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::features::Features;
use crate::inbound::ProcessNotice;
use crate::link::LinkRef;
use crate::network::{CancelCause, Network};
use crate::outlet::{Key, Outlets};
use crate::policy::Policy;
use crate::ports::{FromLink, LinkEvent, PolicyArrival};
use crate::setup::Setup;
use crate::supervisor;
use crate::worker::{self, Work};
use entries::Entries;
use entry::Entry;
use starts::Starts;

/// Events taken from the links at once.
const BATCH: usize = 64;

/// See the module's second table.
#[derive(Debug)]
pub(crate) enum ToTable {
    BeginStart(Box<BeginStart>),
    /// A registered start's activity is over.
    StartEnded(Epoch),
    /// The executor has started it.
    Started(Key),
    /// The start failed: there is no process.
    Forget(Key),
    /// The caller went away during the start.
    Orphan(Key),
    Detach(Key),
    Consumed {
        key: Key,
        bytes: usize,
    },
    Candidate(Epoch),
    LinkUp(LinkRef),
    DrainStarts {
        recovery: RecoveryId,
        epoch: Epoch,
    },
    FailAll(Error),
    TakeReplay {
        reply: oneshot::Sender<Vec<ToReplay>>,
    },
    /// A part of what was missed; dropped unanswered if the process is gone.
    Page {
        key: Key,
        answer: Box<ReadAnswer>,
        reply: oneshot::Sender<Paged>,
    },
    Replayed {
        key: Key,
        answer: Box<ReadAnswer>,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    Lost {
        key: Key,
        error: Error,
    },
    /// The process is being terminated: what a policy decision is told if it is closed now.
    Cancelling(Key),
    /// It was: its undecided policy requests are closed.
    Cancel(Key),
    /// A decision about a connection; `None`: no answer.
    Verdict {
        key: Key,
        arrival: Box<PolicyArrival>,
        decision: Option<Decision>,
    },
}

/// A start that wants its entry.
#[derive(Debug)]
pub(crate) struct BeginStart {
    /// The link it will be sent on.
    pub(crate) epoch: Epoch,
    pub(crate) process_id: Arc<str>,
    pub(crate) outlets: Outlets,
    pub(crate) network: Network,
    pub(crate) reply: oneshot::Sender<Result<Key, Refused>>,
}

/// Why a start may not be sent.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its link is being left: look the link up again. The outlets come back.
    Draining(Outlets),
    /// It never can be.
    For(Error),
}

/// What a page has brought.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paged {
    /// It may be followed by another one, after this seq.
    More(u64),
    /// The rest after this seq is for the whole read.
    Rest(u64),
}

/// A process that has to catch up.
#[derive(Debug)]
pub(crate) struct ToReplay {
    pub(crate) key: Key,
    pub(crate) last: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ProcessTable {
    control: mpsc::UnboundedReceiver<ToTable>,
    events: mpsc::Receiver<FromLink>,
    desk: Desk,
}

impl ProcessTable {
    /// A table without processes; `myself` is the sender of `control`.
    pub(crate) fn new(
        control: mpsc::UnboundedReceiver<ToTable>,
        myself: mpsc::WeakUnboundedSender<ToTable>,
        events: mpsc::Receiver<FromLink>,
        features: Features,
        setup: Arc<Setup>,
        supervisor: ActorRef<supervisor::Msg>,
    ) -> Self {
        Self {
            control,
            events,
            desk: Desk {
                features,
                setup,
                supervisor,
                entries: Entries::default(),
                starts: Starts::default(),
                link: None,
                candidate: None,
                touched: Vec::new(),
                owed: Vec::new(),
                failed: None,
                questions: Vec::new(),
                myself,
            },
        }
    }
}

impl Work for ProcessTable {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                message = self.control.recv() => match message {
                    Some(message) => self.desk.take(message),
                    // Nobody holds the session any more.
                    None => return,
                },
                heard = self.events.recv_many(&mut batch, BATCH), if open && self.desk.may_hear() => {
                    // The session is over, and only readers of what came before are left.
                    open = heard > 0;
                    for event in batch.drain(..) {
                        self.desk.hear(event);
                    }
                    self.desk.grant();
                }
                () = room(self.desk.link.as_ref()), if !self.desk.owed.is_empty() => self.desk.pay(),
            }
            for question in self.desk.questions.drain(..) {
                // If it cannot be spawned, dropping it is the denial.
                let span = question.span();
                let _ = worker::spawn(question, span, self.desk.supervisor.get_cell()).await;
            }
        }
    }
}

/// What the table knows.
#[derive(Debug)]
struct Desk {
    features: Features,
    setup: Arc<Setup>,
    supervisor: ActorRef<supervisor::Msg>,
    entries: Entries,
    starts: Starts,
    link: Option<LinkRef>,
    candidate: Option<Epoch>,
    /// Processes heard of in the batch at hand.
    touched: Vec<Arc<str>>,
    /// Processes whose grant found no room on the link. Each is told when there is some: its program may have stopped, and
    /// then no event of it comes to try again.
    owed: Vec<Arc<str>>,
    failed: Option<Error>,
    /// Decisions to be started.
    questions: Vec<Policy>,
    /// For the verdicts; weak, because the table ends when nobody else can reach it.
    myself: mpsc::WeakUnboundedSender<ToTable>,
}

impl Desk {
    fn take(&mut self, message: ToTable) {
        match message {
            ToTable::BeginStart(start) => self.begin_start(*start),
            ToTable::StartEnded(epoch) => self.start_ended(epoch),
            ToTable::Started(key) => self.change(&key, |entry| entry.recoverable = true),
            ToTable::Forget(key) => self.entries.remove(&key),
            ToTable::Orphan(key) => self.entries.remove(&key),
            ToTable::Detach(key) => self.detach(&key),
            ToTable::Consumed { key, bytes } => self.consumed(&key, bytes),
            ToTable::Candidate(epoch) => self.candidate = Some(epoch),
            ToTable::LinkUp(link) => self.link_up(link),
            ToTable::DrainStarts { recovery, epoch } => self.drain_starts(recovery, epoch),
            ToTable::FailAll(error) => self.fail_all(&error),
            ToTable::TakeReplay { reply } => self.take_replay(reply),
            ToTable::Page { key, answer, reply } => self.page(&key, *answer, reply),
            ToTable::Replayed { key, answer, reply } => self.replayed(&key, *answer, reply),
            ToTable::Lost { key, error } => self.change(&key, |entry| entry.lose(error)),
            ToTable::Cancelling(key) => {
                self.change(&key, |entry| entry.record(CancelCause::ProcessCancelled));
            }
            ToTable::Cancel(key) => self.change(&key, Entry::cancel),
            ToTable::Verdict {
                key,
                mut arrival,
                decision,
            } => self.verdict(&key, &mut arrival, decision),
        }
    }

    fn begin_start(&mut self, start: BeginStart) {
        let BeginStart {
            epoch,
            process_id,
            outlets,
            network,
            reply,
        } = start;
        let refused = if let Some(error) = &self.failed {
            Refused::For(error.clone())
        } else if self.starts.is_drained(epoch) {
            Refused::Draining(outlets)
        } else if let Some(key) = self.entries.add(process_id.clone(), |number| {
            Entry::new(number, outlets, network, &self.setup, &self.features)
        }) {
            self.starts.begin(epoch);
            if let Err(Ok(key)) = reply.send(Ok(key)) {
                self.entries.remove(&key);
                self.start_ended(epoch);
            }
            return;
        } else {
            Refused::For(Error::protocol(format!(
                "process {process_id} exists already"
            )))
        };
        // Its caller may have gone.
        let _ = reply.send(Err(refused));
    }

    fn start_ended(&mut self, epoch: Epoch) {
        let drained = self.starts.end(epoch);
        self.report_drained(drained);
    }

    fn drain_starts(&mut self, recovery: RecoveryId, epoch: Epoch) {
        let drained = self.starts.drain(recovery, epoch);
        self.report_drained(drained);
    }

    fn report_drained(&self, drained: Option<RecoveryId>) {
        if let Some(recovery) = drained {
            let _ = self
                .supervisor
                .send_message(supervisor::Msg::StartsDrained(recovery));
        }
    }

    /// Whether the next events may be taken from their queue. During a resume they always are: the answers it waits for
    /// come behind them on the same link, and what it adds is bounded by the executor's logs.
    fn may_hear(&self) -> bool {
        self.entries.have_room() || self.candidate.is_some()
    }

    fn link_up(&mut self, link: LinkRef) {
        self.candidate = None;
        if self.features.credit {
            self.owed.clear();
            for (id, entry) in self.entries.iter_mut() {
                if entry.recoverable && !entry.regrant(id, &link) {
                    self.owed.push(id.clone());
                }
            }
        }
        self.link = Some(link);
    }

    /// An event of a link. Only those of the current and of the candidate link count (W22).
    fn hear(&mut self, from: FromLink) {
        let current = self.link.as_ref().map(LinkRef::epoch);
        if Some(from.epoch) != current && Some(from.epoch) != self.candidate {
            tracing::trace!(epoch = from.epoch.0, "event of an earlier link dropped");
            return;
        }
        match from.event {
            LinkEvent::Process(ProcessNotice {
                process_id,
                seq,
                fact,
            }) => {
                // Events of unknown processes are ignored (8.3).
                let heard = self
                    .entries
                    .change_named(&process_id, |entry| entry.accept(seq, fact));
                if heard.is_some() && self.touched.last().is_none_or(|last| **last != *process_id) {
                    self.touched.push(process_id.into());
                }
            }
            LinkEvent::Policy(arrival) => self.policy(arrival),
            LinkEvent::Audit(record) => self.audit(&record),
        }
    }

    /// Grants what has become free, after a batch of events.
    fn grant(&mut self) {
        for id in std::mem::take(&mut self.touched) {
            self.tell(id, Entry::grant);
        }
    }

    /// Grants what is owed, as far as there is room.
    fn pay(&mut self) {
        for id in std::mem::take(&mut self.owed) {
            self.tell(id, Entry::regrant);
        }
    }

    fn tell(&mut self, id: Arc<str>, grant: fn(&mut Entry, &str, &LinkRef) -> bool) {
        if self.features.credit
            && let Some(link) = &self.link
            && self
                .entries
                .change_named(&id, |entry| grant(entry, &id, link))
                == Some(false)
            && !self.owed.contains(&id)
        {
            self.owed.push(id);
        }
    }

    fn consumed(&mut self, key: &Key, bytes: usize) {
        if self
            .entries
            .change(key, |entry| entry.consumed(bytes))
            .is_some()
        {
            self.tell(key.process_id.clone(), Entry::grant);
        }
    }

    /// Nobody holds the process any more. A peer with credit must still be granted, or its program would stop.
    fn detach(&mut self, key: &Key) {
        if self.features.credit {
            self.change(key, Entry::detach);
        } else {
            self.entries.remove(key);
        }
    }

    fn fail_all(&mut self, error: &Error) {
        for mut entry in self.entries.take() {
            entry.disconnect(error.clone());
        }
        self.failed = Some(error.clone());
    }

    /// Changes a process, unless it is gone.
    fn change(&mut self, key: &Key, change: impl FnOnce(&mut Entry)) {
        self.entries.change(key, change);
    }
}

/// Waits until a grant has room on the link, or the link has ended. Cancel-safe.
async fn room(link: Option<&LinkRef>) {
    match link {
        Some(link) => drop(link.control().reserve().await),
        None => std::future::pending().await,
    }
}
