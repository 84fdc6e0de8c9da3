//! Inbound network-policy requests (`session.md` 10).

use std::time::Duration;

use mainstay::{
    CancelCause, Cancelled, Command, Decision, Environment, Network, PolicyTarget, Process,
    ProxyMode, ProxyRules,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::script::Peer;

fn rules() -> ProxyRules {
    ProxyRules {
        enabled: true,
        enable_socks5: false,
        enable_socks5_udp: false,
        allow_upstream_proxy: false,
        dangerously_allow_all_unix_sockets: false,
        mode: ProxyMode::Full,
        domains: None,
        unix_sockets: None,
        allow_local_binding: false,
        review_domains: None,
        transparent_tcp: None,
    }
}

async fn start(environment: &Environment, peer: &mut Peer, network: Network) -> Process {
    let starting = tokio::spawn({
        let environment = environment.clone();
        async move {
            environment
                .exec(Command::new("x").process_id("p").network(network))
                .await
        }
    });
    let asked = peer.expect("process/start").await;
    peer.answer(&asked.id, json!({"processId": "p"})).await;
    starting.await.unwrap().unwrap()
}

async fn ask(peer: &mut Peer, id: Value, host: &str) {
    let params =
        json!({"processId": "p", "request": {"protocol": "http", "host": host, "port": 80}});
    peer.request(id, "network/policyRequest", params).await;
}

/// A decider that hands every question to the test.
fn asked() -> (
    impl mainstay::Decider,
    mpsc::UnboundedReceiver<(
        PolicyTarget,
        Cancelled,
        tokio::sync::oneshot::Sender<Decision>,
    )>,
) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let decider = move |target: PolicyTarget, cancelled: Cancelled| {
        let (reply, decision) = tokio::sync::oneshot::channel();
        let _ = sender.send((target, cancelled, reply));
        async move {
            match decision.await {
                Ok(decision) => decision,
                Err(_) => std::future::pending().await,
            }
        }
    };
    (decider, receiver)
}

#[tokio::test]
async fn a22_decisions_are_passed_on_and_what_is_malformed_is_denied() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (decider, mut questions) = asked();
    let network = Network::proxy(rules()).decider(decider, Duration::from_secs(60));
    let _process = start(&environment, &mut peer, network).await;

    ask(&mut peer, json!(0), "example.org").await;
    let (target, _cancelled, reply) = questions.recv().await.unwrap();
    assert_eq!((target.host.as_str(), target.port), ("example.org", 80));
    reply
        .send(Decision::Deny {
            reason: "because".into(),
        })
        .unwrap();
    let answer = peer.expect_answer(0).await;
    assert_eq!(
        answer["result"],
        json!({"decision": {"type": "deny", "reason": "because"}})
    );

    ask(&mut peer, json!(1), "two words").await;
    let answer = peer.expect_answer(1).await;
    assert_eq!(
        answer["result"]["decision"],
        json!({"type": "deny", "reason": "not_allowed"})
    );

    ask(&mut peer, json!(2), "example.org").await;
    let (_, _cancelled, reply) = questions.recv().await.unwrap();
    reply
        .send(Decision::Ask {
            reason: "x".repeat(1025),
        })
        .unwrap();
    let answer = peer.expect_answer(2).await;
    assert_eq!(
        answer["result"]["decision"],
        json!({"type": "deny", "reason": "not_allowed"})
    );

    peer.request(json!(3), "network/policyRequest", json!({"processId": 7}))
        .await;
    let answer = peer.expect_answer(3).await;
    assert_eq!(answer["error"]["code"], -32602);
}

