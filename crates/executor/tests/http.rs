//! `http/request`, row by row of protocol.md 10.
#![allow(missing_docs)]

use std::time::Duration;

use mainstay_executor::http::{Exchange, Exchanges, HttpClient};
use mainstay_executor::lane::Lane;
use mainstay_executor::notice_sink::NoticeSink;
use mainstay_testkit::http_server::HttpServer;
use mainstay_wire::extension::CancelHttpParams;
use mainstay_wire::http::{BodyDelta, BodyDeltaParams, HttpAnswer};
use mainstay_wire::{RpcError, limits};
use serde_json::{Value, json};
use tokio::sync::mpsc;

#[derive(Clone)]
struct Peer(mpsc::Sender<String>);

impl NoticeSink for Peer {
    async fn send_notice(&self, frame: String) -> bool {
        self.0.send(frame).await.is_ok()
    }
}

/// One connection of an executor, without the connection.
struct Connection {
    client: HttpClient,
    exchanges: Exchanges,
    bodies: Lane,
    server: HttpServer,
    peer: Peer,
    frames: mpsc::Receiver<String>,
}

impl Connection {
    async fn new() -> Self {
        let (sender, frames) = mpsc::channel(1);
        Self {
            client: HttpClient::new(),
            exchanges: Exchanges::default(),
            bodies: Lane::new((2, 1)),
            server: HttpServer::start().await.unwrap(),
            peer: Peer(sender),
            frames,
        }
    }

    fn begin(
        &mut self,
        params: Value,
    ) -> impl Future<Output = Result<Exchange, RpcError>> + Send + use<> {
        self.exchanges.request(
            &self.client,
            self.bodies.clone(),
            serde_json::from_value(params).unwrap(),
        )
    }

    /// A request for `path`, with further members.
    fn get(
        &mut self,
        path: &str,
        members: Value,
    ) -> impl Future<Output = Result<Exchange, RpcError>> + Send + use<> {
        let mut params = json!({ "method": "GET", "url": self.server.url(path), "requestId": "r" });
        params
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        self.begin(params)
    }

    async fn answer(&mut self, path: &str, members: Value) -> HttpAnswer {
        let exchange = self.get(path, members).await.unwrap();
        assert!(exchange.body.is_none());
        exchange.answer
    }

    async fn failure(&mut self, params: Value) -> (i64, String) {
        let error = self.begin(params).await.unwrap_err();
        (error.code, error.message)
    }

    async fn stream(&mut self, path: &str, members: Value) -> HttpAnswer {
        let exchange = self.get(path, members).await.unwrap();
        assert!(exchange.held.is_none());
        tokio::spawn(exchange.body.unwrap().run(self.peer.clone()));
        exchange.answer
    }

    async fn delta(&mut self) -> BodyDeltaParams {
        let frame = self.frames.recv().await.unwrap();
        let message: Value = serde_json::from_str(&frame).unwrap();
        assert_eq!(
            message["method"],
            <BodyDelta as mainstay_wire::Notice>::METHOD
        );
        assert!(
            message["params"].get("error").is_some(),
            "error is there, be it null"
        );
        serde_json::from_value(message["params"].clone()).unwrap()
    }

    /// The rest of a body, and what it ended with.
    async fn rest(&mut self, first_seq: u64) -> (Vec<u8>, Option<String>) {
        let mut body = Vec::new();
        let mut seq = first_seq;
        loop {
            let delta = self.delta().await;
            assert_eq!(delta.seq, seq);
            seq += 1;
            assert!(delta.delta_base64.len() <= limits::HTTP_DELTA);
            if delta.done {
                assert!(delta.delta_base64.is_empty());
                return (body, delta.error);
            }
            assert!(!delta.delta_base64.is_empty() && delta.error.is_none());
            body.extend_from_slice(&delta.delta_base64);
        }
    }
}

fn headers(answer: &HttpAnswer) -> Vec<(&str, &str)> {
    answer
        .headers
        .iter()
        .map(|header| (header.name.as_str(), header.value.as_str()))
        .collect()
}

