//! ProcessTable: one per session, outlives its links. Owns the entries, their sequencers, the starts in progress.
//!
//! Spawned and linked by the supervisor when it installs a session. An actor for supervision only: it handles one
//! message and then lives in a loop over its control queue and the bounded queue of the links' events, so that output
//! never waits in a mailbox. It takes no further event while a consumer without credit is full.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | `Run` | supervisor | serve until nobody holds the session |
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
mod entry;
mod questions;

use std::collections::HashMap;
use std::sync::Arc;

use mainstay_session::ids::{Epoch, RecoveryId};
use mainstay_wire::network::Decision;
use mainstay_wire::process::ReadAnswer;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::features::Features;
use crate::inbound::ProcessNotice;
use crate::link::LinkRef;
use crate::network::{CancelCause, Network};
use crate::outlet::{Key, Outlets};
use crate::policy::{self, Policy};
use crate::ports::{FromLink, LinkEvent, PolicyArrival};
use crate::setup::Setup;
use crate::supervisor;
use entry::Entry;

/// Events taken from the links at once.
const BATCH: usize = 64;

/// One message: the work.
#[derive(Debug)]
pub(crate) enum Msg {
    Run,
}

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

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) control: mpsc::UnboundedReceiver<ToTable>,
    pub(crate) myself: mpsc::WeakUnboundedSender<ToTable>,
    pub(crate) events: mpsc::Receiver<FromLink>,
    pub(crate) features: Features,
    pub(crate) setup: Arc<Setup>,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
}

/// The work, until `Run` takes it.
#[derive(Debug)]
pub(crate) struct State(Option<Table>);

#[derive(Debug)]
pub(crate) struct ProcessTable;

