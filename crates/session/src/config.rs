//! What a client may choose, with its defaults.

use std::time::Duration;

/// How the client reaches executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Through a registry and its rendezvous, over Noise: can reconnect, recover and refresh.
    Noise,
    /// One WebSocket URL: can reconnect and recover.
    WebSocket,
    /// Sockets that the host supplies: can recover with the next one.
    Accepted,
    /// A program's stdio, or a single connection: nothing.
    Once,
}

/// What the machine itself must know; constant over its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How executors are reached.
    pub transport: Transport,
    /// The environment is provisioned by somebody: attempts wait for `ProvisioningChanged`.
    pub deferred: bool,
    /// How many crashes of children within a minute are survived (15.7).
    pub panic_budget: u32,
}

impl Rules {
    /// The rules for a transport that is not deferred.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self {
            transport,
            deferred: false,
            panic_budget: 3,
        }
    }

    /// Whether a failed session can be followed by a new one (3.1).
    #[must_use]
    pub fn can_reconnect(&self) -> bool {
        self.deferred || matches!(self.transport, Transport::Noise | Transport::WebSocket)
    }

    /// Whether a session can be resumed on another link (2.1).
    #[must_use]
    pub fn can_recover(&self) -> bool {
        !matches!(self.transport, Transport::Once)
    }

    /// Whether there is a registry to ask (6).
    #[must_use]
    pub fn can_refresh(&self) -> bool {
        self.transport == Transport::Noise
    }
}

/// Which delays a recovery uses (5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Delays {
    /// Cause-specific, fully jittered (W1–W4).
    #[default]
    Ours,
    /// The reference's: 100 ms constant, or its registry backoff.
    Reference,
}

/// What a hole in a replayed output means (8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OnGap {
    /// It is delivered as a gap event and the process goes on (W8).
    #[default]
    Mark,
    /// The process is failed and terminated, as the reference does.
    Fail,
}

/// Limits and times that a client may choose; each field's default stands in its documentation, with its source in the specification
/// (`session.md`) where that is not the table of its section 1. What both ends must agree on is not here but in `wire::limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// From entering Recovering to giving up. `None`: the peer's retention minus 5 s, never below half of it (W6). The reference: 25 s.
    pub recovery_deadline: Option<Duration>,
    /// Retention of a detached session when the peer announces none: 30 s.
    pub assumed_retention: Duration,
    /// Which delays are used: [`Delays::Ours`].
    pub delays: Delays,
    /// Plain retry interval of the reference's rule: 100 ms.
    pub plain_retry: Duration,
    /// Window of a restart that was announced without one: 5 s (design 9).
    pub restart_window: Duration,
    /// A `Retry-After` counts for at most: 30 s (5.4).
    pub retry_after_max: Duration,
    /// Opening a WebSocket: 10 s.
    pub connect_timeout: Duration,
    /// Noise handshake and initialize together, from the open socket: 10 s.
    pub initialize_timeout: Duration,
    /// A refresh's lookup in all: 10 s.
    pub refresh_lookup_timeout: Duration,
    /// One registry request of a resume, headers and body: 10 s.
    pub registry_request_timeout: Duration,
    /// One request of an initial lookup: 6 s.
    pub lookup_request_timeout: Duration,
    /// An initial lookup in all; starts again once after a 401 upgrade: 14 s.
    pub lookup_deadline: Duration,
    /// Retries of an initial lookup; starts again with the deadline: 4.
    pub lookup_retries: u32,
    /// How long a provisioned environment may be offline after it was reported ready: 5 min.
    pub offline_deadline: Duration,
    /// `environment/info`: 30 s.
    pub info_timeout: Duration,
    /// One answer of a replay, which is due at once: 30 s. A link that went silent would otherwise use up the recovery's
    /// whole deadline (ours).
    pub replay_timeout: Duration,
    /// `environment/status`: 10 s.
    pub status_timeout: Duration,
    /// How long a capability discovery waits for its one repetition: 8 s.
    pub discovery_replay_wait: Duration,
    /// The largest single event of a process, in bytes; a larger one loses the process (8.3): 1 MiB.
    pub largest_event: usize,
    /// What a hole in replayed output means: [`OnGap::Mark`].
    pub on_gap: OnGap,
    /// Frames of one HTTP body that nobody has read yet. `None`: only bytes are bounded (W11). The reference: 256.
    pub body_frames: Option<usize>,
    /// Bytes of all HTTP bodies of a session that nobody has read yet: 16 MiB.
    pub body_bytes: usize,
    /// Crashes of children that are survived within `panic_window`: 3 (15.7).
    pub panic_budget: u32,
    /// How long a crash counts: 60 s (15.7).
    pub panic_window: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            recovery_deadline: None,
            assumed_retention: Duration::from_secs(30),
            delays: Delays::Ours,
            plain_retry: Duration::from_millis(100),
            restart_window: Duration::from_secs(5),
            retry_after_max: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            initialize_timeout: Duration::from_secs(10),
            refresh_lookup_timeout: Duration::from_secs(10),
            registry_request_timeout: Duration::from_secs(10),
            lookup_request_timeout: Duration::from_secs(6),
            lookup_deadline: Duration::from_secs(14),
            lookup_retries: 4,
            offline_deadline: Duration::from_secs(300),
            info_timeout: Duration::from_secs(30),
            replay_timeout: Duration::from_secs(30),
            status_timeout: Duration::from_secs(10),
            discovery_replay_wait: Duration::from_secs(8),
            largest_event: 1 << 20,
            on_gap: OnGap::Mark,
            body_frames: None,
            body_bytes: 16 << 20,
            panic_budget: 3,
            panic_window: Duration::from_secs(60),
        }
    }
}
