//! Policy questions and audit records of the executor (`session.md` 10).

use mainstay_wire::envelope;
use mainstay_wire::limits::POLICY_PROCESS_ID_BYTES;
use mainstay_wire::network::{Decision, PolicyAnswer, PolicyDecisionParams};

use super::Desk;
use crate::outlet::Key;
use crate::policy::{self, Question};
use crate::ports::PolicyArrival;

impl Desk {
    /// A question about a connection: who decides, if anybody (10.4).
    pub(super) fn policy(&mut self, arrival: PolicyArrival) {
        let params = &arrival.params;
        let well_formed = (1..=POLICY_PROCESS_ID_BYTES).contains(&params.process_id.len())
            && params.request.host_is_valid();
        let asked = self
            .entries
            .get_key_value(params.process_id.as_str())
            .filter(|_| well_formed)
            .and_then(|(id, entry)| entry.decider().map(|decider| (id, entry, decider)));
        match (asked, self.myself.upgrade()) {
            (Some((id, entry, (decider, timeout))), Some(table)) => {
                let key = Key {
                    process_id: id.clone(),
                    number: entry.number,
                };
                self.questions.push(policy::Arguments {
                    target: params.request.clone(),
                    decider,
                    timeout,
                    process: entry.cancelled(),
                    question: Question {
                        key,
                        arrival: Some(arrival),
                        table,
                    },
                });
            }
            (Some(_), None) | (None, _) => answer(&arrival, Decision::not_allowed()),
        }
    }

    /// Answers if the process is still the same and the link still there (10.6).
    pub(super) fn verdict(
        &mut self,
        key: &Key,
        arrival: &PolicyArrival,
        decision: Option<Decision>,
    ) {
        let same = self
            .entries
            .get(&key.process_id)
            .is_some_and(|entry| entry.number == key.number);
        if let Some(decision) = decision.filter(|_| same) {
            answer(arrival, decision);
        }
    }

    /// A record of the process's proxy. The identity is the one we were given, never the executor's (10.9).
    pub(super) fn audit(&self, record: &PolicyDecisionParams) {
        let identity = self
            .entries
            .get(record.process_id.as_str())
            .and_then(|entry| entry.audit_identity());
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
fn answer(arrival: &PolicyArrival, decision: Decision) {
    let message = envelope::success(&arrival.id, &PolicyAnswer { decision });
    if !arrival.link.is_open() || arrival.link.control().try_send(message).is_err() {
        tracing::debug!("a policy answer could not be sent");
    }
}