#[tokio::test]
async fn t40_buffered() {
    let mut c = Connection::new().await;
    let multi = [("content-length", "10"), ("x-multi", "a"), ("x-multi", "b")];

    let plain = c.answer("/plain", json!({})).await;
    assert_eq!((plain.status, headers(&plain)), (200, multi.to_vec()));
    assert_eq!(&*plain.body_base64, b"hello http");
    let head = c.answer("/plain", json!({ "method": "HEAD" })).await;
    assert_eq!(
        (head.status, headers(&head), head.body_base64.len()),
        (200, multi.to_vec(), 0)
    );

    let echo = c
        .answer(
            "/echo?a=1",
            json!({
                "method": "POST",
                "headers": [
                    { "name": "X-A", "value": "1" },
                    { "name": "X-A", "value": "2" },
                    { "name": "content-type", "value": "text/plain" },
                ],
                "bodyBase64": "Ym9keSE=",
            }),
        )
        .await;
    assert_eq!(echo.status, 201);
    let sent = r#"{"method": "POST", "path": "/echo?a=1", "headers": [["x-a", "1"], ["x-a", "2"], ["content-type", "text/plain"], ["accept", "*/*"], ["accept-encoding", "zstd,gzip"], ["content-length", "5"]], "body": "body!"}"#;
    assert_eq!(std::str::from_utf8(&echo.body_base64).unwrap(), sent);

    assert_eq!(
        &*c.answer("/redirect", json!({})).await.body_base64,
        b"hello http"
    );
    let stopped = c
        .answer("/redirect", json!({ "redirectPolicy": "stop" }))
        .await;
    assert_eq!(stopped.status, 302);
    assert_eq!(
        headers(&stopped),
        [("location", "/plain"), ("content-length", "0")]
    );
    assert_eq!(c.answer("/404", json!({})).await.status, 404);
}

