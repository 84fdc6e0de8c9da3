//! What a lost link makes of a call: it is sent once, and its caller told that nobody knows (`session.md` 4, 8.2).

use std::pin::Pin;

use mainstay::{Command, Delivery, Environment, Error, HttpRequest, Session, Signal};
use serde_json::json;

use crate::script::{Peer, exec};

type Calling = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// A call, by the method it sends.
type Called = (&'static str, fn(Environment) -> Calling);

macro_rules! calling {
    ($method:literal, $environment:ident => $call:expr) => {
        ($method, |$environment| {
            Box::pin(async move { $call.await.map(|_| ()) })
        })
    };
}

/// Seven file calls and both forms of HTTP.
fn calls() -> Vec<Called> {
    vec![
        calling!("fs/getMetadata", e => e.files().metadata("/x")),
        calling!("fs/writeFile", e => e.files().write("/x", "y")),
        calling!("fs/createDirectory", e => e.files().create_dir("/x")),
        calling!("fs/canonicalize", e => e.files().canonicalize("/x")),
        calling!("fs/readDirectory", e => e.files().read_dir("/x")),
        calling!("fs/remove", e => e.files().remove("/x")),
        calling!("fs/copy", e => e.files().copy("/x", "/y", false)),
        calling!("http/request", e => e.http(HttpRequest::new("GET", "http://localhost/"))),
        calling!("http/request", e => e.http_stream(HttpRequest::new("GET", "http://localhost/"))),
    ]
}

/// Nothing but probes is sent on the link that has come back: by the second one, whoever waited for it has used it.
async fn nothing_else(session: &Session, peer: &mut Peer) {
    peer.settle(session).await;
    peer.settle(session).await;
}

#[tokio::test]
async fn a36_a_call_whose_link_is_lost_is_not_sent_again() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    for (method, call) in calls() {
        let calling = tokio::spawn(call(environment.clone()));
        peer.expect(method).await;
        drop(peer);
        peer = Peer::resume(&environment).await;
        nothing_else(&session, &mut peer).await;
        let failed = calling.await.unwrap().unwrap_err();
        assert_eq!(failed.delivery(), Some(Delivery::Unknown), "{method}");
        let text = failed.to_string();
        assert!(text.contains("transport disconnected"), "{method}: {text}");
    }
}

#[tokio::test]
async fn a36_a_terminate_and_a_signal_are_sent_once() {
    for method in ["process/terminate", "process/signal"] {
        let (environment, session, mut peer) = Peer::session(json!({})).await;
        let process = peer.start(&environment, "p").await;
        let calling = tokio::spawn(async move {
            let called = match method {
                "process/terminate" => process.terminate().await.map(|_| ()),
                _ => process.signal(Signal::Interrupt).await,
            };
            (called, process)
        });
        peer.expect(method).await;
        drop(peer);
        let mut peer = Peer::resume(&environment).await;
        let read = peer.expect("process/read").await;
        peer.answer(&read.id, crate::replays::answer(&[], 1)).await;
        nothing_else(&session, &mut peer).await;
        let (failed, _process) = calling.await.unwrap();
        let failed = failed.unwrap_err();
        assert_eq!(failed.delivery(), Some(Delivery::Unknown), "{method}");
    }
}

#[tokio::test]
async fn a36_a_start_is_sent_once_and_cleaned_up_after_a_lost_link() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let starting = exec(&environment, Command::new("x").process_id("p"));
    peer.expect("process/start").await;
    drop(peer);
    let error = starting.await.unwrap().unwrap_err();
    assert_eq!(error.delivery(), Some(Delivery::Unknown));
    let mut peer = Peer::resume(&environment).await;
    let terminate = peer.expect("process/terminate").await;
    assert_eq!(terminate.params["processId"], "p");
    // The clean-up is repeated while its transport closes under it, and then no more.
    drop(peer);
    let mut peer = Peer::resume(&environment).await;
    let terminate = peer.expect("process/terminate").await;
    peer.answer(&terminate.id, json!({"running": false})).await;
    peer.settle(&session).await;
}
