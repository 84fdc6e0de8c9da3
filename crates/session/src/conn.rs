//! What others may see of a session (`session.md` 2.4, 15.1).

use crate::cause::{Cause, RecoveryPhase};
use crate::ids::{Epoch, Gen, Registration, SessionId};

/// The connection-state watch of an environment. It starts as `Disconnected`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ConnState {
    /// The current session has an open link.
    Connected,
    /// The current session is being recovered.
    Recovering,
    /// There is no current session, or it has failed.
    #[default]
    Disconnected,
}

/// What holders of a session see: the shell keeps one output-only watch of it per generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkSlot {
    /// Calls go to this link.
    Up(Epoch),
    /// Calls wait, or fail if they must not wait.
    Recovering,
    /// Calls fail with the cause. Final, except that a failed session may still be retired.
    Failed(Cause),
    /// Calls fail: the executor was replaced. Final.
    Retired,
}

/// Where the machine stands, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing was asked for yet, or the last attempt failed.
    Idle,
    /// An attempt runs.
    Connecting(AttemptPhase),
    /// The current session has a link.
    Connected,
    /// The current session is being recovered.
    Recovering(RecoveryPhase),
    /// The current session has failed.
    Failed,
    /// Shut down.
    ShutDown,
}

/// What an attempt is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttemptPhase {
    /// Waiting, because attempts have failed again and again (W16).
    Cooldown,
    /// Waiting for the environment to be provisioned.
    Provisioning,
    /// Looking up the executor.
    Lookup,
    /// Dialling, handshake, initialize.
    Attach,
}

/// Whether a session could be used right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// Yes.
    Ready,
    /// Not known yet: nothing tried, or recovering.
    Undecided,
    /// No, because.
    Failed(Cause),
}

/// The machine's answer to `Event::Snapshot`: settled, because it queues behind every report that came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// Where the machine stands.
    pub phase: Phase,
    /// A current session exists or a startup result is remembered.
    pub startup_finished: bool,
    /// Whether the session is usable.
    pub readiness: Readiness,
    /// Registration of the last installed session, also while it is failed or retired and its replacement is connecting.
    pub registration: Option<Registration>,
    /// The current session.
    pub session: Option<(Gen, SessionId)>,
    /// The last published value of the connection-state watch.
    pub conn: ConnState,
}
