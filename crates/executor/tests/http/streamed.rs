//! Bodies that come as notifications.

use std::time::Duration;

use mainstay_executor::notice_sink::NoticeSink;
use mainstay_wire::extension::CancelHttpParams;
use mainstay_wire::limits;
use serde_json::json;
use tokio::sync::mpsc;

use crate::{Connection, headers};

#[tokio::test]
async fn t41_streamed() {
    let mut c = Connection::new().await;
    let head = c.stream("/plain", json!({ "streamResponse": true })).await;
    assert_eq!((head.status, head.body_base64.len()), (200, 0));
    assert_eq!(c.rest(1).await, (b"hello http".to_vec(), None));

    let head = c.stream("/stream", json!({ "streamResponse": true })).await;
    assert_eq!(headers(&head), [("transfer-encoding", "chunked")]);
    for part in ["part0;", "part1;", "part2;"] {
        assert_eq!(&*c.delta().await.delta_base64, part.as_bytes());
    }
    assert_eq!(c.rest(4).await, (Vec::new(), None));

    assert_eq!(
        c.stream("/404", json!({ "streamResponse": true }))
            .await
            .status,
        404
    );
    assert_eq!(c.rest(1).await, (Vec::new(), None));
    c.stream("/abort", json!({ "streamResponse": true })).await;
    let broken = Some("error decoding response body".to_owned());
    assert_eq!(c.rest(1).await, (b"partial".to_vec(), broken.clone()));
    c.stream(
        "/slowstream",
        json!({ "streamResponse": true, "timeoutMs": 100 }),
    )
    .await;
    assert_eq!(c.rest(1).await, (b"x".to_vec(), broken));
    let head = c
        .stream(
            "/redirect",
            json!({ "streamResponse": true, "redirectPolicy": "stop" }),
        )
        .await;
    assert_eq!(head.status, 302);
    assert_eq!(c.rest(1).await, (Vec::new(), None));
}

#[tokio::test]
async fn t41_an_active_id_is_taken_for_streams_only() {
    let mut c = Connection::new().await;
    c.stream("/slowstream", json!({ "streamResponse": true }))
        .await;
    let error = c
        .get("/plain", json!({ "streamResponse": true }))
        .await
        .unwrap_err();
    let text = "http/request streamResponse requestId `r` is already active";
    assert_eq!((error.code, error.message.as_str()), (-32602, text));
    assert_eq!(c.answer("/plain", json!({})).await.status, 200);
    c.stream(
        "/plain",
        json!({ "streamResponse": true, "requestId": "other" }),
    )
    .await;
    c.exchanges.cancel(&CancelHttpParams {
        request_id: "r".into(),
    });
}

/// A peer that hears a frame and does not let the executor go on.
#[derive(Clone)]
struct Stubborn(mpsc::UnboundedSender<String>);

impl NoticeSink for Stubborn {
    async fn send_notice(&self, frame: String) -> bool {
        let last = frame.contains(r#""done":true"#);
        self.0.send(frame).unwrap();
        if last {
            std::future::pending().await
        }
        true
    }
}

#[tokio::test]
async fn an_id_is_free_no_later_than_its_end_is_told() {
    let mut c = Connection::new().await;
    let exchange = c
        .get("/plain", json!({ "streamResponse": true }))
        .await
        .unwrap();
    let (sender, mut frames) = mpsc::unbounded_channel();
    let running = tokio::spawn(exchange.body.unwrap().run(Stubborn(sender)));
    while !frames.recv().await.unwrap().contains(r#""done":true"#) {}
    c.stream("/plain", json!({ "streamResponse": true })).await;
    assert_eq!(c.rest(1).await.0, b"hello http");
    running.abort();
}

#[tokio::test]
async fn an_id_is_free_when_the_peer_hears_of_the_end() {
    let mut c = Connection::new().await;
    for _ in 0..100 {
        c.stream("/plain", json!({ "streamResponse": true })).await;
        c.rest(1).await;
    }
    // Also after a stream that never began.
    c.get(
        "/plain",
        json!({ "url": "http://127.0.0.1:1/", "streamResponse": true }),
    )
    .await
    .unwrap_err();
    drop(c.get("/plain", json!({ "streamResponse": true })));
    c.stream("/plain", json!({ "streamResponse": true })).await;
}

#[tokio::test]
async fn limit_delta() {
    let mut c = Connection::new().await;
    let size = 3 * limits::HTTP_DELTA + 5;
    c.stream(&format!("/big/{size}"), json!({ "streamResponse": true }))
        .await;
    let (body, error) = c.rest(1).await;
    assert_eq!((body.len(), error), (size, None));
}

#[tokio::test]
async fn limit_streams() {
    let mut c = Connection::new().await;
    let mut waiting = Vec::new();
    for number in 0..limits::HTTP_STREAMS {
        waiting.push(c.get(
            "/gate",
            json!({ "streamResponse": true, "requestId": number.to_string() }),
        ));
    }
    let error = c
        .get(
            "/plain",
            json!({ "streamResponse": true, "requestId": "more" }),
        )
        .await
        .unwrap_err();
    let text = "at most 256 http/request streams may be active per connection";
    assert_eq!((error.code, error.message.as_str()), (-32603, text));
    assert_eq!(c.answer("/plain", json!({})).await.status, 200);
    waiting.pop();
    c.stream(
        "/plain",
        json!({ "streamResponse": true, "requestId": "more" }),
    )
    .await;
}

#[tokio::test]
async fn a_stream_can_be_cancelled() {
    let mut c = Connection::new().await;
    c.stream("/slowstream", json!({ "streamResponse": true }))
        .await;
    assert_eq!(&*c.delta().await.delta_base64, b"x");
    c.exchanges.cancel(&CancelHttpParams {
        request_id: "r".into(),
    });
    let (_, error) = c.rest(2).await;
    assert_eq!(error.as_deref(), Some("http/request was cancelled"));
    c.stream("/plain", json!({ "streamResponse": true })).await;
    assert_eq!(c.rest(1).await.0, b"hello http");
}

#[tokio::test]
async fn t42_exchanges_end_with_their_connection() {
    let mut c = Connection::new().await;
    let buffered = tokio::spawn(c.get("/gate", json!({})));
    let exchange = c
        .get("/slowstream", json!({ "streamResponse": true }))
        .await
        .unwrap();
    let body = tokio::spawn(exchange.body.unwrap().run(c.peer.clone()));
    c.server.until_requests(2).await;
    drop(std::mem::take(&mut c.exchanges));
    buffered.await.unwrap().unwrap_err();
    drop(c.frames);
    tokio::time::timeout(Duration::from_secs(20), body)
        .await
        .unwrap()
        .unwrap();
}

/// A peer that does not read holds its own stream up, and nothing is read from the server for it meanwhile.
#[tokio::test]
async fn a_slow_peer_slows_the_server_down() {
    let mut c = Connection::new().await;
    let size = 40 * limits::MIB;
    c.stream(&format!("/big/{size}"), json!({ "streamResponse": true }))
        .await;
    let first = c.delta().await.delta_base64.len();
    // Another request of the same connection is served.
    assert_eq!(c.answer("/plain", json!({})).await.status, 200);
    let (body, error) = c.rest(2).await;
    assert_eq!((first + body.len(), error), (size, None));
}
