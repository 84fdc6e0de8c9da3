//! Calls on one link: admission, order, cancellation (`session.md` 4).

use std::time::Duration;

use mainstay::{Delivery, Environment, ErrorKind, HttpRequest};
use serde_json::{Value, json};

use crate::script::Peer;

async fn spawn_status(
    environment: &Environment,
) -> tokio::task::JoinHandle<Result<(), mainstay::Error>> {
    let session = environment.session().await.unwrap();
    tokio::spawn(async move { session.status().await })
}

#[tokio::test]
async fn a26_answers_match_by_id_whatever_their_order() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let files = environment.files();
    let ask = |path: &'static str| {
        let files = files.clone();
        tokio::spawn(async move { files.canonicalize(path).await.unwrap().to_string() })
    };
    let first = ask("/1");
    let one = peer.expect("fs/canonicalize").await;
    let second = ask("/2");
    let two = peer.expect("fs/canonicalize").await;
    for asked in [&two, &one] {
        peer.answer(&asked.id, json!({"path": asked.params["path"]}))
            .await;
    }
    assert_eq!(first.await.unwrap(), "file:///1");
    assert_eq!(second.await.unwrap(), "file:///2");
}

#[tokio::test]
async fn a24_the_1025th_call_fails_at_once_and_one_cleanup_passes_before_the_link_goes() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let files = environment.files();
    let mut calls = Vec::new();
    for _ in 0..1024 {
        let files = files.clone();
        calls.push(tokio::spawn(async move { files.canonicalize("/x").await }));
    }
    for _ in 0..1024 {
        peer.expect("fs/canonicalize").await;
    }
    // Answers to ids that were never used free nothing.
    for id in 10_000..10_010 {
        peer.answer(&json!(id), json!({"path": "file:///x"})).await;
    }
    let refused = files.canonicalize("/x").await.unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::Protocol { .. }),
        "{refused}"
    );

    // The probe has its own slot (W23).
    let status = spawn_status(&environment).await;
    let asked = peer.expect("environment/status").await;
    peer.answer(&asked.id, json!({"status": "ready"})).await;
    status.await.unwrap().unwrap();

    // Clean-up calls: the first takes the reserved slot, the second finds none and closes the link.
    let one = start_terminate(&session);
    peer.expect("process/terminate").await;
    let two = start_terminate(&session);
    while peer.next().await.is_some() {}
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.delivery(), Some(Delivery::Unknown));
    }
    one.abort();
    two.abort();
}

/// A clean-up call.
fn start_terminate(
    session: &mainstay::Session,
) -> tokio::task::JoinHandle<Result<bool, mainstay::Error>> {
    let session = session.clone();
    tokio::spawn(async move { session.terminate("p").await })
}

#[tokio::test(start_paused = true)]
async fn a25_calls_have_no_deadline_and_dropped_ones_free_their_slot() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let files = environment.files();
    let waiting = tokio::spawn({
        let files = files.clone();
        async move { files.canonicalize("/x").await }
    });
    let asked = peer.expect("fs/canonicalize").await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(!waiting.is_finished());
    peer.answer(&asked.id, json!({"path": "file:///x"})).await;
    waiting.await.unwrap().unwrap();

    // Far more dropped calls than there are slots.
    for _ in 0..3000 {
        let call = tokio::spawn({
            let files = files.clone();
            async move { files.canonicalize("/x").await }
        });
        peer.expect("fs/canonicalize").await;
        call.abort();
        let _ = call.await;
    }
    let last = tokio::spawn(async move { files.canonicalize("/x").await });
    let asked = peer.expect("fs/canonicalize").await;
    peer.answer(&asked.id, json!({"path": "file:///x"})).await;
    last.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_message_above_64_mib_is_refused_before_sending_and_the_link_lives() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let request = HttpRequest::new("POST", "http://localhost/").body(vec![0; 50 << 20]);
    let refused = environment.http(request).await.unwrap_err();
    assert!(refused.to_string().contains("64 MiB"), "{refused}");
    let status = spawn_status(&environment).await;
    let asked = peer.expect("environment/status").await;
    peer.answer(&asked.id, json!({"status": "ready"})).await;
    status.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_unknown_request_of_the_executor_is_refused_and_the_link_lives() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    peer.request(json!("odd"), "no/such", Value::Null).await;
    let answer = peer.next().await.unwrap();
    assert_eq!(answer["id"], "odd");
    assert_eq!(answer["error"]["code"], -32601);
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no/such")
    );
    let status = spawn_status(&environment).await;
    let asked = peer.expect("environment/status").await;
    peer.answer(&asked.id, json!({"status": "ready"})).await;
    status.await.unwrap().unwrap();
}

#[tokio::test]
async fn a8_metadata_from_initialize_is_never_asked_for_again() {
    let (environment, session, _peer) = Peer::session(json!({})).await;
    assert_eq!(session.info().await.unwrap().executor_version, "0.171.0");
    assert_eq!(
        environment.info().await.unwrap().executor_version,
        "0.171.0"
    );
}

#[tokio::test]
async fn a8_metadata_is_asked_for_once_and_outlives_the_link() {
    let (environment, mut peer) = Peer::environment().await;
    let connecting = tokio::spawn({
        let environment = environment.clone();
        async move { environment.session().await }
    });
    let asked = peer.expect("initialize").await;
    peer.answer(&asked.id, json!({"sessionId": "s"})).await;
    peer.expect_notice("initialized").await;
    let session = connecting.await.unwrap().unwrap();
    let info = tokio::spawn({
        let session = session.clone();
        async move { session.info().await }
    });
    let asked = peer.expect("environment/info").await;
    peer.answer(
        &asked.id,
        json!({"shell": {"name": "sh", "path": "/bin/sh"}}),
    )
    .await;
    let info = info.await.unwrap().unwrap();
    drop(peer);
    assert_eq!(session.info().await.unwrap(), info);
}
