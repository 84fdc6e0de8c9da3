//! Records of the processes' network decisions: only about our own processes, under the identity that we gave them
//! (`session.md` 10.9).

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use mainstay::{Command, Network};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::deciding::rules;
use crate::script::Peer;

/// One record, by field.
type Record = BTreeMap<&'static str, String>;

/// Hands what is logged for the audit to the test.
struct Listener(mpsc::UnboundedSender<Record>);

struct Fields(Record);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl tracing::Subscriber for Listener {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "mainstay::network_audit"
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields(Record::new());
        event.record(&mut fields);
        let _ = self.0.send(fields.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn decision(process: &str) -> Value {
    json!({
        "processId": process, "timestamp": "2026-01-01T00:00:00.000Z", "scope": "domain", "decision": "deny",
        "source": "baseline_policy", "reason": "not_allowed", "protocol": "http", "host": "example.org", "port": 80,
        "policyOverride": false, "identity": {"user": "mallory"}, "user": "mallory",
    })
}

#[tokio::test]
async fn a23_only_records_of_our_processes_are_logged_under_the_identity_we_gave() {
    let (records, mut logged) = mpsc::unbounded_channel();
    let _listening = tracing::subscriber::set_default(Listener(records));
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let identity = BTreeMap::from([("user".to_owned(), "alice".to_owned())]);
    let audited = Network::proxy(rules()).audit(identity);
    let audited = Command::new("x").process_id("audited").network(audited);
    let _audited = peer.start_with(&environment, audited).await;
    let silent = Command::new("x").process_id("silent");
    let silent = silent.network(Network::proxy(rules()));
    let _silent = peer.start_with(&environment, silent).await;

    let mut malformed = decision("audited");
    malformed["scope"] = json!("everything");
    let mut incomplete = decision("audited");
    incomplete.as_object_mut().unwrap().remove("host");
    for record in [
        decision("forged"),
        decision("silent"),
        malformed,
        incomplete,
        decision("audited"),
    ] {
        peer.notify("network/policyDecision", record).await;
    }
    let record = tokio::time::timeout(Duration::from_secs(30), logged.recv())
        .await
        .expect("a record")
        .unwrap();
    assert!(record["identity"].contains("alice"), "{record:?}");
    let all = format!("{record:?}");
    assert!(!all.contains("mallory"), "{all}");
    for (field, expected) in [
        ("host", "example.org"),
        ("decision", "deny"),
        ("port", "80"),
    ] {
        assert!(record[field].contains(expected), "{record:?}");
    }
    // It was the first, and there is no other; none of them cost the link.
    peer.settle(&session).await;
    assert!(logged.try_recv().is_err());
}
