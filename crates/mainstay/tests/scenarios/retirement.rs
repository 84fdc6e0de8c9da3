//! Retirement rejects what is pending, whatever its streams do (`session.md` 4.7, 7).

use std::future::Future;
use std::pin::pin;

use mainstay::{Command, Delivery, Environment, Error, Session};
use mainstay_session::Event;
use serde_json::json;

use crate::script::{Asked, Peer};

/// The request that a call sends when it is polled, without its end.
async fn asked<F: Future + Unpin>(call: &mut F, peer: &mut Peer, method: &str) -> Asked {
    tokio::select! {
        biased;
        _ = call => panic!("{method} has ended"),
        asked = peer.expect(method) => asked,
    }
}

async fn retire(environment: &Environment, session: &Session) {
    environment.step_for_test(Event::RetireForTest(session.generation_for_test()));
    environment.snapshot().await.unwrap();
}

fn replaced(error: &Error) {
    assert!(
        error.to_string().contains("the executor was replaced"),
        "{error}"
    );
    assert_eq!(error.delivery(), Some(Delivery::Unknown));
}

#[tokio::test]
async fn s17_a_pending_mutation_fails_before_the_streams_are_cleaned_up() {
    for delivered in [false, true] {
        let (environment, session, mut peer) = Peer::session(json!({})).await;
        let held = session.hold_streams_for_test();
        let files = environment.files();
        let mut call = pin!(files.remove("/file"));
        let asked = asked(&mut call, &mut peer, "fs/remove").await;
        if delivered {
            peer.answer(&asked.id, json!({})).await;
            peer.settle(&session).await;
        }
        retire(&environment, &session).await;
        if !delivered {
            peer.answer(&asked.id, json!({})).await;
        }
        replaced(&call.await.unwrap_err());
        assert!(!held.is_closed(), "the cleanup is still held");
        held.send(()).unwrap();
        environment.shutdown().await;
    }
}

#[tokio::test]
async fn s18_a_pending_start_fails_before_the_streams_are_cleaned_up() {
    for delivered in [false, true] {
        let (environment, session, mut peer) = Peer::session(json!({})).await;
        let held = session.hold_streams_for_test();
        let mut call = Box::pin(environment.exec(Command::new("x").process_id("p")));
        let asked = asked(&mut call, &mut peer, "process/start").await;
        if delivered {
            peer.answer(&asked.id, json!({"processId": "p"})).await;
            peer.settle(&session).await;
        }
        retire(&environment, &session).await;
        replaced(&call.await.unwrap_err());
        assert!(!held.is_closed(), "the cleanup is still held");
        held.send(()).unwrap();
        environment.shutdown().await;
    }
}

#[tokio::test]
async fn handles_of_a_retired_session_stay_failed() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    retire(&environment, &session).await;
    assert!(peer.next().await.is_none(), "its link is closed");
    assert!(matches!(process.wait().await, mainstay::Exit::Lost(_)));
    for _ in 0..2 {
        assert_eq!(
            process.terminate().await.unwrap_err().delivery(),
            Some(Delivery::NotSent)
        );
    }
}
