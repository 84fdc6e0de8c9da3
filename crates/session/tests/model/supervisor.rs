//! Model A: the supervisor, without calls. Each test is exhaustive within its bounds; together they are the bounds of the
//! specification, which in one model would not fit into the memory of a small machine.

use mainstay_session::*;
use stateright::{Model, Property};

use crate::bounds::{Bounds, Budget};
use crate::explore::explore;
use crate::rest::comes_to_rest;
use crate::world::World;

impl Model for Bounds {
    type State = World;
    type Action = Event;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Event>) {
        world.possible(self, actions);
    }

    fn next_state(&self, world: &World, event: Event) -> Option<World> {
        Some(world.next(event, self))
    }

    fn within_boundary(&self, world: &World) -> bool {
        self.holds(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no invariant is broken", |_, world: &World| {
                world.broken.is_none()
            }),
            Property::always("comes to rest", |bounds, world| {
                comes_to_rest(world, bounds)
            }),
        ]
    }
}

/// One caller; answers with the old and a new registration of the old key, and a new key.
pub(crate) fn noise() -> Bounds {
    Bounds {
        rules: Rules::new(Transport::Noise),
        generations: 3,
        epochs: 3,
        retries: 1,
        registrations: &[(1, 1), (2, 1), (3, 2)],
        lookup_failures: &[Class::Offline, Class::Terminal],
        dial_failures: &[Class::Dial, Class::Terminal],
        budget: Budget {
            acquires: 1,
            ..Budget::default()
        },
    }
}

/// A transport without a registry, and everything that can happen to it.
fn direct(transport: Transport) -> Bounds {
    Bounds {
        rules: Rules::new(transport),
        registrations: &[],
        budget: Budget {
            acquires: 2,
            links: 1,
            refreshes: 1,
            forgets: 1,
            crashes: 1,
            nudges: 1,
            restarts: 1,
            faults: 1,
            sockets: if transport == Transport::Accepted {
                2
            } else {
                0
            },
            shutdowns: 1,
            ..Budget::default()
        },
        ..noise()
    }
}

#[test]
fn model_a1_two_refreshes_and_a_crash_anywhere() {
    let bounds = Bounds {
        epochs: 4,
        budget: Budget {
            refreshes: 2,
            crashes: 1,
            ..noise().budget
        },
        ..noise()
    };
    explore("A1", bounds);
}

#[test]
fn model_a2_two_refreshes_while_provisioning_changes_and_callers_leave() {
    let bounds = Bounds {
        rules: Rules {
            deferred: true,
            ..noise().rules
        },
        budget: Budget {
            refreshes: 2,
            provisionings: 2,
            forgets: 1,
            ..noise().budget
        },
        ..noise()
    };
    explore("A2", bounds);
}

#[test]
fn model_a3_two_callers_two_retries_and_a_holder_that_waits() {
    let bounds = Bounds {
        epochs: 4,
        retries: 2,
        budget: Budget {
            acquires: 2,
            refreshes: 1,
            links: 1,
            ..noise().budget
        },
        ..noise()
    };
    explore("A3", bounds);
}

#[test]
fn model_a4_restarts_faults_nudges_and_a_shutdown() {
    let bounds = Bounds {
        generations: 2,
        budget: Budget {
            refreshes: 1,
            links: 1,
            nudges: 1,
            restarts: 1,
            faults: 1,
            shutdowns: 1,
            ..noise().budget
        },
        ..noise()
    };
    explore("A4", bounds);
}

#[test]
fn model_a5_denials_stale_bundles_and_what_ends_a_pause() {
    let bounds = Bounds {
        generations: 2,
        epochs: 2,
        registrations: &[(1, 1), (3, 2)],
        lookup_failures: &[Class::Offline, Class::Terminal, Class::Denied],
        dial_failures: &[Class::Dial, Class::Unauthorized],
        budget: Budget {
            acquires: 2,
            readies: 1,
            refreshes: 1,
            renewals: 1,
            retirements: 1,
            ..noise().budget
        },
        ..noise()
    };
    explore("A5", bounds);
}

#[test]
fn model_a6_one_url() {
    explore("A6", direct(Transport::WebSocket));
}

#[test]
fn model_a7_sockets_from_the_host() {
    explore("A7", direct(Transport::Accepted));
}

#[test]
fn model_a8_one_program() {
    explore("A8", direct(Transport::Once));
}
