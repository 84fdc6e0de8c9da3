//! What an environment is made of: fixed for its life, shared by its actors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mainstay_link::DialOptions;
use mainstay_session::{Outcome, Rules, Transport};

use crate::config::Config;
use crate::outbound::OutboundPolicy;
use crate::program::Program;
use crate::registry::Registry;
use crate::telemetry::Tracing;

/// Told once about each attempt to connect while no session has ever existed (`session.md` 3.5): how it ended, and how
/// long it took. An attempt that ended before it did anything has no duration.
pub type Observer = Arc<dyn Fn(Attempted, Option<Duration>) + Send + Sync>;

/// How such an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attempted {
    /// Its session was installed.
    Success,
    /// It failed.
    Failure,
    /// It was superseded or dropped.
    Cancelled,
}

/// An executor's own listener.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    pub(crate) url: String,
    pub(crate) options: DialOptions,
    pub(crate) policy: Option<OutboundPolicy>,
}

/// Where an environment connects to.
#[derive(Debug)]
pub(crate) enum Destination {
    Direct(Arc<Direct>),
    Registry(Arc<Registry>),
    /// A program that serves over its standard input and output.
    Program(Program),
    /// Sockets that the host hands over.
    Accepted,
}

/// See the module.
pub(crate) struct Setup {
    pub(crate) destination: Destination,
    pub(crate) config: Config,
    pub(crate) observer: Option<Observer>,
    pub(crate) policy: Option<OutboundPolicy>,
    pub(crate) tracing: Tracing,
    /// Somebody provisions it.
    pub(crate) provisioned: bool,
}

impl Setup {
    pub(crate) fn rules(&self) -> Rules {
        let transport = match &self.destination {
            Destination::Direct(_) => Transport::WebSocket,
            Destination::Registry(_) => Transport::Noise,
            Destination::Program(_) => Transport::Once,
            Destination::Accepted => Transport::Accepted,
        };
        Rules {
            panic_budget: self.config.session.panic_budget,
            deferred: self.provisioned,
            ..Rules::new(transport)
        }
    }

    pub(crate) fn observe(&self, outcome: Outcome, duration: Option<Duration>) {
        if let Some(observer) = &self.observer {
            let attempted = match outcome {
                Outcome::Success => Attempted::Success,
                Outcome::Failure => Attempted::Failure,
                Outcome::Cancelled => Attempted::Cancelled,
            };
            observer(attempted, duration);
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("destination", &self.destination)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
