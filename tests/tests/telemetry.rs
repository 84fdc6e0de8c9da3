//! What a host's subscriber hears: the spans, events and metrics of `docs/telemetry.md`, and no secret.

use std::sync::Arc;
use std::time::Duration;

use mainstay::{Command, Config, Environment, Link, Network, Trace};
use mainstay_testkit::capture::{Tellings, Told, capture};
use mainstay_testkit::registry_front::Call;
use mainstay_tests::rig::Rig;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

const REQUEST: &str = "codex.exec_server.request";
const CONNECT: &str = "codex.exec_server.remote.connect";
const NOISE: &str = "codex.exec_server.remote.noise.connect";

/// Waits for the telling that `wanted` accepts; keeps everything told meanwhile in `heard`.
async fn hear(tellings: &Tellings, heard: &mut Vec<Told>, wanted: impl Fn(&Told) -> bool) -> Told {
    loop {
        heard.extend(tellings.take("mainstay"));
        if let Some(told) = heard.iter().find(|told| wanted(told)) {
            return told.clone();
        }
        tokio::task::yield_now().await;
    }
}

fn span(name: &str) -> impl Fn(&Told) -> bool {
    move |told| told.is_span && told.name == name
}

fn field<'a>(told: &'a Told, name: &str) -> &'a str {
    told.fields.get(name).map_or("", String::as_str)
}

/// A span with this name, inside exactly these.
fn within(name: &'static str, spans: &[&'static str]) -> impl Fn(&Told) -> bool {
    let spans = spans.to_vec();
    move |told| told.is_span && told.name == name && told.within == spans
}

/// A metric event with this name and label.
fn counted(name: &'static str, label: &'static str, value: &'static str) -> impl Fn(&Told) -> bool {
    move |told| {
        told.target == "mainstay::metrics"
            && field(told, name) == "1"
            && field(told, label) == value
    }
}

/// Everything a client does over a registry: connect, start, write, lose the link, recover, refresh, shut down.
#[tokio::test]
async fn a_host_reads_spans_and_metrics_of_every_step_and_no_secret() {
    let rig = Rig::start().await;
    let _far = rig.executor().await;
    let (subscriber, tellings) = capture();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut heard = Vec::new();

    let environment = rig.environment().await;
    let session = environment.session().await.unwrap();
    let attempt = hear(&tellings, &mut heard, span("mainstay.attempt")).await;
    assert_eq!(field(&attempt, "outcome"), "success");
    let lookup = "codex.exec_server.remote.environment_registry.connect";
    hear(&tellings, &mut heard, within(lookup, &["mainstay.attempt"])).await;
    hear(
        &tellings,
        &mut heard,
        within(CONNECT, &["mainstay.attempt"]),
    )
    .await;
    let relay = ["mainstay.attempt", CONNECT, NOISE];
    let dial = "codex.exec_server.remote.noise.websocket_connect";
    let dial = hear(&tellings, &mut heard, within(dial, &relay)).await;
    assert_eq!(field(&dial, "environment_id"), "env-1");
    let registration = environment.snapshot().await.unwrap().registration.unwrap();
    assert_eq!(field(&dial, "executor_registration_id"), registration);
    let relay = [&relay[..], &[REQUEST]].concat();
    let shake = "codex.exec_server.remote.noise.handshake";
    hear(&tellings, &mut heard, within(shake, &relay)).await;
    let rpc = "codex.exec_server.remote.initialize_rpc";
    hear(&tellings, &mut heard, within(rpc, &relay)).await;

    let mut process = environment
        .exec(
            Command::new("/bin/cat")
                .env("SECRET_VALUE", "env-secret")
                .pipe_stdin(),
        )
        .await
        .unwrap();
    let start = hear(&tellings, &mut heard, |told| {
        told.is_span && field(told, "method") == "process/start"
    })
    .await;
    assert_eq!(start.name, REQUEST);
    assert_eq!(start.within, ["codex.exec_server.process_start"]);
    let answer = hear(&tellings, &mut heard, |told| {
        told.name == "response received" && told.within == [&start.within[..], &[REQUEST]].concat()
    })
    .await;
    assert_eq!(field(&answer, "outcome"), "success");
    assert!(
        field(&answer, "reader_to_caller_ns")
            .parse::<u64>()
            .unwrap()
            > 0
    );
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"stdin-secret").await.unwrap();
    stdin.flush().await.unwrap();
    let requests = "monotonic_counter.exec_server_client_requests_total";
    for method in ["initialize", "process/start", "process/write"] {
        hear(&tellings, &mut heard, counted(requests, "method", method)).await;
    }

    session.disconnect_for_test();
    let recovery = hear(&tellings, &mut heard, span("mainstay.recovery")).await;
    assert_eq!(field(&recovery, "outcome"), "success");
    assert_eq!(recovery.within, Vec::<&str>::new());
    hear(
        &tellings,
        &mut heard,
        within(lookup, &["mainstay.recovery"]),
    )
    .await;
    environment.refresh().await.unwrap();
    let refresh = hear(&tellings, &mut heard, span("mainstay.refresh")).await;
    assert_eq!(field(&refresh, "outcome"), "success");
    let status = ["mainstay.refresh"];
    hear(&tellings, &mut heard, within(REQUEST, &status)).await;
    let operations = "monotonic_counter.mainstay_operations_total";
    for kind in ["attempt", "recovery", "refresh"] {
        hear(&tellings, &mut heard, counted(operations, "kind", kind)).await;
    }

    let id = session.id().to_owned();
    drop((process, stdin, session));
    environment.shutdown().await;
    heard.extend(tellings.take("mainstay"));
    let everything = format!("{heard:?}");
    for secret in [
        secrecy::ExposeSecret::expose_secret(&rig.harness_token()),
        "Bearer",
        "env-secret",
        "stdin-secret",
        "c3RkaW4tc2VjcmV0",
        "SECRET_VALUE",
        "/bin/cat",
        &id,
    ] {
        assert!(!everything.contains(secret), "{secret}");
    }
    let urls = heard.iter().flat_map(|told| told.fields.values());
    for value in urls.filter(|value| value.contains("://")) {
        assert!(!value.contains('?'), "{value}");
    }
}

