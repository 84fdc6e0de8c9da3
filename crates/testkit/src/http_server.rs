//! The HTTP server of the recorded conversations: small, exact about its headers, on loopback.
//!
//! | path | answer |
//! |---|---|
//! | `/plain` | 200, `hello http`, header `x-multi` twice |
//! | `/echo` | 201, JSON of method, path, headers (without `host`) and body |
//! | `/redirect` | 302 to `/plain` |
//! | `/stream` | 200, three chunks, 150 ms apart |
//! | `/slowstream` | 200, forty chunks of one byte, 250 ms apart |
//! | `/abort` | 200, `content-length: 100`, seven bytes, then the connection is closed |
//! | `/slow` | 200 after 2 s |
//! | `/big/N` | 200, N bytes of `x` |
//! | `/gate` | 200 once [`HttpServer::open_gate`] was called |
//! | anything else | 404 |

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
    time::sleep,
};

use crate::http_message::{Request, read_request};

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct HttpServer {
    addr: SocketAddr,
    gate: Arc<watch::Sender<bool>>,
    requests: Arc<watch::Sender<u64>>,
    acceptor: JoinHandle<()>,
}

impl HttpServer {
    /// Listens on a free loopback port.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        let gate = Arc::new(watch::Sender::new(false));
        let requests = Arc::new(watch::Sender::new(0));
        let acceptor = tokio::spawn({
            let (gate, requests) = (gate.clone(), requests.clone());
            async move {
                let mut connections = tokio::task::JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    while connections.try_join_next().is_some() {}
                    // Head and body are two writes: without this, each answer takes 40 ms.
                    let _ = stream.set_nodelay(true);
                    let (gate, requests) = (gate.subscribe(), requests.clone());
                    // A client that goes away ends its connection, nothing else.
                    connections.spawn(async move { drop(serve(stream, gate, requests).await) });
                }
            }
        });
        Ok(Self {
            addr,
            gate,
            requests,
            acceptor,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The URL of `path`, which starts with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.addr)
    }

    /// Lets `/gate` answer.
    pub fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    /// Waits until `count` requests have been read in full.
    pub async fn until_requests(&self, count: u64) {
        // The sender lives in `self`, so the wait cannot end with an error.
        let _ = self
            .requests
            .subscribe()
            .wait_for(|seen| *seen >= count)
            .await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

async fn serve(
    stream: TcpStream,
    mut gate: watch::Receiver<bool>,
    requests: Arc<watch::Sender<u64>>,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        requests.send_modify(|count| *count += 1);
        let path = request.target.split('?').next().unwrap_or_default();
        let out = stream.get_mut();
        match path {
            "/plain" => {
                respond(
                    out,
                    &request,
                    "200 OK",
                    "x-multi: a\r\nx-multi: b\r\n",
                    b"hello http",
                )
                .await?
            }
            "/echo" => respond(out, &request, "201 Created", "", echo(&request).as_bytes()).await?,
            "/redirect" => {
                out.write_all(
                    b"HTTP/1.1 302 Found\r\nlocation: /plain\r\ncontent-length: 0\r\n\r\n",
                )
                .await?;
            }
            "/stream" => {
                chunks(
                    out,
                    (0..3).map(|n| format!("part{n};")),
                    Duration::from_millis(150),
                )
                .await?
            }
            "/slowstream" => {
                chunks(
                    out,
                    (0..40).map(|_| "x".to_owned()),
                    Duration::from_millis(250),
                )
                .await?
            }
            "/abort" => {
                out.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npartial")
                    .await?;
                return Ok(());
            }
            "/slow" => {
                sleep(Duration::from_secs(2)).await;
                respond(out, &request, "200 OK", "", b"slow").await?;
            }
            "/gate" => {
                let _ = gate.wait_for(|open| *open).await;
                respond(out, &request, "200 OK", "", b"open").await?;
            }
            _ => match path
                .strip_prefix("/big/")
                .and_then(|size| size.parse::<usize>().ok())
            {
                Some(size) => respond(out, &request, "200 OK", "", &vec![b'x'; size]).await?,
                None => respond(out, &request, "404 Not Found", "", b"").await?,
            },
        }
    }
    Ok(())
}

async fn respond(
    out: &mut TcpStream,
    request: &Request,
    status: &str,
    headers: &str,
    body: &[u8],
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n",
        body.len()
    );
    out.write_all(head.as_bytes()).await?;
    if request.method != "HEAD" {
        out.write_all(body).await?;
    }
    Ok(())
}

async fn chunks(
    out: &mut TcpStream,
    parts: impl Iterator<Item = String>,
    pause: Duration,
) -> io::Result<()> {
    out.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        .await?;
    for part in parts {
        out.write_all(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes())
            .await?;
        sleep(pause).await;
    }
    out.write_all(b"0\r\n\r\n").await
}

/// The request as JSON, spaced as in the recordings, so that bodies compare byte for byte.
fn echo(request: &Request) -> String {
    let quote = |text: &str| Value::from(text).to_string();
    let headers: Vec<String> = request
        .headers
        .iter()
        .filter(|(name, _)| name != "host")
        .map(|(name, value)| format!("[{}, {}]", quote(name), quote(value)))
        .collect();
    format!(
        r#"{{"method": {}, "path": {}, "headers": [{}], "body": {}}}"#,
        quote(&request.method),
        quote(&request.target),
        headers.join(", "),
        quote(&String::from_utf8_lossy(&request.body))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    async fn ask(server: &HttpServer, request: &str) -> String {
        let mut stream = TcpStream::connect(server.addr()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn answers_as_recorded() {
        let server = HttpServer::start().await.unwrap();
        let plain = ask(&server, "GET /plain HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert_eq!(
            plain,
            "HTTP/1.1 200 OK\r\ncontent-length: 10\r\nx-multi: a\r\nx-multi: b\r\n\r\nhello http"
        );
        let head = ask(&server, "HEAD /plain HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(head.ends_with("\r\n\r\n"));
        let echo = ask(
            &server,
            "POST /echo?a=1 HTTP/1.1\r\nHost: x\r\nX-A: 1\r\ncontent-length: 5\r\n\r\nbody!",
        )
        .await;
        assert!(echo.ends_with(
            r#"{"method": "POST", "path": "/echo?a=1", "headers": [["x-a", "1"], ["content-length", "5"]], "body": "body!"}"#
        ));
        let abort = ask(&server, "GET /abort HTTP/1.1\r\n\r\n").await;
        assert!(abort.ends_with("\r\n\r\npartial"));
        server.until_requests(4).await;
    }
}
