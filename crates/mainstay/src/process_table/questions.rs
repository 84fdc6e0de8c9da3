//! Policy questions and audit records of the executor (`session.md` 10).

use mainstay_wire::envelope;
use mainstay_wire::limits::POLICY_PROCESS_ID_BYTES;
use mainstay_wire::network::{Decision, PolicyAnswer, PolicyDecisionParams};

use super::Desk;
use crate::outlet::Key;
use crate::policy::{Policy, Question};
use crate::ports::PolicyArrival;

impl Desk {
    /// A question about a connection: who decides, if anybody (10.4).
    pub(super) fn policy(&mut self, mut arrival: PolicyArrival) {
        let params = &arrival.params;
        let well_formed = (1..=POLICY_PROCESS_ID_BYTES).contains(&params.process_id.len())
            && params.request.host_is_valid();
        let asked = self
            .entries
            .named(&params.process_id)
            .filter(|_| well_formed)
            .and_then(|(key, entry)| Some((key, entry.cancelled(), entry.decider()?)));
        match (asked, self.myself.upgrade()) {
            (Some((key, process, (decider, timeout))), Some(table)) => {
                self.questions.push(Policy {
                    target: params.request.clone(),
                    decider,
                    timeout,
                    process,
                    question: Question {
                        key,
                        arrival: Some(arrival),
                        table,
                    },
                });
            }
            (Some(_), None) | (None, _) => answer(&mut arrival, Decision::not_allowed()),
        }
    }

    /// Answers if the process is still the same and the link still there (10.6).
    pub(super) fn verdict(
        &mut self,
        key: &Key,
        arrival: &mut PolicyArrival,
        decision: Option<Decision>,
    ) {
        if let Some(decision) = decision.filter(|_| self.entries.is_current(key)) {
            answer(arrival, decision);
        }
    }

    /// A record of the process's proxy. The identity is the one we were given, never the executor's (10.9).
    pub(super) fn audit(&self, record: &PolicyDecisionParams) {
        let identity = self
            .entries
            .named(&record.process_id)
            .and_then(|(_, entry)| entry.audit_identity());
        if let Some(identity) = identity.filter(|_| record.is_valid()) {
            tracing::info!(
                target: "mainstay::network_audit",
                ?identity,
                timestamp = record.timestamp,
                scope = record.scope,
                decision = record.decision,
                source = record.source,
                reason = record.reason,
                protocol = record.protocol,
                host = record.host,
                port = record.port,
                method = record.method,
                client = record.client,
                policy_override = record.policy_override,
                "network decision"
            );
        }
    }
}

/// A failure to send an answer is only logged (10.8): the executor denies by itself.
fn answer(arrival: &mut PolicyArrival, decision: Decision) {
    let message = envelope::success(&arrival.id, &PolicyAnswer { decision });
    if arrival.link.is_open() && arrival.link.control().try_send(message).is_ok() {
        arrival.served.success();
    } else {
        tracing::debug!("a policy answer could not be sent");
    }
}
