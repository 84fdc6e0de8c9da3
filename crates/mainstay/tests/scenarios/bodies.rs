//! HTTP body streams (`session.md` 11).

use futures_util::StreamExt;
use mainstay::{Environment, Error, HttpRequest, HttpStream};
use serde_json::json;

use crate::script::{Asked, Peer, base64};

fn stream(environment: &Environment) -> tokio::task::JoinHandle<Result<HttpStream, Error>> {
    let environment = environment.clone();
    tokio::spawn(async move {
        environment
            .http_stream(HttpRequest::new("GET", "http://localhost/"))
            .await
    })
}

async fn headers(peer: &mut Peer, asked: &Asked) {
    peer.answer(
        &asked.id,
        json!({"status": 200, "headers": [], "bodyBase64": ""}),
    )
    .await;
}

async fn delta(peer: &mut Peer, asked: &Asked, seq: u64, chunk: &str, done: bool) {
    let params = json!({
        "requestId": asked.params["requestId"], "seq": seq, "deltaBase64": base64(chunk), "done": done, "error": null,
    });
    peer.notify("http/request/bodyDelta", params).await;
}

async fn read(mut stream: HttpStream) -> Result<String, (String, Error)> {
    let mut all = String::new();
    while let Some(item) = stream.body.next().await {
        match item {
            Ok(bytes) => all.push_str(std::str::from_utf8(&bytes).unwrap()),
            Err(error) => return Err((all, error)),
        }
    }
    Ok(all)
}

#[tokio::test]
async fn a35_bodies_have_generated_ids_and_arrive_in_order() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    for number in 1..=2 {
        let streaming = stream(&environment);
        let asked = peer.expect("http/request").await;
        assert_eq!(asked.params["requestId"], format!("http-{number}"));
        assert_eq!(asked.params["streamResponse"], true);
        headers(&mut peer, &asked).await;
        delta(&mut peer, &asked, 1, "one ", false).await;
        delta(&mut peer, &asked, 2, "two", true).await;
        let stream = streaming.await.unwrap().unwrap();
        assert_eq!(read(stream).await.unwrap(), "one two");
        // Late ones are ignored.
        delta(&mut peer, &asked, 3, "three", false).await;
    }
}

#[tokio::test]
async fn a35_a_lost_link_ends_a_body_with_an_error_after_what_had_arrived() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let streaming = stream(&environment);
    let asked = peer.expect("http/request").await;
    headers(&mut peer, &asked).await;
    for seq in 1..=256 {
        delta(&mut peer, &asked, seq, "x", false).await;
    }
    let stream = streaming.await.unwrap().unwrap();
    drop(peer);
    let (read, error) = read(stream).await.unwrap_err();
    assert_eq!(read.len(), 256);
    assert!(error.delivery().is_some(), "{error}");
}

#[tokio::test]
async fn a35_a_request_cancelled_before_its_headers_leaves_no_stream() {
    let (environment, session, mut peer) = Peer::session(json!({})).await;
    let cancelled = stream(&environment);
    let first = peer.expect("http/request").await;
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    // What comes for it is ignored, and the next stream has its own.
    headers(&mut peer, &first).await;
    delta(&mut peer, &first, 1, "late", true).await;
    let streaming = stream(&environment);
    let second = peer.expect("http/request").await;
    assert_eq!(second.params["requestId"], "http-2");
    headers(&mut peer, &second).await;
    delta(&mut peer, &first, 2, "later", true).await;
    delta(&mut peer, &second, 1, "mine", true).await;
    assert_eq!(
        read(streaming.await.unwrap().unwrap()).await.unwrap(),
        "mine"
    );
    peer.settle(&session).await;
}

#[tokio::test]
async fn a35_a_complete_body_that_nobody_reads_costs_nothing() {
    let (environment, session, mut peer) = Peer::session(json!({"mainstayHttpCancel": true})).await;
    let streaming = stream(&environment);
    let asked = peer.expect("http/request").await;
    headers(&mut peer, &asked).await;
    delta(&mut peer, &asked, 1, "all of it", true).await;
    peer.settle(&session).await;
    drop(streaming.await.unwrap().unwrap());
    // It is over: nothing is cancelled, and what still comes for it is ignored.
    delta(&mut peer, &asked, 2, "late", false).await;
    peer.settle(&session).await;
}

#[tokio::test]
async fn a35_a_body_that_nobody_reads_overflows_and_says_so() {
    let mut config = mainstay::Config::default();
    config.session.body_frames = Some(256);
    let (environment, _session, mut peer) = Peer::session_with(config, json!({})).await;
    let streaming = stream(&environment);
    let asked = peer.expect("http/request").await;
    headers(&mut peer, &asked).await;
    for seq in 1..=1024 {
        delta(&mut peer, &asked, seq, "x", false).await;
    }
    let stream = streaming.await.unwrap().unwrap();
    // A second exchange on the same link: every delta before it has been routed.
    let buffered = tokio::spawn({
        let environment = environment.clone();
        async move {
            environment
                .http(HttpRequest::new("GET", "http://localhost/"))
                .await
        }
    });
    let other = peer.expect("http/request").await;
    assert!(other.params.get("streamResponse").is_none());
    headers(&mut peer, &other).await;
    buffered.await.unwrap().unwrap();
    let (read, error) = read(stream).await.unwrap_err();
    assert_eq!(read.len(), 256);
    assert!(error.to_string().contains("overflow"), "{error}");
}

#[tokio::test]
async fn a_body_with_a_hole_is_never_a_clean_end() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let streaming = stream(&environment);
    let asked = peer.expect("http/request").await;
    headers(&mut peer, &asked).await;
    delta(&mut peer, &asked, 1, "one", false).await;
    delta(&mut peer, &asked, 3, "three", true).await;
    let (read, error) = read(streaming.await.unwrap().unwrap()).await.unwrap_err();
    assert_eq!(read, "one");
    assert!(error.to_string().contains("http-1"), "{error}");
}

#[tokio::test]
async fn a_dropped_body_is_cancelled_where_the_executor_can() {
    let (environment, _session, mut peer) =
        Peer::session(json!({"mainstayHttpCancel": true})).await;
    let streaming = stream(&environment);
    let asked = peer.expect("http/request").await;
    headers(&mut peer, &asked).await;
    drop(streaming.await.unwrap().unwrap());
    let cancel = peer.expect("mainstay/cancelHttp").await;
    assert_eq!(cancel.params["requestId"], "http-1");
}
