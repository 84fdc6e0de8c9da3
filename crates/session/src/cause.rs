//! Why something ended, in the machine's words: small, comparable, without texts.

use crate::ids::CauseId;

/// What an error means for the decisions of the machine; `classify` finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The transport was closed under a request.
    Closed,
    /// The dial failed in a way that may pass: refused, timeout, 5xx, 408, 429.
    Dial,
    /// The upgrade was answered 401: the bundle was stale. Worth one new lookup.
    Unauthorized,
    /// The handshake was reset, or it and initialize took too long.
    Handshake,
    /// The executor has not noticed yet that the old link is dead (-32010).
    AlreadyAttached,
    /// Registry trouble that may pass.
    Registry,
    /// The registry knows no executor that is online.
    Offline,
    /// Provisioning failed.
    Provisioning,
    /// The outbound policy denied it.
    Denied,
    /// A child of our own crashed.
    Crashed,
    /// It will not get better by itself.
    Terminal,
}

impl Class {
    /// Whether a recovery tries again.
    #[must_use]
    pub fn recovery_retryable(self) -> bool {
        !matches!(self, Class::Denied | Class::Terminal)
    }

    /// Whether a startup that failed this way is tried again by the next caller, instead of being remembered for ever.
    #[must_use]
    pub fn may_retry_startup(self) -> bool {
        self != Class::Terminal
    }
}

/// A failure that a child or the host reported. The shell keeps the error under `cause` for as long as
/// [`Machine::keeps`](crate::Machine::keeps) names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Where the shell keeps the error.
    pub cause: CauseId,
    /// What it means.
    pub class: Class,
}

impl Failure {
    /// A child of our own crashed; the shell keeps nothing for it.
    pub const CRASHED: Failure = Failure {
        cause: CauseId::CRASHED,
        class: Class::Crashed,
    };
}

impl Failure {
    /// The link was closed, for this cause.
    #[must_use]
    pub fn closed(cause: CauseId) -> Self {
        Self {
            cause,
            class: Class::Closed,
        }
    }
}

impl CauseId {
    /// Reserved by the machine: "a part of the client crashed". The shell numbers its errors from 1.
    pub const CRASHED: CauseId = CauseId(0);
}

/// Why a link went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Down {
    /// The Reader's or a caller's report.
    Told(CauseId),
    /// The host handed over another socket.
    SocketReplaced,
    /// The Reader or the Writer crashed.
    Crashed,
}

/// What used up the time of a recovery (also a telemetry field, `session.md` 13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecoveryPhase {
    /// Waiting for process starts of the dead link to end: `process_start_drain`.
    StartDrain,
    /// Waiting for an announced restart or between two resumes: `backoff`.
    Backoff,
    /// Looking up the executor: `recovery_deadline`.
    Lookup,
    /// Dialling, handshake, initialize: `attach_deadline`.
    Attach,
    /// Waiting for the host's next socket: `recovery_deadline`.
    Socket,
    /// Catching up with the processes: `process_replay`.
    Replay,
}

/// How a recovery failed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Nothing could be tried: the transport cannot resume.
    NoStrategy,
    /// An error that will not pass. `Class::Denied` keeps its kind for callers.
    Fatal(Failure),
    /// The registry named an executor with another key than the pinned one.
    KeyChanged,
    /// The executor answered with another session id.
    SessionChanged,
    /// The deadline passed.
    TimedOut {
        /// What it was doing then.
        phase: RecoveryPhase,
        /// The last error that was worth another try.
        last: Option<Failure>,
    },
}

/// Why a request failed or a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Fail-fast, and nothing has ever been connected.
    NotReady,
    /// Fail-fast, or a probe, while the session is being recovered.
    Recovering,
    /// The attempt failed.
    Attempt(Failure),
    /// The attempt was superseded by a refresh.
    Superseded,
    /// The link went down; the session is being recovered. What ends body streams, which cannot be resumed.
    LinkLost(Down),
    /// An error that is passed on as it is: a refresh's lookup, a probe.
    Told(Failure),
    /// The session's link went down and could not be recovered.
    Lost {
        /// What started it.
        down: Down,
        /// How it ended.
        end: End,
    },
    /// The executor was replaced: the session is retired.
    Replaced,
    /// The session is not the current one any more; its slot says why.
    NotCurrent,
    /// The process table crashed: the processes' state is lost.
    ProcessTableLost,
    /// The body table crashed: open streams are lost, the session stays.
    BodyTableLost,
    /// A child of a refresh crashed.
    Crashed,
    /// More than three panics within a minute.
    TooManyPanics,
    /// The transport has no registry: it cannot refresh.
    CannotRefresh,
    /// The transport does not take sockets from the host.
    CannotReplaceSocket,
    /// Another handoff of a socket is in progress.
    HandoffInProgress,
    /// The environment was shut down.
    ShutDown,
}

impl Cause {
    /// The errors that the shell keeps for it.
    pub fn causes(self) -> impl Iterator<Item = CauseId> {
        let (first, second) = match self {
            Cause::Attempt(failure) | Cause::Told(failure) => (Some(failure.cause), None),
            Cause::LinkLost(down) => (down.cause(), None),
            Cause::Lost {
                down,
                end: End::Fatal(failure),
            } => (down.cause(), Some(failure.cause)),
            Cause::Lost {
                down,
                end: End::TimedOut { last, .. },
            } => (down.cause(), last.map(|last| last.cause)),
            Cause::Lost {
                down,
                end: End::NoStrategy | End::KeyChanged | End::SessionChanged,
            } => (down.cause(), None),
            Cause::NotReady
            | Cause::Recovering
            | Cause::Superseded
            | Cause::Replaced
            | Cause::NotCurrent
            | Cause::ProcessTableLost
            | Cause::BodyTableLost
            | Cause::Crashed
            | Cause::TooManyPanics
            | Cause::CannotRefresh
            | Cause::CannotReplaceSocket
            | Cause::HandoffInProgress
            | Cause::ShutDown => (None, None),
        };
        first.into_iter().chain(second)
    }
}

impl Down {
    /// The error that the shell keeps for it.
    #[must_use]
    pub fn cause(self) -> Option<CauseId> {
        match self {
            Down::Told(cause) => Some(cause),
            Down::SocketReplaced | Down::Crashed => None,
        }
    }
}
