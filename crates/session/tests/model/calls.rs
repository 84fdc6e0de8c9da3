//! Model B: calls and the gate.

use mainstay_session::Class;
use stateright::{Model, Property};

use crate::bounds::{Bounds, Budget};
use crate::callers::{Act, Callers, Kind};
use crate::explore::explore;
use crate::supervisor::noise;

#[derive(Clone, Debug)]
pub(crate) struct CallBounds {
    pub(crate) supervisor: Bounds,
    pub(crate) calls: Vec<Kind>,
}

impl Model for CallBounds {
    type State = Callers;
    type Action = Act;

    fn init_states(&self) -> Vec<Callers> {
        vec![Callers::new(&self.supervisor, &self.calls)]
    }

    fn actions(&self, callers: &Callers, acts: &mut Vec<Act>) {
        callers.acts(&self.supervisor, acts);
    }

    fn next_state(&self, callers: &Callers, act: Act) -> Option<Callers> {
        Some(callers.act(act, &self.supervisor))
    }

    fn within_boundary(&self, callers: &Callers) -> bool {
        self.supervisor.holds(&callers.world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no invariant is broken", |_, callers: &Callers| {
                callers.world.broken.is_none()
            }),
            Property::always("comes to rest", |bounds, callers| {
                comes_to_rest(callers, &bounds.supervisor)
            }),
        ]
    }
}

fn comes_to_rest(start: &Callers, bounds: &Bounds) -> bool {
    crate::rest::walk(
        start,
        |callers| callers.fair(bounds).map(|act| callers.act(act, bounds)),
        |callers| callers.rests() && callers.world.rests(),
        |callers| callers.world.broken.is_some(),
        |before, after| before.world.outlives(&after.world),
    )
}

/// Two generations, three links, one refresh; lookups find the old executor or a new one.
fn callers(calls: &[Kind], epochs: u32, crashes: u8) -> CallBounds {
    let supervisor = Bounds {
        generations: 2,
        epochs,
        registrations: &[(1, 1), (3, 2)],
        lookup_failures: &[Class::Terminal],
        dial_failures: &[],
        budget: Budget {
            refreshes: 1,
            crashes,
            ..noise().budget
        },
        ..noise()
    };
    CallBounds {
        supervisor,
        calls: calls.to_vec(),
    }
}

#[test]
fn model_b1_a_write_over_three_links() {
    explore("B1", callers(&[Kind::Write], 3, 1));
}

#[test]
fn model_b2_a_start_over_three_links() {
    explore("B2", callers(&[Kind::Start], 3, 1));
}

#[test]
fn model_b3_a_write_beside_a_start() {
    explore("B3", callers(&[Kind::Write, Kind::Start], 2, 0));
}

#[test]
fn model_b4_a_call_that_fails_fast_beside_a_write() {
    explore("B4", callers(&[Kind::Plain, Kind::Write], 2, 0));
}
