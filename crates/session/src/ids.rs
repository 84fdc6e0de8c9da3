//! Opaque tags.
//!
//! The machine hands out the numbers it must compare later ([`Gen`], [`Epoch`], [`AttemptId`] …). Texts and objects stay in the
//! shell, which gives each a number and keeps the table ([`CauseId`], [`BundleId`], [`Registration`] …): that keeps the machine's
//! state small, comparable and free of secrets.

macro_rules! tags {
    ($($(#[$doc:meta])* $name:ident,)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $name {
            /// The tag after this one.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }
    )*};
}

// Handed out by the machine.
tags! {
    /// Generation of a session: +1 for each installed session. The first is 1.
    Gen,
    /// Number of a link, strictly increasing over the whole environment client, also for links that never become current.
    /// The machine assigns it with [`Effect::SpawnConnector`](crate::Effect::SpawnConnector), before the link exists.
    Epoch,
    /// One try to obtain a new session.
    AttemptId,
    /// One recovery of one session, with all its resumes.
    RecoveryId,
    /// One refresh; several callers may share it.
    RefreshId,
    /// One host's exclusive right to hand over a replacement socket.
    ClaimId,
}

// Handed out by the shell.
tags! {
    /// One failure whose error the shell keeps: see [`Failure`](crate::Failure).
    CauseId,
    /// One registry answer the shell keeps until it is dialled.
    BundleId,
    /// A registration id, interned: equal numbers mean equal registration ids.
    Registration,
    /// An executor's public key, interned: equal numbers mean equal keys.
    ExecutorKey,
    /// A session id of the wire, interned.
    SessionId,
    /// A socket handed over by the host.
    SocketId,
}

/// One request that waits for its [`Answer`](crate::Answer). The shell chooses it, and never uses one twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub u64);

/// What a lookup or a connector works for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Obtaining a new session.
    Attempt(AttemptId),
    /// Resuming the current one.
    Recovery(RecoveryId),
    /// Asking which executor is registered now.
    Refresh(RefreshId),
}

/// One run of a lookup: the same operation may look up again, and a late answer of the earlier run must not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookupTag {
    /// What it works for.
    pub op: Op,
    /// 0 for the first lookup of the operation, then 1, 2, …
    pub turn: u32,
}

/// A timer; it never fires twice, and one that fires late is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Timer {
    /// The recovery gives up.
    Deadline(RecoveryId),
    /// The recovery's next resume is due (its first one too, if a restart was announced).
    Retry(RecoveryId),
    /// Attempts may start again. The tag names the attempt whose failure caused the pause.
    Cooldown(AttemptId),
    /// A panic is old enough not to count any more.
    Panic(u32),
}

/// A child of the supervisor, for supervision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Child {
    /// A registry request series.
    Lookup(LookupTag),
    /// Dial, Noise handshake, initialize.
    Connector(Op, Epoch),
    /// The processes' catch-up after a resume.
    Replay(RecoveryId, Epoch),
    /// A refresh's live `environment/status`.
    Probe(RefreshId),
    /// The receiving half of a link.
    Reader(Epoch),
    /// The sending half of a link.
    Writer(Epoch),
    /// A session's processes.
    ProcessTable(Gen),
    /// A session's HTTP body streams.
    BodyTable(Gen),
    /// A process start or a policy decision: the machine only counts its crashes, the shell ends the operation.
    Operation,
}