#[tokio::test]
async fn t40_value_env_var() {
    let mut c = Connection::new().await;
    let header = |variable: &str| json!({ "headers": [{ "name": "X-H", "value": "p:", "valueEnvVar": variable }] });
    let echo = c.answer("/echo", header("PATH")).await;
    let echo = std::str::from_utf8(&echo.body_base64).unwrap();
    let value = format!("p:{}", std::env::var("PATH").unwrap());
    assert!(echo.contains(&format!(r#"["x-h", "{value}"]"#)), "{echo}");

    let refused = async |c: &mut Connection, variable| {
        let error = c.get("/echo", header(variable)).await.unwrap_err();
        (error.code, error.message)
    };
    let missing = "http/request header X-H requires executor environment variable MAINSTAY_NO_SUCH";
    assert_eq!(
        refused(&mut c, "MAINSTAY_NO_SUCH").await,
        (-32602, missing.into())
    );
    for odd in ["", "A=B", "A\0B"] {
        let text = format!("http/request header X-H requires executor environment variable {odd}");
        assert_eq!(refused(&mut c, odd).await, (-32602, text));
    }
    for protected in [
        "CODEX_API_KEY",
        "codex_api_key",
        "AWS_SECRET_ACCESS_KEY",
        "MAINSTAY_TOKEN",
    ] {
        let text =
            format!("http/request header X-H cannot use executor environment variable {protected}");
        assert_eq!(refused(&mut c, protected).await, (-32602, text));
    }
}

#[tokio::test]
async fn t40_failures() {
    let mut c = Connection::new().await;
    let plain = c.server.url("/plain");
    let with = |members: Value| {
        let mut params = json!({ "method": "GET", "url": plain, "requestId": "r" });
        params
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        params
    };
    let expected = [
        (
            json!({ "method": "BAD METHOD" }),
            "http/request method is invalid: invalid HTTP method",
        ),
        (
            json!({ "url": "nope" }),
            "http/request url is invalid: relative URL without a base",
        ),
        (
            json!({ "url": "ftp://x/" }),
            "http/request only supports http and https URLs, got ftp",
        ),
        (
            json!({ "headers": [{ "name": "bad name", "value": "x" }] }),
            "http/request header name is invalid: invalid HTTP header name",
        ),
        (
            json!({ "headers": [{ "name": "x", "value": "a\nb" }] }),
            "http/request header value is invalid for x: failed to parse header value",
        ),
    ];
    for (members, text) in expected {
        assert_eq!(c.failure(with(members)).await, (-32602, text.to_owned()));
    }
    let text = "http/request failed: route-aware request timed out";
    assert_eq!(
        c.failure(with(json!({ "timeoutMs": 0 }))).await,
        (-32603, text.to_owned())
    );
    let gate = c.server.url("/gate");
    let text = format!("http/request failed: error sending request for url ({gate})");
    assert_eq!(
        c.failure(with(json!({ "url": gate, "timeoutMs": 50 })))
            .await,
        (-32603, text)
    );
    let text = "failed to read http/request response body: error decoding response body";
    let abort = c.server.url("/abort");
    assert_eq!(
        c.failure(with(json!({ "url": abort }))).await,
        (-32603, text.to_owned())
    );
    let closed = "http://127.0.0.1:1/";
    let text = format!("http/request failed: error sending request for url ({closed})");
    assert_eq!(
        c.failure(with(json!({ "url": closed }))).await,
        (-32603, text)
    );
    // As long as can be said is no limit.
    assert_eq!(
        c.answer("/plain", json!({ "timeoutMs": u64::MAX }))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn limit_buffered_body() {
    let mut c = Connection::new().await;
    let fits = c
        .answer(&format!("/big/{}", limits::HTTP_BODY), json!({}))
        .await;
    assert_eq!(fits.body_base64.len(), limits::HTTP_BODY);
    let message =
        mainstay_wire::envelope::success(&mainstay_wire::envelope::RequestId::Int(1), &fits);
    assert!(message.len() <= limits::MESSAGE);
    drop((fits, message));
    let error = c
        .get(&format!("/big/{}", limits::HTTP_BODY + 1), json!({}))
        .await
        .unwrap_err();
    let text = format!(
        "failed to read http/request response body: it has more than {} bytes, ask for it with streamResponse",
        limits::HTTP_BODY
    );
    assert_eq!((error.code, error.message), (-32603, text));
}

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
async fn a_buffered_request_can_be_cancelled() {
    let mut c = Connection::new().await;
    let first = tokio::spawn(c.get("/gate", json!({})));
    let second = tokio::spawn(c.get("/gate", json!({})));
    let other = tokio::spawn(c.get("/gate", json!({ "requestId": "other" })));
    c.server.until_requests(3).await;
    c.exchanges.cancel(&CancelHttpParams {
        request_id: "r".into(),
    });
    for cancelled in [first, second] {
        let error = cancelled.await.unwrap().unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (-32603, "http/request was cancelled")
        );
    }
    c.server.open_gate();
    assert_eq!(other.await.unwrap().unwrap().answer.status, 200);
    // Over, or never there.
    c.exchanges.cancel(&CancelHttpParams {
        request_id: "other".into(),
    });
    c.exchanges.cancel(&CancelHttpParams {
        request_id: "none".into(),
    });
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

/// Bodies that wait to be queued take places; a stream needs none.
#[tokio::test]
async fn bodies_that_are_not_taken_hold_up_only_further_ones() {
    let mut c = Connection::new().await;
    let large = format!("/big/{}", 2 * limits::MIB);
    let first = c.get(&large, json!({})).await.unwrap();
    let mut second = tokio::spawn(c.get(&large, json!({})));
    let third = c.get("/plain", json!({}));
    c.stream("/plain", json!({ "streamResponse": true })).await;
    assert_eq!(c.rest(1).await.0, b"hello http");
    assert!(
        tokio::time::timeout(Duration::from_millis(60), &mut second)
            .await
            .is_err()
    );
    drop(first);
    assert_eq!(
        second.await.unwrap().unwrap().answer.body_base64.len(),
        2 * limits::MIB
    );
    assert_eq!(third.await.unwrap().answer.status, 200);
}
