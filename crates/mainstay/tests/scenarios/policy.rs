//! Inbound network-policy requests: who may ask, and what is answered (`session.md` 10.1 to 10.4 and 10.7).

use std::time::Duration;

use mainstay::{CancelCause, Cancelled, Command, Decision, Network, PolicyTarget};
use serde_json::{Value, json};

use crate::deciding::{Question, ask, ask_for, denied, network, rules, start};
use crate::script::{Peer, exec};

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(600);

#[tokio::test]
async fn a22_decisions_are_passed_on_and_what_is_malformed_is_denied() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (network, mut questions) = network(NEVER);
    let _process = start(&environment, &mut peer, network).await;

    let long = "x".repeat(1025);
    let decisions = [
        (Decision::Allow, json!({"type": "allow"})),
        (
            Decision::Deny {
                reason: "because".into(),
            },
            json!({"type": "deny", "reason": "because"}),
        ),
        (
            Decision::Ask {
                reason: "who knows".into(),
            },
            json!({"type": "ask", "reason": "who knows"}),
        ),
        (
            Decision::Ask { reason: long },
            json!({"type": "deny", "reason": "not_allowed"}),
        ),
        (
            Decision::Deny {
                reason: "two\nlines".into(),
            },
            json!({"type": "deny", "reason": "not_allowed"}),
        ),
    ];
    // The first id is 0, which is one like any other.
    for (id, (decision, expected)) in (0..).zip(decisions) {
        ask(&mut peer, json!(id), "example.org").await;
        let Question {
            target,
            cancelled,
            reply,
        } = questions.recv().await.unwrap();
        assert_eq!((target.host.as_str(), target.port), ("example.org", 80));
        reply.send(decision).unwrap();
        let answer = peer.expect_answer(id).await;
        assert_eq!(answer["result"], json!({"decision": expected}));
        assert_eq!(cancelled.cause(), None, "a decided question was not closed");
    }
}

#[tokio::test]
async fn a22_a_malformed_target_and_an_unknown_process_are_denied_without_asking() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (network, mut questions) = network(NEVER);
    let _process = start(&environment, &mut peer, network).await;
    let _undecided = peer.start(&environment, "without-decider").await;
    let (host, process) = ("x".repeat(254), "p".repeat(257));
    for (id, (process, host)) in (0..).zip([
        ("p", "two words"),
        ("p", ""),
        ("p", "bell\u{7}"),
        ("p", host.as_str()),
        ("", "example.org"),
        (process.as_str(), "example.org"),
        ("unknown", "example.org"),
        ("without-decider", "example.org"),
    ]) {
        ask_for(&mut peer, json!(id), process, host).await;
        denied(&mut peer, id).await;
    }
    assert!(questions.try_recv().is_err(), "the decider was not asked");

    // Params that are none: an error, and the slot is free again.
    for _ in 0..300 {
        peer.request(json!(3), "network/policyRequest", json!({"processId": 7}))
            .await;
        assert_eq!(peer.expect_answer(3).await["error"]["code"], -32602);
    }
    ask(&mut peer, json!(3), "example.org").await;
    assert!(questions.recv().await.is_some());
}

#[tokio::test]
async fn a22_the_257th_undecided_request_is_denied_at_once_and_the_others_end_with_the_process() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (network, mut questions) = network(NEVER);
    let process = start(&environment, &mut peer, network).await;
    let mut open = Vec::new();
    for id in 0..256 {
        ask(&mut peer, json!(id), "example.org").await;
        open.push(questions.recv().await.unwrap());
    }
    ask(&mut peer, json!(256), "example.org").await;
    denied(&mut peer, 256).await;
    assert!(questions.try_recv().is_err(), "the decider was not asked");

    // Nobody holds the process any more: its questions end without an answer.
    drop(process);
    for Question { cancelled, .. } in &mut open {
        assert_eq!(cancelled.closed().await, CancelCause::ProcessCancelled);
    }
    ask(&mut peer, json!(257), "example.org").await;
    denied(&mut peer, 257).await;
}

