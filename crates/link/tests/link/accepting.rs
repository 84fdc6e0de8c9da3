//! The HTTP side of accepting (protocol.md 1.1, transcript 80), and what a stranger can make it hold.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use http_body_util::BodyExt;
use hyper::{StatusCode, body::Incoming};
use mainstay_link::{
    Limits,
    accept::{self, ServeLimits},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, oneshot},
    time::{Instant, pause},
};

use crate::support::{exchange, serve, upgrade_request};

async fn status_and_body(address: SocketAddr, request: &str) -> (String, String) {
    let (head, mut tcp) = exchange(address, request).await;
    let length = head
        .to_lowercase()
        .split_once("content-length: ")
        .and_then(|(_, rest)| rest.split("\r\n").next()?.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    tcp.read_exact(&mut body).await.unwrap();
    let status = head[9..12].to_owned();
    (status, String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn requests_that_are_no_upgrade_are_told_what_is_missing() {
    let (address, _sockets) = serve(Limits::direct(), ServeLimits::default()).await;
    let full = upgrade_request("");
    let cases = [
        (
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(),
            "400",
            "Connection header did not include 'upgrade'",
        ),
        (
            full.replace("Upgrade: WebSocket\r\n", ""),
            "400",
            "`Upgrade` header did not include 'websocket'",
        ),
        (
            full.replace("Version: 13", "Version: 12"),
            "400",
            "`Sec-WebSocket-Version` header did not include '13'",
        ),
        (
            full.replace("Sec-WebSocket-Key", "X-Key"),
            "400",
            "`Sec-WebSocket-Key` header missing",
        ),
        (
            full.replace("GET", "POST"),
            "405",
            "Request method must be `GET`",
        ),
        (upgrade_request("Origin: http://x\r\n"), "403", ""),
        (upgrade_request("Origin:\r\n"), "403", ""),
    ];
    for (request, status, body) in cases {
        let answer = status_and_body(address, &request).await;
        assert_eq!(answer, (status.to_owned(), body.to_owned()), "{request}");
    }
}

#[tokio::test]
async fn an_upgrade_negotiates_nothing() {
    let (address, mut sockets) = serve(Limits::direct(), ServeLimits::default()).await;
    let asked = "Sec-WebSocket-Protocol: foo\r\nSec-WebSocket-Extensions: permessage-deflate\r\n";
    let (head, _tcp) = exchange(address, &upgrade_request(asked)).await;
    let head = head.to_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    // The example of RFC 6455 section 1.3.
    assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"));
    assert!(
        !head.contains("protocol:") && !head.contains("extensions"),
        "{head}"
    );
    assert!(sockets.recv().await.is_some());
}

#[tokio::test]
async fn frames_sent_together_with_the_upgrade_request_are_not_lost() {
    let (address, mut sockets) = serve(Limits::direct(), ServeLimits::default()).await;
    let mut request = upgrade_request("").into_bytes();
    request.extend_from_slice(b"\x81\x82\0\0\0\0{}");
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(&request).await.unwrap();
    let mut link = mainstay_link::Link::from(sockets.recv().await.unwrap());
    assert_eq!(link.source.recv().await.unwrap().unwrap(), "{}");
}

#[tokio::test]
async fn a_stranger_that_sends_no_request_is_cut_off() {
    let limits = ServeLimits::default();
    let (address, _sockets) = serve(Limits::direct(), limits).await;
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.write_all(b"GET / HTTP/1.1\r\nX-Slow: ").await.unwrap();
    pause();
    let started = Instant::now();
    let mut answer = Vec::new();
    let _ = tcp.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
    let second = Duration::from_secs(1);
    assert!((limits.head_within..limits.head_within + second).contains(&started.elapsed()));
}

#[tokio::test]
async fn a_head_above_its_limit_is_refused() {
    let (address, _sockets) = serve(Limits::direct(), ServeLimits::default()).await;
    let header = format!("X-Big: {}\r\n", "x".repeat(20_000));
    let (head, _tcp) = exchange(address, &upgrade_request(&header)).await;
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
}

#[tokio::test]
async fn strangers_above_the_limit_wait_and_upgraded_ones_do_not_count() {
    let limits = ServeLimits {
        connections: 1,
        ..ServeLimits::default()
    };
    let (address, mut sockets) = serve(Limits::direct(), limits).await;
    let (_head, first) = exchange(address, &upgrade_request("")).await;
    let _first_socket = sockets.recv().await.unwrap();
    // The first is a WebSocket now, so the second is served beside it.
    let (_head, second) = exchange(address, "GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
    // The second stays with HTTP, so the third waits until it is gone.
    let third = tokio::spawn(async move { exchange(address, &upgrade_request("")).await });
    pause();
    let waits = tokio::time::timeout(Duration::from_secs(1), sockets.recv()).await;
    assert!(waits.is_err());
    drop(second);
    assert!(sockets.recv().await.is_some());
    third.await.unwrap();
    drop(first);
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_cut_off() {
    let limits = ServeLimits::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // Answers once the whole body is there, which it never is.
    let service = async |request: hyper::Request<Incoming>, _peer| {
        let _ = request.into_body().collect().await;
        accept::answer(StatusCode::OK, "")
    };
    let service = move |request, peer| service(request, peer);
    tokio::spawn(accept::serve(
        listener,
        limits,
        service,
        std::future::pending(),
    ));
    let mut tcp = TcpStream::connect(address).await.unwrap();
    let request = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n1";
    tcp.write_all(request).await.unwrap();
    pause();
    let started = Instant::now();
    let mut answer = Vec::new();
    let _ = tcp.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
    let second = Duration::from_secs(1);
    let limit = limits.request_within;
    assert!((limit..limit + second).contains(&started.elapsed()));
}

#[tokio::test]
async fn a_server_that_stops_answers_what_it_has_begun() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let (begun, mut beginning) = mpsc::channel(1);
    let go = Arc::new(Semaphore::new(0));
    let service = {
        let go = go.clone();
        move |_request: hyper::Request<Incoming>, _peer| {
            let (begun, go) = (begun.clone(), go.clone());
            async move {
                begun.send(()).await.unwrap();
                go.acquire().await.unwrap().forget();
                accept::answer(StatusCode::OK, "done")
            }
        }
    };
    let serving = tokio::spawn(accept::serve(
        listener,
        ServeLimits::default(),
        service,
        async {
            let _ = stopped.await;
        },
    ));
    // One connection has had its answer and idles on.
    go.add_permits(1);
    let (_head, _idle) = exchange(address, "GET / HTTP/1.1\r\nHost: h\r\n\r\n").await;
    beginning.recv().await.unwrap();
    let asking = tokio::spawn(status_and_body_of(
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        address,
    ));
    beginning.recv().await.unwrap();
    stop.send(()).unwrap();
    // The listener is closed first.
    while TcpStream::connect(address).await.is_ok() {}
    assert!(!serving.is_finished());
    pause();
    let started = Instant::now();
    go.add_permits(1);
    assert_eq!(asking.await.unwrap(), ("200".to_owned(), "done".to_owned()));
    serving.await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
}

async fn status_and_body_of(request: &'static str, address: SocketAddr) -> (String, String) {
    status_and_body(address, request).await
}