/// A recovery that runs out of time says what used it up.
#[tokio::test]
async fn a_recovery_that_times_out_names_the_phase() {
    let rig = Rig::start().await;
    let _far = rig.executor().await;
    let (subscriber, tellings) = capture();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut heard = Vec::new();
    let environment = rig.builder().recover_for(Duration::from_millis(20));
    let environment = environment.spawn().await.unwrap();
    let session = environment.session().await.unwrap();
    let hold = rig.front.hold_next(Call::Connect);
    session.disconnect_for_test();
    let timeouts = "monotonic_counter.mainstay_recovery_timeouts_total";
    hear(
        &tellings,
        &mut heard,
        counted(timeouts, "phase", "recovery_deadline"),
    )
    .await;
    let recovery = hear(&tellings, &mut heard, span("mainstay.recovery")).await;
    assert_eq!(field(&recovery, "outcome"), "failure");
    drop(hold);
}

/// An executor on a link in memory, which the test speaks for.
struct Peer(Link);

impl Peer {
    async fn next(&mut self) -> Value {
        let message = self.0.source.recv().await.unwrap().unwrap();
        serde_json::from_slice(&message).unwrap()
    }

    async fn send(&mut self, message: Value) {
        self.0.sink.send(message.to_string()).await.unwrap();
        self.0.sink.flush().await.unwrap();
    }
}

/// The trace context goes along with every request; each request of the executor has a span with its result.
#[tokio::test]
async fn requests_carry_the_trace_context_and_inbound_ones_have_a_span_with_their_result() {
    let (subscriber, tellings) = capture();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut heard = Vec::new();
    let (near, far) = mainstay_link::pair();
    let mut peer = Peer(far);
    let source = || {
        Some(Trace {
            traceparent: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into()),
            tracestate: None,
        })
    };
    let environment = Environment::builder()
        .socket(near)
        .config(Config::default())
        .trace_source(Arc::new(source))
        .spawn()
        .await
        .unwrap();
    let using = tokio::spawn({
        let environment = environment.clone();
        async move {
            let rules = serde_json::from_value(json!({
                "enabled": true, "enableSocks5": false, "enableSocks5Udp": false,
                "allowUpstreamProxy": false, "dangerouslyAllowAllUnixSockets": false,
                "mode": "full", "allowLocalBinding": false,
            }))
            .unwrap();
            let undecided = |_, _| std::future::pending();
            let network = Network::proxy(rules).decider(undecided, Duration::from_secs(60));
            let command = Command::new("sh").process_id("p").network(network);
            environment.exec(command).await.unwrap()
        }
    });
    let initialize = peer.next().await;
    let trace = json!({"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"});
    assert_eq!(initialize["trace"], trace);
    let info = json!({"shell": {"name": "sh", "path": "/bin/sh"}, "cwd": "file:///"});
    peer.send(
        json!({"id": initialize["id"], "result": {"sessionId": "s", "environmentInfo": info}}),
    )
    .await;
    assert!(peer.next().await.get("trace").is_none(), "a notification");
    let start = peer.next().await;
    assert_eq!(start["trace"], trace);
    peer.send(json!({"id": start["id"], "result": {"processId": "p"}}))
        .await;
    let process = using.await.unwrap();

    let asked = |id: u64, process: &str| {
        json!({"id": id, "method": "network/policyRequest", "params": {
            "processId": process, "request": {"protocol": "http", "host": "example.org", "port": 80},
        }})
    };
    peer.send(json!({"id": 1, "method": "other/secret-method", "params": {}}))
        .await;
    assert_eq!(peer.next().await["error"]["code"], -32601);
    peer.send(asked(2, "unknown")).await;
    assert_eq!(peer.next().await["result"]["decision"]["type"], "deny");
    peer.send(asked(3, "p")).await;
    peer.send(json!({"id": 4, "method": "network/policyRequest", "params": 1}))
        .await;
    assert_eq!(peer.next().await["error"]["code"], -32602);
    // The link goes while the third is undecided.
    drop(peer);
    let inbound = |result: &'static str, name: &'static str, count: usize| {
        move |heard: &[Told]| {
            let of = |told: &&Told| {
                told.name == "codex.exec_server.inbound_request"
                    && field(told, "otel.name") == name
                    && field(told, "result") == result
            };
            heard.iter().filter(of).count() == count
        }
    };
    for wanted in [
        inbound("error", "", 1),
        inbound("success", "network/policyRequest", 1),
        inbound("error", "network/policyRequest", 1),
        inbound("disconnected", "network/policyRequest", 1),
    ] {
        while !wanted(&heard) {
            heard.extend(tellings.take("mainstay"));
            tokio::task::yield_now().await;
        }
    }
    let everything = format!("{heard:?}");
    assert!(!everything.contains("secret-method"));
    assert!(!everything.contains("example.org"));
    drop(process);
}