impl Actor for ProcessTable {
    type Msg = Msg;
    type State = State;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<Msg>,
        arguments: Arguments,
    ) -> Result<State, ActorProcessingErr> {
        let Arguments {
            control,
            myself,
            events,
            features,
            setup,
            supervisor,
        } = arguments;
        Ok(State(Some(Table {
            control,
            events,
            desk: Desk {
                features,
                setup,
                supervisor,
                entries: HashMap::new(),
                numbered: 0,
                starts: HashMap::new(),
                drained: None,
                draining: None,
                link: None,
                candidate: None,
                full: 0,
                touched: Vec::new(),
                failed: None,
                questions: Vec::new(),
                myself,
            },
        })))
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        state: &mut State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Run => {
                if let Some(table) = state.0.take() {
                    table.run().await;
                }
                crate::lifecycle::done(&myself);
            }
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Table {
    control: mpsc::UnboundedReceiver<ToTable>,
    events: mpsc::Receiver<FromLink>,
    desk: Desk,
}

impl Table {
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
                heard = self.events.recv_many(&mut batch, BATCH), if open && self.desk.has_room() => {
                    // The session is over, and only readers of what came before are left.
                    open = heard > 0;
                    for event in batch.drain(..) {
                        self.desk.hear(event);
                    }
                    self.desk.grant();
                }
            }
            for question in self.desk.questions.drain(..) {
                // Its `pre_start` waits for nothing. If it cannot be spawned, dropping it is the denial.
                let supervisor = self.desk.supervisor.get_cell();
                if let Ok((policy, _)) =
                    Policy::spawn_linked(None, Policy, question, supervisor).await
                {
                    let _ = policy.send_message(policy::Msg::Run);
                }
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
    entries: HashMap<Arc<str>, Entry>,
    numbered: u64,
    /// Starts in progress, by the link they were sent on.
    starts: HashMap<Epoch, usize>,
    /// No start on this link or an earlier one is accepted any more.
    drained: Option<Epoch>,
    draining: Option<RecoveryId>,
    link: Option<LinkRef>,
    candidate: Option<Epoch>,
    /// Entries whose consumers are full.
    full: usize,
    /// Processes heard of in the batch at hand.
    touched: Vec<Arc<str>>,
    failed: Option<Error>,
    /// Decisions to be started.
    questions: Vec<policy::Arguments>,
    /// For the verdicts; weak, because the table ends when nobody else can reach it.
    myself: mpsc::WeakUnboundedSender<ToTable>,
}

impl Desk {
    fn take(&mut self, message: ToTable) {
        match message {
            ToTable::BeginStart(start) => self.begin_start(*start),
            ToTable::StartEnded(epoch) => self.start_ended(epoch),
            ToTable::Started(key) => self.with(&key, |entry| entry.recoverable = true),
            ToTable::Forget(key) => self.remove(&key),
            ToTable::Orphan(key) => self.remove(&key),
            ToTable::Detach(key) => self.detach(&key),
            ToTable::Consumed { key, bytes } => self.consumed(&key, bytes),
            ToTable::Candidate(epoch) => self.candidate = Some(epoch),
            ToTable::LinkUp(link) => self.link_up(link),
            ToTable::DrainStarts { recovery, epoch } => self.drain_starts(recovery, epoch),
            ToTable::FailAll(error) => self.fail_all(&error),
            ToTable::TakeReplay { reply } => self.take_replay(reply),
            ToTable::Page { key, answer, reply } => self.page(&key, *answer, reply),
            ToTable::Replayed { key, answer, reply } => self.replayed(&key, *answer, reply),
            ToTable::Lost { key, error } => self.lose(&key, error),
            ToTable::Cancelling(key) => {
                self.with(&key, |entry| entry.record(CancelCause::ProcessCancelled))
            }
            ToTable::Cancel(key) => self.with(&key, Entry::cancel),
            ToTable::Verdict {
                key,
                arrival,
                decision,
            } => self.verdict(&key, &arrival, decision),
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
        let answer = if let Some(error) = &self.failed {
            Err(Refused::For(error.clone()))
        } else if self.drained.is_some_and(|drained| epoch <= drained) {
            Err(Refused::Draining(outlets))
        } else if self.entries.contains_key(&process_id) {
            Err(Refused::For(Error::protocol(format!(
                "process {process_id} exists already"
            ))))
        } else {
            self.numbered += 1;
            let key = Key {
                process_id: process_id.clone(),
                number: self.numbered,
            };
            self.entries.insert(
                process_id,
                Entry::new(self.numbered, outlets, network, &self.setup, &self.features),
            );
            *self.starts.entry(epoch).or_default() += 1;
            Ok(key)
        };
        if let Err(Ok(key)) = reply.send(answer) {
            self.remove(&key);
            self.start_ended(epoch);
        }
    }

    fn start_ended(&mut self, epoch: Epoch) {
        match self.starts.get_mut(&epoch) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                self.starts.remove(&epoch);
            }
            None => tracing::error!(epoch = epoch.0, "a start ended that was not registered"),
        }
        self.report_drained();
    }

    fn drain_starts(&mut self, recovery: RecoveryId, epoch: Epoch) {
        self.drained = self.drained.max(Some(epoch));
        self.draining = Some(recovery);
        self.report_drained();
    }

    fn report_drained(&mut self) {
        let Some(drained) = self.drained else { return };
        if self.starts.keys().all(|epoch| *epoch > drained)
            && let Some(recovery) = self.draining.take()
        {
            let _ = self
                .supervisor
                .send_message(supervisor::Msg::StartsDrained(recovery));
        }
    }

    fn link_up(&mut self, link: LinkRef) {
        self.candidate = None;
        if self.features.credit {
            for (id, entry) in &mut self.entries {
                entry.regrant(id, &link);
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
                let Some(entry) = self.entries.get_mut(&*process_id) else {
                    return;
                };
                let was_full = entry.is_full();
                let over = entry.accept(seq, fact);
                self.full = self.full + usize::from(entry.is_full()) - usize::from(was_full);
                if over {
                    self.drop_entry(&process_id);
                } else if self.touched.last().is_none_or(|last| **last != *process_id) {
                    self.touched.push(process_id.into());
                }
            }
            LinkEvent::Policy(arrival) => self.policy(arrival),
            LinkEvent::Audit(record) => self.audit(&record),
        }
    }

    /// Grants what has become free, after a batch of events.
    fn grant(&mut self) {
        for id in self.touched.drain(..) {
            if self.features.credit
                && let Some(link) = &self.link
                && let Some(entry) = self.entries.get_mut(&id)
            {
                entry.grant(&id, link);
            }
        }
    }

    fn has_room(&self) -> bool {
        self.full == 0
    }

    fn consumed(&mut self, key: &Key, bytes: usize) {
        let link = self.link.as_ref().filter(|_| self.features.credit);
        if let Some(entry) = self
            .entries
            .get_mut(&key.process_id)
            .filter(|entry| entry.number == key.number)
        {
            let was_full = entry.is_full();
            entry.consumed(bytes);
            self.full = self.full + usize::from(entry.is_full()) - usize::from(was_full);
            if let Some(link) = link {
                entry.grant(&key.process_id, link);
            }
        }
    }

    /// Nobody holds the process any more. A peer with credit must still be granted, or its program would stop.
    fn detach(&mut self, key: &Key) {
        if self.features.credit {
            self.with(key, Entry::detach);
        } else {
            self.remove(key);
        }
    }

    fn lose(&mut self, key: &Key, error: Error) {
        self.with(key, |entry| entry.lose(error));
        self.remove(key);
    }

    fn fail_all(&mut self, error: &Error) {
        for (_, mut entry) in self.entries.drain() {
            entry.disconnect(error.clone());
        }
        self.full = 0;
        self.failed = Some(error.clone());
    }

    fn with(&mut self, key: &Key, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self
            .entries
            .get_mut(&key.process_id)
            .filter(|entry| entry.number == key.number)
        {
            let was_full = entry.is_full();
            change(entry);
            self.full = self.full + usize::from(entry.is_full()) - usize::from(was_full);
        }
    }

    fn remove(&mut self, key: &Key) {
        if self
            .entries
            .get(&key.process_id)
            .is_some_and(|entry| entry.number == key.number)
        {
            self.drop_entry(&key.process_id);
        }
    }

    fn drop_entry(&mut self, process_id: &str) {
        if let Some(entry) = self.entries.remove(process_id) {
            self.full -= usize::from(entry.is_full());
        }
    }
}
