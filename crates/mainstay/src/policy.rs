//! Policy: one decision about one connection of a remote process (`session.md` 10.5).
//!
//! A [worker](crate::worker), spawned by the process table; ends with one verdict to the table, which answers if the
//! process is still the same. A crash is a denial.

use std::sync::Arc;
use std::time::Duration;

use mainstay_wire::network::{Decision, PolicyTarget};
use tokio::sync::{mpsc, watch};
use tracing::Span;

use crate::network::{CancelCause, Cancelled, Decider};
use crate::outlet::Key;
use crate::ports::PolicyArrival;
use crate::process_table::ToTable;
use crate::worker::Work;

pub(crate) struct Policy {
    pub(crate) question: Question,
    pub(crate) target: PolicyTarget,
    pub(crate) decider: Arc<dyn Decider>,
    pub(crate) timeout: Duration,
    /// The process's: set when it ends.
    pub(crate) process: watch::Receiver<Option<CancelCause>>,
}

impl std::fmt::Debug for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Policy")
            .field("question", &self.question)
            .finish_non_exhaustive()
    }
}

/// An open question. However it is dropped, the table hears a verdict.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) key: Key,
    /// `None` once the verdict is given.
    pub(crate) arrival: Option<PolicyArrival>,
    pub(crate) table: mpsc::UnboundedSender<ToTable>,
}

impl Question {
    fn verdict(mut self, decision: Option<Decision>) {
        self.give(decision);
    }

    fn give(&mut self, decision: Option<Decision>) {
        if let Some(arrival) = self.arrival.take() {
            let verdict = ToTable::Verdict {
                key: self.key.clone(),
                arrival: Box::new(arrival),
                decision,
            };
            // Without a table the processes have failed, and there is nobody to answer for.
            let _ = self.table.send(verdict);
        }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.give(Some(Decision::not_allowed()));
    }
}

impl Policy {
    /// The request's.
    pub(crate) fn span(&self) -> Span {
        let arrival = self.question.arrival.as_ref();
        arrival.map_or_else(Span::none, |arrival| arrival.served.span().clone())
    }
}

impl Work for Policy {
    /// In this priority: the connection ended (no answer), the process did, the decision, the timeout. The cause is
    /// recorded before the decision's future is dropped.
    async fn run(self) {
        let Self {
            question,
            target,
            decider,
            timeout,
            mut process,
        } = self;
        let Some(link) = question
            .arrival
            .as_ref()
            .map(|arrival| arrival.link.clone())
        else {
            return;
        };
        let (cause, cancelled) = Cancelled::new();
        let mut deciding = decider.decide(target, cancelled);
        let decision = tokio::select! {
            biased;
            () = link.ended() => {
                cause.send_replace(Some(CancelCause::ConnectionClosed));
                None
            }
            ended = process_ended(&mut process) => {
                cause.send_replace(Some(ended));
                Some(Decision::not_allowed())
            }
            decision = &mut deciding => Some(decision.checked()),
            () = tokio::time::sleep(timeout) => {
                cause.send_replace(Some(CancelCause::TimedOut));
                Some(Decision::not_allowed())
            }
        };
        drop(deciding);
        question.verdict(decision);
    }
}

async fn process_ended(process: &mut watch::Receiver<Option<CancelCause>>) -> CancelCause {
    match process.wait_for(Option::is_some).await.as_deref() {
        Ok(Some(cause)) => *cause,
        // The entry went without a word.
        Ok(None) | Err(_) => CancelCause::ProcessCancelled,
    }
}
