//! What the machine tells the supervisor to do (`session.md` 15.3).

use crate::cause::{Cause, Failure};
use crate::conn::{ConnState, LinkSlot, Snapshot};
use crate::event::Bundle;
use crate::ids::{
    AttemptId, CauseId, Child, ClaimId, Epoch, Gen, LookupTag, Op, RecoveryId, RefreshId,
    SessionId, SocketId, Timer, WaiterId,
};

/// One thing to do. The supervisor applies the list of a step in order, before it takes the next message. None of them may wait:
/// each sends, spawns, sets or arms something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Spawn a Lookup actor: one registry request series. It must end with exactly one `LookupDone`.
    ///
    /// The rules depend on `lookup.op`: *Attempt* – 6 s per request, at most 4 retries, 14 s in all; offline answers of a
    /// deferred transport are retried until 5 min after the attempt's first lookup. Deadline and counter start again with each
    /// `turn` (the 401 refresh), the 5 min do not. *Recovery* – one request. *Refresh* – retryable errors are tried again within
    /// 10 s (W17). `lookup` decides each retry.
    SpawnLookup(LookupTag),
    /// Spawn a Handshake actor: dial (10 s), Noise handshake and initialize (10 s together). Its Reader must run before initialize
    /// is sent, and for a resume the session's tables must accept events of this epoch from now on, next to those of the current
    /// one. It ends with exactly one `LinkReady` or `ConnectFailed`; when it is stopped or fails, nothing of its link is left.
    SpawnConnector {
        /// What for; goes back in the report.
        op: Op,
        /// The number of the link.
        epoch: Epoch,
        /// Where to.
        route: Route,
        /// The session to resume, if any.
        resume: Option<SessionId>,
    },
    /// Spawn a Replay actor on a link that nobody else can use yet (8.4). It ends with one `ReplayDone`.
    SpawnReplay {
        /// Which recovery.
        recovery: RecoveryId,
        /// The session.
        generation: Gen,
        /// The link.
        epoch: Epoch,
    },
    /// Ask `environment/status` on this link (10 s, reserved slot, never cached). Ends with one `ProbeDone`.
    SpawnProbe {
        /// Which refresh.
        refresh: RefreshId,
        /// The session.
        generation: Gen,
        /// The link.
        epoch: Epoch,
    },
    /// Kill the child; what it still reports is ignored. For a connector: its link is closed too.
    Stop(Child),
    /// Close the link: set its closed flag, drain its pending calls, close its socket. Idempotent.
    CloseLink(Epoch),
    /// Set the one-way gate of this generation: from here no result of it is delivered and nothing is sent. Callers who find the
    /// gate set take their error from the generation's slot.
    SetGate(Gen),
    /// Write the generation's slot watch.
    PublishSlot(Gen, LinkSlot),
    /// Write the environment's connection-state watch and wake its subscribers, even if the value is the same.
    PublishConn(ConnState),
    /// A new session exists: create its gate (open) and its slot (the next effect fills it), and hand the link's events to its tables.
    Install {
        /// The new generation.
        generation: Gen,
        /// Its link.
        epoch: Epoch,
        /// Its id.
        session: SessionId,
    },
    /// The session's calls use this link from now on; comes right before its `PublishSlot(Up)`. The process and body tables
    /// accept events of this epoch only.
    Relink {
        /// The session.
        generation: Gen,
        /// Its new link.
        epoch: Epoch,
    },
    /// Tell the process table to refuse starts on this or an earlier epoch, and to answer `StartsDrained(recovery)` when the
    /// running ones have ended. Without a process table: answer at once (as a message).
    DrainStarts {
        /// Goes back in the answer.
        recovery: RecoveryId,
        /// The session.
        generation: Gen,
        /// The dead link.
        epoch: Epoch,
    },
    /// Fail every process of the generation, cancel its policy decisions (ConnectionClosed). Idempotent.
    FailProcesses(Gen, Cause),
    /// Fail every HTTP body stream of the generation that was not complete. Idempotent.
    FailStreams(Gen, Cause),
    /// Arm a timer that sends `Event::Due(timer)` after the wait.
    StartTimer(Timer, Wait),
    /// Disarm it; one that fires anyway is ignored.
    CancelTimer(Timer),
    /// Answer the waiter.
    Reply(WaiterId, Answer),
    /// Tell the observer of first connections, if one was registered when the attempt began. Success is timed from the
    /// attempt's first `SpawnLookup` or `SpawnConnector` to now (3.5); so the shell remembers that instant per attempt.
    Observe(AttemptId, Outcome),
    /// Log it.
    Trace(Note),
}

/// Where a connector dials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// The rendezvous that the bundle names; the shell forgets the bundle with this.
    Bundle(Bundle),
    /// The configured URL, program, or single connection.
    Configured,
    /// A socket from the host; the shell forgets it with this.
    Socket(SocketId),
}

/// How long a timer waits. The shell turns it into a time with `delay`, the configuration, its random numbers,
/// and the error it keeps for the cause (`Retry-After`, an announced window).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// The recovery deadline (W6: from the peer's retention).
    RecoveryDeadline,
    /// After a failure.
    Backoff {
        /// The last failure.
        after: Failure,
        /// How many failures came before it.
        earlier: u32,
    },
    /// An announced restart: spread over its window.
    Restart(CauseId),
    /// How long a panic counts: 60 s.
    PanicWindow,
}

/// The answer to a waiter; each request names the ones it can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The session to use. It may be recovering, or failed if the transport cannot reconnect: its calls wait or fail.
    Session(Gen),
    /// The link to use now.
    Link(Gen, Epoch),
    /// The first connection is made.
    Ready,
    /// The session that was right, or replaced the old one, and answered the probe.
    Refreshed(Gen),
    /// Where things stand.
    Snapshot(Snapshot),
    /// The right to hand over one socket. Drop it without a socket: `AbandonClaim`.
    Claim(ClaimId),
    /// The socket is queued and will be used.
    SocketTaken,
    /// The environment is shut down.
    ShutDown,
    /// It did not work.
    Failed(Cause),
}

/// How an observed attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its session was installed.
    Success,
    /// It failed.
    Failure,
    /// It was superseded or shut down.
    Cancelled,
}

/// Things worth a log line or a counter and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Note {
    /// An event whose tag is not live was dropped.
    Stale,
    /// A resume failed and will be tried again.
    ResumeFailed(RecoveryId, Failure),
    /// A refresh's lookup did not fit what it had observed any more; it looks up again.
    StaleLookup(RefreshId),
    /// A queued refresh superseded the attempt of the active one (W18).
    Overtaken(RefreshId),
}
