//! What the supervisor tells the machine (`session.md` 15.3).

use crate::cause::Failure;
use crate::ids::{
    BundleId, CauseId, Child, ClaimId, Epoch, ExecutorKey, Gen, LookupTag, Op, RecoveryId,
    RefreshId, Registration, SessionId, SocketId, Timer, WaiterId,
};

/// Whether an [`Acquire`](Event::Acquire) may connect and wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Connects if need be, and waits.
    Wait,
    /// Never starts, waits for or recovers anything.
    FailFast,
}

/// A registry answer; the shell keeps the rest of it (URL, authorization) under `id` until a connector has taken it or
/// [`Machine::keeps`](crate::Machine::keeps) names it no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bundle {
    /// Where the shell keeps it.
    pub id: BundleId,
    /// The registration it names.
    pub registration: Registration,
    /// The executor key it names.
    pub key: ExecutorKey,
}

/// What the environment manager says about a deferred transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provisioning {
    /// Attempts wait.
    Pending,
    /// Attempts may look up.
    Ready,
    /// Attempts fail (class `Provisioning`), or the reporter is gone (class `Closed`).
    Failed(Failure),
}

/// How a step of `Handshake` failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Opening the socket.
    Dial,
    /// The Noise handshake.
    Handshake,
    /// The initialize call.
    Initialize,
}

/// How a link that still works misbehaves, or a timed call on it shows that it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// An inbound request id that is not a non-negative integer.
    BadId,
    /// An inbound request id that is still in flight.
    DuplicateId,
    /// A notification that cannot be handled: bad JSON, oversized body delta.
    BadNotification,
    /// `environment/info` or a timed configuration read was not answered in time. Moves nothing without a reconnect strategy.
    RpcTimeout,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// By itself, normally.
    Stopped,
    /// Its handler returned an error.
    Failed,
    /// Its handler panicked.
    Panicked,
    /// It was killed.
    Killed,
}

/// One message to the supervisor. Feed them to [`Machine::step`](crate::Machine::step) in mailbox order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A caller wants a session: `Answer::Session` or `Answer::Failed`.
    Acquire {
        /// Whether it may wait.
        mode: Mode,
        /// Who.
        waiter: WaiterId,
    },
    /// A session handle wants its link: `Answer::Link` or `Answer::Failed`. Waiting mode only.
    AwaitLink {
        /// The handle's generation.
        generation: Gen,
        /// The link whose closed flag the caller saw: not good enough, whatever the machine still thinks of it.
        dead: Option<Epoch>,
        /// Who.
        waiter: WaiterId,
    },
    /// A caller waits until the first connection is made: `Answer::Ready` or `Answer::Failed`.
    AwaitReady {
        /// Who.
        waiter: WaiterId,
    },
    /// Connect in the background; nothing for a transport that starts a program.
    StartConnecting,
    /// Move to the executor that is registered now: `Answer::Refreshed` or `Answer::Failed`.
    Refresh {
        /// Who.
        waiter: WaiterId,
    },
    /// Tell where things stand: `Answer::Snapshot`, at once.
    Snapshot {
        /// Who.
        waiter: WaiterId,
    },
    /// The caller is gone; it gets no answer.
    ForgetWaiter(WaiterId),
    /// The host wants to hand over a socket: `Answer::Claim` or `Answer::Failed`.
    ClaimReplacement {
        /// Who.
        waiter: WaiterId,
    },
    /// The host's socket: `Answer::SocketTaken` or `Answer::Failed`.
    ReplaceSocket {
        /// From `Answer::Claim`.
        claim: ClaimId,
        /// The socket.
        socket: SocketId,
        /// Who.
        waiter: WaiterId,
    },
    /// The claim was dropped without a socket.
    AbandonClaim(ClaimId),
    /// The environment manager's report; only for deferred transports.
    ProvisioningChanged(Provisioning),
    /// A new outbound policy is in force: failures of the old one do not slow the next attempt down.
    PolicyPublished,
    /// Credentials were renewed: a remembered startup failure is forgotten (W15).
    CredentialsChanged,
    /// A lookup ended.
    LookupDone {
        /// Which.
        lookup: LookupTag,
        /// Its answer.
        result: Result<Bundle, Failure>,
    },
    /// Handshake has an initialised link: its Reader and Writer run.
    LinkReady {
        /// What for.
        op: Op,
        /// Which link.
        epoch: Epoch,
        /// What the executor called the session.
        session: SessionId,
    },
    /// Handshake failed; its socket is closed.
    ConnectFailed {
        /// What for.
        op: Op,
        /// Which link it was to be.
        epoch: Epoch,
        /// Where it failed.
        stage: Stage,
        /// How.
        failure: Failure,
    },
    /// The processes have caught up, or the link closed under the replay.
    ReplayDone {
        /// Which recovery.
        recovery: RecoveryId,
        /// On which link.
        epoch: Epoch,
        /// `Err` only if the transport closed: failures of single processes end those processes.
        result: Result<(), Failure>,
    },
    /// No process start is in progress on the dead link any more.
    StartsDrained(RecoveryId),
    /// The link ended. The Reader's last message, after it set the closed flag and drained the pending calls.
    LinkDown {
        /// Which.
        epoch: Epoch,
        /// Why.
        cause: CauseId,
        /// The peer announced a restart (WebSocket close 1012 or 1013): the first resume is spread over its window (W3).
        restart: bool,
    },
    /// The link is open but not usable.
    LinkFault {
        /// Which.
        epoch: Epoch,
        /// How.
        fault: Fault,
        /// The text.
        cause: CauseId,
    },
    /// A refresh's probe was answered, or not.
    ProbeDone {
        /// Which refresh.
        refresh: RefreshId,
        /// On which link.
        epoch: Epoch,
        /// The result.
        result: Result<(), Failure>,
    },
    /// A timer fired (`RetryDue` and `DeadlineHit` of the specification, and our own).
    Due(Timer),
    /// A child ended. The supervisor posts this to itself from its supervision handler, so that it queues behind whatever the
    /// child sent before it died.
    ChildGone {
        /// Which.
        child: Child,
        /// How.
        how: How,
    },
    /// The network is back or the machine woke up: what waits for a retry runs now.
    Nudge,
    /// The owner wants an end: `Answer::ShutDown`. Everything after it is answered with `Cause::ShutDown`.
    Shutdown {
        /// Who.
        waiter: WaiterId,
    },
    /// Retires the session as a refresh would, without a replacement. For tests (scenario S12); no product code sends it.
    #[doc(hidden)]
    RetireForTest(Gen),
}