#[tokio::test]
async fn a22_the_257th_undecided_request_is_denied_at_once_and_the_others_end_with_the_process() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (decider, mut questions) = asked();
    let network = Network::proxy(rules()).decider(decider, Duration::from_secs(600));
    let process = start(&environment, &mut peer, network).await;
    let mut open = Vec::new();
    for id in 0..256 {
        ask(&mut peer, json!(id), "example.org").await;
        open.push(questions.recv().await.unwrap());
    }
    ask(&mut peer, json!(256), "example.org").await;
    let answer = peer.expect_answer(256).await;
    assert_eq!(answer["result"]["decision"]["reason"], "not_allowed");
    assert!(questions.try_recv().is_err(), "the decider was not asked");

    // Nobody holds the process any more: its questions end without an answer.
    drop(process);
    for (_, cancelled, _reply) in &mut open {
        assert_eq!(cancelled.closed().await, CancelCause::ProcessCancelled);
    }
    ask(&mut peer, json!(257), "example.org").await;
    let answer = peer.expect_answer(257).await;
    assert_eq!(answer["result"]["decision"]["reason"], "not_allowed");
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_takes_too_long_is_a_denial_and_the_decider_learns_why() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (decider, mut questions) = asked();
    let network = Network::proxy(rules()).decider(decider, Duration::from_secs(1));
    let _process = start(&environment, &mut peer, network).await;
    ask(&mut peer, json!(1), "example.org").await;
    let (_, mut cancelled, _reply) = questions.recv().await.unwrap();
    assert_eq!(cancelled.closed().await, CancelCause::TimedOut);
    assert_eq!(
        peer.expect_answer(1).await["result"]["decision"]["reason"],
        "not_allowed"
    );
}

#[tokio::test]
async fn a_lost_link_closes_its_questions_without_an_answer() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (decider, mut questions) = asked();
    let network = Network::proxy(rules()).decider(decider, Duration::from_secs(600));
    let _process = start(&environment, &mut peer, network).await;
    ask(&mut peer, json!(1), "example.org").await;
    let (_, mut cancelled, _reply) = questions.recv().await.unwrap();
    drop(peer);
    assert_eq!(cancelled.closed().await, CancelCause::ConnectionClosed);
}

#[tokio::test]
async fn a_panicking_decider_denies_and_costs_nothing_else() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let decider = |_: PolicyTarget, _: Cancelled| async { panic!("decider") };
    let network = Network::proxy(rules()).decider(decider, Duration::from_secs(60));
    let _process = start(&environment, &mut peer, network).await;
    ask(&mut peer, json!(1), "example.org").await;
    assert_eq!(
        peer.expect_answer(1).await["result"]["decision"]["reason"],
        "not_allowed"
    );
}

#[tokio::test]
async fn an_id_that_is_used_twice_ends_the_link() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let (decider, mut questions) = asked();
    let network = Network::proxy(rules()).decider(decider, Duration::from_secs(600));
    let _process = start(&environment, &mut peer, network).await;
    ask(&mut peer, json!(1), "example.org").await;
    let _open = questions.recv().await.unwrap();
    ask(&mut peer, json!(1), "example.org").await;
    assert!(peer.next().await.is_none());
}

#[tokio::test]
async fn decider_and_timeout_belong_together() {
    let (environment, _session, _peer) = Peer::session(json!({})).await;
    let network = Network::proxy(rules()).decider(
        |_: PolicyTarget, _: Cancelled| async { Decision::Allow },
        Duration::ZERO,
    );
    let refused = environment
        .exec(Command::new("x").network(network))
        .await
        .unwrap_err();
    assert!(matches!(
        refused.kind(),
        mainstay::ErrorKind::Protocol { .. }
    ));
}

#[tokio::test]
async fn crashes_beyond_the_budget_end_the_session_with_that_cause() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let decider = |_: PolicyTarget, _: Cancelled| async { panic!("decider") };
    let network = Network::proxy(rules()).decider(decider, Duration::from_secs(60));
    let mut process = start(&environment, &mut peer, network).await;
    for id in 0..4 {
        ask(&mut peer, json!(id), "example.org").await;
    }
    while peer.next().await.is_some() {}
    assert!(matches!(process.wait().await, mainstay::Exit::Lost(_)));
    let why = session.failure().unwrap();
    assert!(why.to_string().contains("crashed too often"), "{why}");
}
