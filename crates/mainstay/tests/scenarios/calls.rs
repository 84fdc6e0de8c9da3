//! Calls on one link: admission, order, cancellation (`session.md` 4).

use std::time::Duration;

use futures_util::FutureExt;
use mainstay::{ConnState, Delivery, Environment, Error, ErrorKind, Files, HttpRequest, Session};
use mainstay_wire::PathUri;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::script::Peer;

fn canonicalize(files: &Files) -> JoinHandle<Result<PathUri, Error>> {
    let files = files.clone();
    tokio::spawn(async move { files.canonicalize("/x").await })
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
    let calls: Vec<_> = (0..1024).map(|_| canonicalize(&files)).collect();
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
    peer.settle(&session).await;

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

/// A session in memory, for tests whose time stands still.
async fn in_memory() -> (Environment, Session, Peer) {
    Peer::session_on(Peer::in_memory(), Environment::builder(), json!({})).await
}

/// As many calls as there are slots are admitted, and answered.
async fn all_slots_are_free(files: &Files, peer: &mut Peer) {
    let calls: Vec<_> = (0..1024).map(|_| canonicalize(files)).collect();
    for _ in 0..1024 {
        let asked = peer.expect("fs/canonicalize").await;
        peer.answer(&asked.id, json!({"path": "file:///x"})).await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a25_calls_have_no_deadline_of_their_own() {
    let (environment, _session, mut peer) = in_memory().await;
    let waiting = canonicalize(&environment.files());
    let asked = peer.expect("fs/canonicalize").await;
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(!waiting.is_finished());
    peer.answer(&asked.id, json!({"path": "file:///x"})).await;
    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn a25_dropped_calls_free_their_slot_whether_they_wait_or_are_queued() {
    let (environment, _session, mut peer) = in_memory().await;
    let files = environment.files();
    // Far more than there are slots, each of which waits for its answer.
    for _ in 0..3000 {
        let call = canonicalize(&files);
        peer.expect("fs/canonicalize").await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    all_slots_are_free(&files, &mut peer).await;

    // Nobody reads: most of them are still to be written, and then never are.
    let queued: Vec<_> = (0..1024).map(|_| canonicalize(&files)).collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let refused = files.canonicalize("/y").now_or_never();
    let refused = refused.expect("every slot is taken").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Protocol { .. }));
    for call in queued {
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
    }
    let last = tokio::spawn(async move { files.canonicalize("/last").await });
    let mut written = 0;
    let asked = loop {
        let asked = peer.expect("fs/canonicalize").await;
        if asked.params["path"] == "file:///last" {
            break asked;
        }
        written += 1;
    };
    assert!(written < 1024, "{written}");
    peer.answer(&asked.id, json!({"path": "file:///last"}))
        .await;
    last.await.unwrap().unwrap();
    all_slots_are_free(&environment.files(), &mut peer).await;
}

#[tokio::test(start_paused = true)]
async fn w21_a_clean_up_call_of_a_fail_fast_view_does_not_wait_for_a_whole_recovery() {
    let (environment, _session, peer) = in_memory().await;
    let session = environment.fail_fast().session().await.unwrap();
    let mut states = environment.watch().await.unwrap();
    drop(peer);
    states
        .wait_for(|state| *state == ConnState::Recovering)
        .await
        .unwrap();
    let asked = tokio::time::Instant::now();
    let error = session.terminate("p").await.unwrap_err();
    assert_eq!(error.delivery(), Some(Delivery::NotSent), "{error}");
    assert_eq!(asked.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a25_a_call_with_a_limit_leaves_nothing_behind_when_it_ends() {
    let (environment, session, mut peer) = in_memory().await;
    for _ in 0..1100 {
        let (status, _) = tokio::join!(session.status(), peer.expect("environment/status"));
        let failed = status.unwrap_err();
        assert!(
            matches!(failed.kind(), ErrorKind::RpcTimeout { .. }),
            "{failed}"
        );
    }
    all_slots_are_free(&environment.files(), &mut peer).await;
}

/// A request that no message can carry.
fn too_long() -> HttpRequest {
    HttpRequest::new("POST", "http://localhost/").body(vec![0; 50 << 20])
}

#[tokio::test]
async fn a27_parameters_that_no_message_can_carry_are_refused_and_leave_nothing_behind() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let refused = environment.http(too_long()).await.unwrap_err();
    assert!(refused.to_string().contains("64 MiB"), "{refused}");
    assert_eq!(refused.delivery(), None);
    // Nothing was sent: the probe comes first. No slot was kept: as many calls as ever are admitted.
    peer.settle(&session).await;
    let files = environment.files();
    let calls: Vec<_> = (0..1024).map(|_| canonicalize(&files)).collect();
    for _ in 0..1024 {
        let asked = peer.expect("fs/canonicalize").await;
        peer.answer(&asked.id, json!({"path": "file:///x"})).await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // A closed link is the reason before any other.
    session.disconnect_for_test();
    let closed = environment.fail_fast().http(too_long()).await.unwrap_err();
    assert_eq!(closed.delivery(), Some(Delivery::NotSent), "{closed}");
}

#[tokio::test]
async fn a28_inbound_frames_are_bounded_by_what_they_are() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let asking = tokio::spawn(async move {
        let request = HttpRequest::new("GET", "http://localhost/");
        (environment.http(request).await, environment)
    });
    let asked = peer.expect("http/request").await;
    let body = crate::script::base64(&"x".repeat(12 << 20));
    peer.answer(
        &asked.id,
        json!({"status": 200, "headers": [], "bodyBase64": body}),
    )
    .await;
    let (answer, _environment) = asking.await.unwrap();
    assert_eq!(answer.unwrap().body.len(), 12 << 20, "answers may be large");
    peer.settle(&session).await;

    let padding = "x".repeat(9 << 10);
    for frame in [
        json!({"id": 1, "method": "network/policyRequest", "params": padding}),
        json!({"method": "some/thing", "params": padding}),
        json!({"method": "process/exited", "params": {"processId": "x".repeat(2 << 20)}}),
    ] {
        let (_environment, _session, mut peer) = Peer::session(json!({})).await;
        peer.send(frame).await;
        assert!(peer.next().await.is_none(), "the link is closed");
    }
}

#[tokio::test]
async fn a8_metadata_from_initialize_is_never_asked_for_again() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    assert_eq!(session.info().await.unwrap().executor_version, "0.171.0");
    assert_eq!(
        environment.info().await.unwrap().executor_version,
        "0.171.0"
    );
    // The probe is the first request.
    peer.settle(&session).await;
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
    let ask = || {
        let clone = session.clone();
        tokio::spawn(async move { clone.info().await })
    };
    let (one, two) = (ask(), ask());
    let asked = peer.expect("environment/info").await;
    let info = json!({"shell": {"name": "sh", "path": "/bin/sh"}});
    peer.answer(&asked.id, info).await;
    let info = one.await.unwrap().unwrap();
    assert_eq!(two.await.unwrap().unwrap(), info);
    peer.settle(&session).await;
    drop(peer);
    assert_eq!(session.info().await.unwrap(), info);
    assert_eq!(environment.info().await.unwrap(), info);
}
