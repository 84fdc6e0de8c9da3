//! What the listener's HTTP side answers (T80): status and body per request, without and with upgrade, in three modes of
//! authentication.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use hmac::{Hmac, KeyInit, Mac};
use mainstay_executor::auth::{Auth, SignedBearer};
use mainstay_executor::{Config, Executor};
use mainstay_wire::base64;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Plays the file; every line is one request on a connection of its own.
pub(crate) fn play(file: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    if let Err(error) = runtime.block_on(replay(file)) {
        panic!("{error:#}");
    }
}

async fn replay(file: &str) -> Result<()> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("transcripts")
        .join(file);
    let mut report = String::new();
    for (at, line) in std::fs::read_to_string(path)?.lines().enumerate() {
        let line: Value = serde_json::from_str(line)?;
        let executor = Executor::start(Config::default().auth(auth(&line)?)).await?;
        let url = executor.listen("127.0.0.1:0".parse()?).await?;
        let address = url.trim_start_matches("ws://");
        let (status, body) = exchange(address, &line)
            .await
            .with_context(|| format!("{file}:{}", at + 1))?;
        if line["status"] != status || line["body"] != body {
            report.push_str(&format!(
                "\n  line {}\n    recorded {line}\n    ours     {status} {body:?}",
                at + 1
            ));
        }
        executor.shutdown(Duration::ZERO).await;
    }
    if report.is_empty() {
        Ok(())
    } else {
        bail!("{file} differs:{report}")
    }
}

fn auth(line: &Value) -> Result<Auth> {
    let folder = tempfile::TempDir::new()?;
    let file = folder.path().join("secret");
    let mode = line["auth"].as_str().context("no mode")?;
    Ok(match mode.split(' ').next() {
        Some("none") => Auth::None,
        Some("capability-token") => {
            std::fs::write(&file, "sekret-token\n")?;
            Auth::capability_from_file(&file)?
        }
        Some("signed-bearer-token") => {
            std::fs::write(&file, SECRET)?;
            let signed = SignedBearer::from_file(&file)?.issuer("me").audience("you");
            Auth::Signed(signed)
        }
        other => bail!("unknown mode {other:?}"),
    })
}

async fn exchange(address: &str, line: &Value) -> Result<(u64, String)> {
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let mut request = format!(
        "{} {} HTTP/1.1\r\nHost: {address}\r\n",
        text("method"),
        text("path")
    );
    if line["upgrade"] == true {
        request
            .push_str("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
        request.push_str("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
    } else {
        request.push_str("Connection: close\r\n");
    }
    for (name, value) in line["headers"].as_object().into_iter().flatten() {
        let value = value
            .as_str()
            .unwrap_or_default()
            .replace("<jwt>", &jwt(text("note"))?);
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;

    let mut answer = Vec::new();
    let head = loop {
        if let Some(end) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        anyhow::ensure!(stream.read_buf(&mut answer).await? > 0, "no answer");
    };
    let head_text = String::from_utf8_lossy(&answer[..head]).to_lowercase();
    let status = head_text
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .context("no status")?;
    let length: usize = head_text
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(Ok(0), |length| length.trim().parse())?;
    let bodyless = status == 101 || line["method"] == "HEAD";
    while !bodyless && answer.len() < head + length {
        anyhow::ensure!(
            stream.read_buf(&mut answer).await? > 0,
            "the body is cut short"
        );
    }
    Ok((status, String::from_utf8(answer.split_off(head))?))
}

/// A token with the claims that the recording's note describes.
fn jwt(note: &str) -> Result<String> {
    let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())?;
    let mut claims = json!({"exp": now + 300, "iss": "me", "aud": "you"});
    let mut header = json!({"alg": "HS256", "typ": "JWT"});
    let mut secret = SECRET.to_vec();
    match note {
        "" | "valid" => {}
        "aud list containing the audience" => claims["aud"] = json!(["other", "you"]),
        "exp 60 s ago" => claims["exp"] = json!(now - 60),
        "exp 20 s ago, inside skew" => claims["exp"] = json!(now - 20),
        "nbf 60 s ahead" => claims["nbf"] = json!(now + 60),
        "nbf 20 s ahead, inside skew" => claims["nbf"] = json!(now + 20),
        "wrong iss" => claims["iss"] = json!("you"),
        "wrong aud" => claims["aud"] = json!("me"),
        "no exp" => {
            claims.as_object_mut().context("claims")?.remove("exp");
        }
        "signed with another secret" => secret.reverse(),
        "alg none" => header["alg"] = json!("none"),
        other => bail!("unknown note {other}"),
    }
    let signed = format!(
        "{}.{}",
        url_base64(header.to_string().as_bytes()),
        url_base64(claims.to_string().as_bytes())
    );
    if note == "alg none" {
        return Ok(format!("{signed}."));
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(&secret)?;
    mac.update(signed.as_bytes());
    Ok(format!(
        "{signed}.{}",
        url_base64(&mac.finalize().into_bytes())
    ))
}

fn url_base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    base64::encode_into(bytes, &mut text);
    text.trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_")
}
