//! The supervisor's decisions.

use crate::config::Rules;
use crate::effect::Effect;
use crate::event::Event;
use crate::ids::{BundleId, CauseId, SocketId};

/// The state of one environment client. Equal states behave equally.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    rules: Rules,
}

/// What the machine may still name: everything else of these kinds the shell may forget, once it has applied the effects of the step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Errors.
    pub causes: Vec<CauseId>,
    /// The registry answer that waits for provisioning.
    pub bundle: Option<BundleId>,
    /// The host's socket that waits for its turn.
    pub socket: Option<SocketId>,
}

impl Machine {
    /// Nothing connected, nothing asked for.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { rules }
    }

    /// Takes one event and says what to do, in order.
    pub fn step(&mut self, event: Event) -> Vec<Effect> {
        let _ = (event, self.rules);
        Vec::new()
    }

    /// What the shell must keep.
    #[must_use]
    pub fn keeps(&self) -> Kept {
        Kept::default()
    }
}
