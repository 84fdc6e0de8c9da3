//! Attempts, recoveries and refreshes under way, as the telemetry sees them: their spans, and how long they took.

use std::collections::HashMap;
use std::time::Duration;

use mainstay_session::ids::Op;
use mainstay_session::{Answer, Effect, Machine};
use tokio::time::Instant;
use tracing::Span;

use crate::telemetry;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Operations(HashMap<Op, Operation>);

#[derive(Debug)]
struct Operation {
    span: Span,
    began: Instant,
}

/// Which kinds of operations a step brings to a good end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Achieved {
    attempt: bool,
    recovery: bool,
    refresh: bool,
}

impl Achieved {
    pub(super) fn by(effects: &[Effect]) -> Self {
        let any = |what: fn(&Effect) -> bool| effects.iter().any(what);
        Self {
            attempt: any(|effect| matches!(effect, Effect::Install { .. })),
            recovery: any(|effect| matches!(effect, Effect::Relink { .. })),
            refresh: any(|effect| matches!(effect, Effect::Reply(_, Answer::Refreshed(_)))),
        }
    }

    fn outcome(self, op: Op) -> &'static str {
        let good = match op {
            Op::Attempt(_) => self.attempt,
            Op::Recovery(_) => self.recovery,
            Op::Refresh(_) => self.refresh,
        };
        if good { "success" } else { "failure" }
    }
}

impl Operations {
    /// The operation does its first or its next step.
    pub(super) fn step(&mut self, op: Op) -> Span {
        let operation = self.0.entry(op).or_insert_with(|| Operation {
            span: telemetry::operation(op),
            began: Instant::now(),
        });
        operation.span.clone()
    }

    /// When it began; now, if it has done nothing.
    pub(super) fn began(&self, op: Op) -> Instant {
        self.0
            .get(&op)
            .map_or_else(Instant::now, |operation| operation.began)
    }

    /// How long it has taken; `None` if it has done nothing.
    pub(super) fn took(&self, op: Op) -> Option<Duration> {
        self.0.get(&op).map(|operation| operation.began.elapsed())
    }

    /// Ends those that are over after a step.
    pub(super) fn settle(&mut self, machine: &Machine, achieved: Achieved) {
        self.0.retain(|op, operation| {
            let live = machine.is_live(*op);
            if !live {
                let outcome = achieved.outcome(*op);
                operation.span.record("outcome", outcome);
                let took = operation.began.elapsed();
                operation
                    .span
                    .in_scope(|| telemetry::count_operation(*op, outcome, took));
            }
            live
        });
    }
}