#[tokio::test]
async fn slots_are_shared_by_the_links_of_a_session_and_come_back_with_the_link() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (network, mut questions) = network(NEVER);
    let _process = start(&environment, &mut peer, network).await;
    for round in 0..3 {
        let mut open = Vec::new();
        for id in 0..256 {
            ask(&mut peer, json!(id), "example.org").await;
            open.push(questions.recv().await.unwrap());
        }
        ask(&mut peer, json!(256), "example.org").await;
        denied(&mut peer, 256).await;
        drop(peer);
        for Question { cancelled, .. } in &mut open {
            let cause = cancelled.closed().await;
            assert_eq!(cause, CancelCause::ConnectionClosed, "round {round}");
        }
        peer = Peer::resume(&environment).await;
        let read = peer.expect("process/read").await;
        peer.answer(&read.id, crate::replays::answer(&[], 1)).await;
    }
}

#[tokio::test]
async fn an_id_that_is_used_twice_ends_the_link() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (network, mut questions) = network(NEVER);
    let _process = start(&environment, &mut peer, network).await;
    ask(&mut peer, json!(1), "example.org").await;
    let open = questions.recv().await.unwrap();
    // Once it is answered, the id is free.
    open.reply.send(Decision::Allow).unwrap();
    peer.expect_answer(1).await;
    ask(&mut peer, json!(1), "example.org").await;
    let _open = questions.recv().await.unwrap();
    ask(&mut peer, json!(1), "example.org").await;
    assert!(peer.next().await.is_none());
}

#[tokio::test]
async fn an_id_that_is_no_number_from_zero_up_ends_the_link() {
    for id in [json!(-1), json!("odd")] {
        let (_environment, _session, mut peer) = Peer::session(json!({})).await;
        ask(&mut peer, id, "example.org").await;
        assert!(peer.next().await.is_none());
    }
}

#[tokio::test]
async fn an_unknown_request_of_the_executor_is_refused_and_the_link_lives() {
    let (_environment, session, mut peer) = Peer::session(json!({})).await;
    peer.request(json!("odd"), "no/such", Value::Null).await;
    let answer = peer.next().await.unwrap();
    assert_eq!(answer["id"], "odd");
    assert_eq!(answer["error"]["code"], -32601);
    let text = answer["error"]["message"].as_str().unwrap();
    assert!(text.contains("no/such"), "{text}");
    peer.settle(&session).await;
}

#[tokio::test]
async fn a_panicking_decider_denies_and_costs_nothing_else() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let decider = |_: PolicyTarget, _: Cancelled| async { panic!("decider") };
    let network = Network::proxy(rules()).decider(decider, NEVER);
    let _process = start(&environment, &mut peer, network).await;
    ask(&mut peer, json!(1), "example.org").await;
    denied(&mut peer, 1).await;
    peer.settle(&session).await;
}

#[tokio::test]
async fn decider_and_timeout_belong_together() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let network = Network::proxy(rules()).decider(
        |_: PolicyTarget, _: Cancelled| async { Decision::Allow },
        Duration::ZERO,
    );
    let refused = exec(&environment, Command::new("x").network(network))
        .await
        .unwrap()
        .unwrap_err();
    assert!(matches!(
        refused.kind(),
        mainstay::ErrorKind::Protocol { .. }
    ));
    // The probe is the first message after that: nothing was sent.
    peer.settle(&session).await;
}

#[tokio::test]
async fn crashes_beyond_the_budget_end_the_session_with_that_cause() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let decider = |_: PolicyTarget, _: Cancelled| async { panic!("decider") };
    let network = Network::proxy(rules()).decider(decider, NEVER);
    let mut process = start(&environment, &mut peer, network).await;
    for id in 0..4 {
        ask(&mut peer, json!(id), "example.org").await;
    }
    while peer.next().await.is_some() {}
    assert!(matches!(process.wait().await, mainstay::Exit::Lost(_)));
    let why = session.failure().unwrap();
    assert!(why.to_string().contains("crashed too often"), "{why}");
}
