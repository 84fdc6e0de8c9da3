//! The machine's state, part by part. Each part's file has the decisions about it.

use crate::cause::{Cause, Down, Failure, RecoveryPhase};
use crate::conn::AttemptPhase;
use crate::event::Bundle;
use crate::ids::{
    AttemptId, CauseId, ClaimId, Epoch, ExecutorKey, Gen, RecoveryId, RefreshId, Registration,
    SessionId, SocketId, WaiterId,
};

/// The current session. A retired session is not kept: nothing can happen to it any more.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    pub(crate) generation: Gen,
    pub(crate) id: SessionId,
    /// Pinned by the first link.
    pub(crate) key: Option<ExecutorKey>,
    /// Changes only together with the link.
    pub(crate) registration: Option<Registration>,
    pub(crate) status: Status,
    /// Holders that wait for a link.
    pub(crate) waiters: Vec<WaiterId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Connected(Epoch),
    Recovering(Recovery),
    Failed(Cause),
}

/// The one recovery of the current session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recovery {
    pub(crate) id: RecoveryId,
    /// What started it.
    pub(crate) down: Down,
    /// Failed resumes so far; the retry delay grows with it.
    pub(crate) failures: u32,
    /// The last of them.
    pub(crate) last: Option<Failure>,
    /// An upgrade was answered 401 already: the next one ends the recovery (W5).
    pub(crate) unauthorized: bool,
    /// Lookups so far.
    pub(crate) lookups: u32,
    pub(crate) stage: ResumeStage,
}

/// Where a resume stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ResumeStage {
    /// Process starts of the dead link are still ending; then the first resume, at once unless a restart was announced.
    Draining { restart: Option<CauseId> },
    /// The retry timer is armed.
    Waiting,
    /// Accepted sockets: the host has to hand one over.
    AwaitSocket,
    /// The lookup with turn `lookups - 1` runs.
    Looking,
    /// Handshake runs.
    Connecting(Connecting),
    /// The link is initialised, the processes catch up.
    Replaying {
        epoch: Epoch,
        registration: Option<Registration>,
    },
}

impl ResumeStage {
    pub(crate) fn phase(&self) -> RecoveryPhase {
        match self {
            ResumeStage::Draining { .. } => RecoveryPhase::StartDrain,
            ResumeStage::Waiting => RecoveryPhase::Backoff,
            ResumeStage::AwaitSocket => RecoveryPhase::Socket,
            ResumeStage::Looking => RecoveryPhase::Lookup,
            ResumeStage::Connecting(_) => RecoveryPhase::Attach,
            ResumeStage::Replaying { .. } => RecoveryPhase::Replay,
        }
    }
}

/// A running Handshake.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Connecting {
    pub(crate) epoch: Epoch,
    /// What it dials, if a registry was asked.
    pub(crate) bundle: Option<Bundle>,
    /// The Reader reported the link's end, or a fault, before Handshake reported the link: two senders, so either may come first.
    pub(crate) down: Option<CauseId>,
}

/// The one attempt to obtain a new session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    pub(crate) id: AttemptId,
    pub(crate) kind: AttemptKind,
    /// Made while no session had ever been installed: the observer of first connections hears of it.
    pub(crate) observed: bool,
    /// The refresh's answer, for the first dial.
    pub(crate) prefetched: Option<Bundle>,
    /// Its bundle was stale at the upgrade: it has looked up a second time.
    pub(crate) looked_again: bool,
    pub(crate) stage: AttemptStage,
    pub(crate) waiters: Vec<(WaiterId, Want)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AttemptKind {
    /// The first one; its result is remembered.
    Startup,
    /// A later one, shared by the callers that want a session.
    Reconnect,
    /// A refresh's.
    Replacement,
}

/// Where an attempt stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AttemptStage {
    /// The cooldown after repeated failures is not over (W16).
    Cooling,
    /// Provisioning is pending.
    Provisioning,
    /// The lookup runs.
    Looking,
    /// Handshake runs.
    Connecting(Connecting),
}

impl AttemptStage {
    pub(crate) fn phase(&self) -> AttemptPhase {
        match self {
            AttemptStage::Cooling => AttemptPhase::Cooldown,
            AttemptStage::Provisioning => AttemptPhase::Provisioning,
            AttemptStage::Looking => AttemptPhase::Lookup,
            AttemptStage::Connecting(_) => AttemptPhase::Attach,
        }
    }
}

/// What an attempt's waiter asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    Session,
    Ready,
}

/// What is remembered of the startup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Startup {
    /// How the startup attempt ended.
    pub(crate) result: Option<Result<(), Failure>>,
    /// A refresh has taken over: the result does not count any more.
    pub(crate) superseded: bool,
}

/// Pauses between attempts that fail one after another (W16).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Cooldown {
    /// Consecutive failures.
    pub(crate) failures: u32,
    /// The attempt whose failure armed the timer that runs.
    pub(crate) timer: Option<AttemptId>,
}

/// Refreshes, one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Refreshes {
    pub(crate) active: Option<Refresh>,
    /// The head of the queue, whose lookup runs while the active refresh waits for its attempt (W18). Always `Looking`.
    pub(crate) overtaker: Option<Refresh>,
    /// Callers that came after the active refresh had sent its lookup. They share the next one: it is sent after all of them came.
    pub(crate) queued: Vec<WaiterId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Refresh {
    pub(crate) id: RefreshId,
    pub(crate) callers: Vec<WaiterId>,
    pub(crate) stage: RefreshStage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RefreshStage {
    /// The lookup runs; its answer counts only if the observation still holds.
    Looking {
        turn: u32,
        observed: Option<Observed>,
    },
    /// The old session is retired, its replacement is connecting.
    Attempting(AttemptId),
    /// The chosen session must prove that it lives.
    Probing { generation: Gen, epoch: Epoch },
}

/// What a refresh saw before it looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Observed {
    /// The current session.
    pub generation: Gen,
    /// Its registration.
    pub registration: Option<Registration>,
}

/// A host's right to hand over a socket (5.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Handoff {
    Claimed(ClaimId),
    Queued(ClaimId, SocketId),
    InUse(ClaimId),
}

/// The last of each kind of number that was handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Counters {
    pub(crate) generation: Gen,
    pub(crate) epoch: Epoch,
    pub(crate) attempt: AttemptId,
    pub(crate) recovery: RecoveryId,
    pub(crate) refresh: RefreshId,
    pub(crate) claim: ClaimId,
    /// Crashes ever, for the tags of their timers.
    pub(crate) panic: u32,
}

impl Session {
    pub(crate) fn failed(&self) -> bool {
        matches!(self.status, Status::Failed(_))
    }
}
