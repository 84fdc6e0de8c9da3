//! Every way a dial can fail has a name.

use std::{
    io,
    sync::{Arc, mpsc},
    time::Duration,
};

use mainstay_link::{DialError, DialOptions, Limits, Refusal, accept::ServeLimits, dial};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::pause,
};

use crate::support::serve;

/// A server that answers every connection with `answer` and closes it.
async fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut tcp, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = tcp.read(&mut request).await;
            let _ = tcp.write_all(answer.as_bytes()).await;
        }
    });
    format!("ws://{address}")
}

async fn fails(url: &str) -> DialError {
    dial(url, &DialOptions::default()).await.unwrap_err()
}

#[tokio::test]
async fn addresses_that_cannot_be_used() {
    for url in [
        "",
        "127.0.0.1:1",
        "http://127.0.0.1:1",
        "unix:///tmp/x",
        "ws://",
        "ws://user:secret@127.0.0.1:1",
        "ws://127.0.0.1:0",
        "ws://127.0.0.1:99999",
        "ws://[::1",
        "ws://a b",
    ] {
        let error = fails(url).await;
        assert!(matches!(error, DialError::Url(_)), "{url}: {error:?}");
        assert!(!error.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    drop(listener);
    match fails(&url).await {
        DialError::Io(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_peer_that_does_not_answer_the_upgrade() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    pause();
    let limit = Duration::from_secs(10);
    assert!(matches!(fails(&url).await, DialError::Timeout(took) if took == limit));
}

#[tokio::test]
async fn a_refusal_tells_status_time_and_known_reasons() {
    let refused = async |answer| match fails(&answering(answer).await).await {
        DialError::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused("HTTP/1.1 503 No\r\nRetry-After: 7\r\nx-codex-rendezvous-rejection-reason: pod_draining\r\nContent-Length: 0\r\n\r\n").await,
        Refusal { status: 503, retry_after: Some(Duration::from_secs(7)), reason: Some("pod_draining") }
    );
    assert_eq!(
        refused("HTTP/1.1 401 No\r\nRetry-After: soon\r\nx-codex-rendezvous-rejection-reason: <script>\r\nContent-Length: 0\r\n\r\n").await,
        Refusal { status: 401, retry_after: None, reason: None }
    );
    // Redirects are not followed.
    let elsewhere =
        "HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(refused(elsewhere).await.status, 302);
}

#[tokio::test]
async fn a_peer_that_is_no_websocket_or_hangs_up() {
    let nonsense = answering("SSH-2.0-OpenSSH\r\n\r\n").await;
    assert!(matches!(fails(&nonsense).await, DialError::Protocol(_)));
    let wrong_key = "HTTP/1.1 101 Ok\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
    assert!(matches!(
        fails(&answering(wrong_key).await).await,
        DialError::Protocol(_)
    ));
    let silent = answering("").await;
    match fails(&silent).await {
        DialError::Io(error) => assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_peer_without_tls_and_one_that_is_not_trusted() {
    let plain = answering("HTTP/1.1 400 Bad Request\r\n\r\n").await;
    let error = fails(&plain.replace("ws:", "wss:")).await;
    assert!(matches!(error, DialError::Tls(_)), "{error:?}");
}

#[tokio::test]
async fn the_outbound_policy_is_asked_before_anything_leaves() {
    let (address, _sockets) = serve(Limits::direct(), ServeLimits::default()).await;
    let (seen, asked) = mpsc::channel();
    let options = DialOptions {
        policy: Some(Arc::new(move |host: &str, port| {
            seen.send((host.to_owned(), port)).unwrap();
            host != "::1" && host != "denied.invalid"
        })),
        ..DialOptions::default()
    };
    let url = format!("ws://{address}");
    dial(&url, &options).await.unwrap();
    let error = dial("wss://denied.invalid/x?sig=1", &options)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "outbound policy forbids denied.invalid");
    assert!(matches!(
        dial("ws://[::1]:8/", &options).await,
        Err(DialError::Denied { .. })
    ));
    let expected = [
        ("127.0.0.1".to_owned(), address.port()),
        ("denied.invalid".to_owned(), 443),
        ("::1".to_owned(), 8),
    ];
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_dial_sends_its_headers_and_no_others_of_its_own() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/p?q=1", listener.local_addr().unwrap());
    let mut options = DialOptions::default();
    options
        .headers
        .insert("authorization", "Bearer secret".parse().unwrap());
    assert!(!format!("{options:?}").contains("secret"));
    let dialling = tokio::spawn(async move { dial(&url, &options).await });
    let (mut tcp, _) = listener.accept().await.unwrap();
    let mut request = vec![0; 4096];
    let length = tcp.read(&mut request).await.unwrap();
    let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
    assert!(request.starts_with("get /p?q=1 http/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: bearer secret\r\n"));
    for never in [
        "origin:",
        "sec-websocket-protocol",
        "sec-websocket-extensions",
    ] {
        assert!(!request.contains(never), "{request}");
    }
    drop(tcp);
    assert!(dialling.await.unwrap().is_err());
}

#[test]
fn one_tls_configuration_and_no_process_wide_default() {
    let first = mainstay_link::tls::client_config();
    let second = mainstay_link::tls::client_config();
    if let (Ok(first), Ok(second)) = (first, second) {
        assert!(Arc::ptr_eq(&first, &second));
    }
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}
