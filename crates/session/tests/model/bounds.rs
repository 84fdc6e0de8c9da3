//! How far a model goes. What a bound forbids is not offered; what is offered is explored to its end.

use mainstay_session::{Class, Rules};

use crate::world::World;

#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) rules: Rules,
    pub(crate) generations: u32,
    pub(crate) epochs: u32,
    /// Resumes of one recovery that may fail and be tried again.
    pub(crate) retries: u32,
    /// Registry answers: (registration, key).
    pub(crate) registrations: &'static [(u32, u32)],
    /// How lookups, dials and replays fail.
    pub(crate) lookup_failures: &'static [Class],
    pub(crate) dial_failures: &'static [Class],
    pub(crate) budget: Budget,
}

impl Bounds {
    pub(crate) fn holds(&self, world: &World) -> bool {
        world.slots.len() as u32 <= self.generations && world.tags.epoch.0 <= self.epochs
    }
}

/// How often each thing may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) acquires: u8,
    pub(crate) readies: u8,
    pub(crate) links: u8,
    pub(crate) refreshes: u8,
    pub(crate) forgets: u8,
    pub(crate) crashes: u8,
    pub(crate) provisionings: u8,
    pub(crate) nudges: u8,
    pub(crate) restarts: u8,
    pub(crate) faults: u8,
    pub(crate) retirements: u8,
    pub(crate) shutdowns: u8,
    pub(crate) sockets: u8,
    pub(crate) renewals: u8,
}
