//! Answers that carry the whole body.

use std::time::Duration;

use mainstay_wire::extension::CancelHttpParams;
use mainstay_wire::limits;
use serde_json::{Value, json};

use crate::{Connection, headers};

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
