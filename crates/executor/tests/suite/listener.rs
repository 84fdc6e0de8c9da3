//! HTTP rules of the direct listener (protocol.md 1.1).

use anyhow::Result;
use mainstay_executor::{Config, Executor, ListenError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::Rig;

/// Sends a request by hand; returns the status and the body.
async fn http(rig: &Rig, head: &str) -> Result<(u16, String)> {
    let address = rig.url.trim_start_matches("ws://");
    let mut stream = TcpStream::connect(address).await?;
    stream
        .write_all(format!("{head}host: x\r\nconnection: close\r\n\r\n").as_bytes())
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).unwrap_or_default().parse()?;
    let body = answer
        .split_once("\r\n\r\n")
        .map_or("", |(_, body)| body)
        .to_owned();
    Ok((status, body))
}

#[tokio::test]
async fn t80_paths_and_methods() -> Result<()> {
    let rig = Rig::start(Config::default()).await?;
    let no_upgrade = "Connection header did not include 'upgrade'";
    for (head, status, body) in [
        ("GET / HTTP/1.1\r\n", 400, no_upgrade),
        ("GET /readyz HTTP/1.1\r\n", 200, ""),
        ("GET /readyz?x=1 HTTP/1.1\r\n", 200, ""),
        ("HEAD /readyz HTTP/1.1\r\n", 200, ""),
        ("POST /readyz HTTP/1.1\r\n", 405, ""),
        ("GET /healthz HTTP/1.1\r\n", 404, ""),
        ("GET /nope HTTP/1.1\r\n", 404, ""),
        ("GET /readyz HTTP/1.1\r\norigin: http://x\r\n", 403, ""),
        ("GET / HTTP/1.1\r\norigin:\r\n", 403, ""),
    ] {
        assert_eq!(http(&rig, head).await?, (status, body.to_owned()), "{head}");
    }
    Ok(())
}

#[tokio::test]
async fn s11_only_loopback_is_listened_on_without_authentication() -> Result<()> {
    let executor = Executor::start(Config::default()).await?;
    let refused = executor.listen("0.0.0.0:0".parse()?).await;
    assert!(matches!(refused, Err(ListenError::Unprotected(_))));
    assert!(
        executor
            .listen("[::1]:0".parse()?)
            .await?
            .starts_with("ws://[::1]:")
    );
    Ok(())
}
