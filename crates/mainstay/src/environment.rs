//! The handle of one environment.

use ractor::ActorCell;
use tokio::sync::watch;

use crate::builder::Builder;
use crate::command::Command;
use crate::error::{Delivery, Error};
use crate::process::Process;

/// Connection state of an environment, as subscribers see it (`session.md` 2.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConnState {
    /// The current session has an open link.
    Connected,
    /// The current session is being resumed.
    Recovering,
    /// There is no usable session.
    #[default]
    Disconnected,
}

/// What an environment's supervisor knows at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The published connection state.
    pub state: ConnState,
    /// Whether a startup has ended, either way, or a session exists.
    pub startup_finished: bool,
    /// Registration id of the last installed session, over a registry.
    pub registration: Option<String>,
    /// Id of the current session.
    pub session_id: Option<String>,
}

/// A place where commands run. Cheap to clone; outlives every session.
#[derive(Clone, Debug)]
pub struct Environment {
    _private: (),
}

impl Environment {
    /// Describes a new environment.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) async fn start(
        builder: Builder,
        _supervisor: Option<ActorCell>,
    ) -> Result<Self, Error> {
        match (&builder.url, &builder.registry) {
            (Some(_), None) | (None, Some(_)) => Ok(Self { _private: () }),
            (None, None) => Err(Error::protocol("no destination: give a URL or a registry")),
            (Some(_), Some(_)) => Err(Error::protocol(
                "two destinations: give a URL or a registry, not both",
            )),
        }
    }

    /// Starts a process, connecting first if need be. Dropping the future abandons the start: a process that was
    /// started all the same is terminated.
    ///
    /// # Errors
    /// [`Error::delivery`] tells whether the process can have been started; [`Error::missing`] what it lacked.
    pub async fn exec(&self, _command: Command) -> Result<Process, Error> {
        Err(Error::disconnected("not connected", Delivery::NotSent))
    }

    /// A view that never starts, waits for or recovers anything: its calls fail at once unless the session is up.
    pub fn fail_fast(&self) -> Self {
        self.clone()
    }

    /// Moves to the executor that is registered now, and returns when it has answered.
    ///
    /// # Errors
    /// A failed lookup changes nothing; a failed replacement leaves the old session retired.
    pub async fn refresh(&self) -> Result<(), Error> {
        Err(Error::protocol("refresh needs a registry"))
    }

    /// The state of this moment, behind everything that was reported before.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        Err(Error::disconnected("not connected", Delivery::NotSent))
    }

    /// Subscribes to the connection state.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub async fn watch(&self) -> Result<watch::Receiver<ConnState>, Error> {
        Err(Error::disconnected("not connected", Delivery::NotSent))
    }

    /// Tells the environment that the network is back or the machine awake: a pending retry runs now.
    pub fn nudge(&self) {}

    /// Ends the environment: its session's link is closed, its handles fail.
    pub async fn shutdown(&self) {}
}
