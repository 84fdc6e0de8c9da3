//! Retirement rejects what is pending, whatever its streams do (`session.md` 4.7, 7).

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use mainstay::{Command, Delivery, Environment, Error, Session};
use mainstay_session::Event;
use serde_json::json;

use crate::script::Peer;

/// Polls a future once, so that it sends; it does not run by itself.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        Poll::Ready(match std::pin::Pin::new(&mut *future).poll(cx) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

/// Everything the peer has sent before is with its receiver afterwards.
async fn settle(session: &Session, peer: &mut Peer) {
    let session = session.clone();
    let status = tokio::spawn(async move { session.status().await });
    let asked = peer.expect("environment/status").await;
    peer.answer(&asked.id, json!({"status": "ready"})).await;
    status.await.unwrap().unwrap();
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
        assert!(poll_once(&mut call).await.is_none());
        let asked = peer.expect("fs/remove").await;
        if delivered {
            peer.answer(&asked.id, json!({})).await;
            settle(&session, &mut peer).await;
        }
        retire(&environment, &session).await;
        if !delivered {
            peer.answer(&asked.id, json!({})).await;
        }
        replaced(&call.await.unwrap_err());
        assert!(!held.is_closed(), "the cleanup is still held");
        drop(held);
    }
}

#[tokio::test]
async fn s18_a_pending_start_fails_before_the_streams_are_cleaned_up() {
    for delivered in [false, true] {
        let (environment, session, mut peer) = Peer::session(json!({})).await;
        let held = session.hold_streams_for_test();
        let mut call = Box::pin(environment.exec(Command::new("x").process_id("p")));
        // Registered with the table and handed to its own activity, which sends it.
        let asked = loop {
            assert!(poll_once(&mut call).await.is_none());
            let next = Box::pin(peer.expect("process/start"));
            if let Ok(asked) = tokio::time::timeout(std::time::Duration::from_millis(1), next).await
            {
                break asked;
            }
        };
        if delivered {
            peer.answer(&asked.id, json!({"processId": "p"})).await;
            settle(&session, &mut peer).await;
        }
        retire(&environment, &session).await;
        replaced(&call.await.unwrap_err());
        assert!(!held.is_closed());
        drop(held);
    }
}

#[tokio::test]
async fn handles_of_a_retired_session_stay_failed() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let starting = tokio::spawn({
        let environment = environment.clone();
        async move { environment.exec(Command::new("x").process_id("p")).await }
    });
    let asked = peer.expect("process/start").await;
    peer.answer(&asked.id, json!({"processId": "p"})).await;
    let mut process = starting.await.unwrap().unwrap();
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
