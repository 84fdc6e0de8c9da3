//! A process whose connections the test decides about.

use std::time::Duration;

use mainstay::{
    Cancelled, Command, Decision, Environment, Network, PolicyTarget, Process, ProxyMode,
    ProxyRules,
};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::script::Peer;

/// One open question.
pub(crate) struct Question {
    pub(crate) target: PolicyTarget,
    pub(crate) cancelled: Cancelled,
    pub(crate) reply: oneshot::Sender<Decision>,
}

pub(crate) fn rules() -> ProxyRules {
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

/// Hands every question to the test.
pub(crate) fn network(timeout: Duration) -> (Network, mpsc::UnboundedReceiver<Question>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let decider = move |target: PolicyTarget, cancelled: Cancelled| {
        let (reply, decision) = oneshot::channel();
        let _ = sender.send(Question {
            target,
            cancelled,
            reply,
        });
        async move {
            match decision.await {
                Ok(decision) => decision,
                Err(_) => std::future::pending().await,
            }
        }
    };
    (Network::proxy(rules()).decider(decider, timeout), receiver)
}

pub(crate) async fn start(environment: &Environment, peer: &mut Peer, network: Network) -> Process {
    let command = Command::new("x").process_id("p").network(network);
    peer.start_with(environment, command).await
}

pub(crate) async fn ask(peer: &mut Peer, id: Value, host: &str) {
    ask_for(peer, id, "p", host).await;
}

pub(crate) async fn ask_for(peer: &mut Peer, id: Value, process: &str, host: &str) {
    let params =
        json!({"processId": process, "request": {"protocol": "http", "host": host, "port": 80}});
    peer.request(id, "network/policyRequest", params).await;
}

/// The answer to request `id` must be the denial that both sides fall back to.
pub(crate) async fn denied(peer: &mut Peer, id: i64) {
    let answer = peer.expect_answer(id).await;
    let expected = json!({"decision": {"type": "deny", "reason": "not_allowed"}});
    assert_eq!(answer["result"], expected, "request {id}");
}
