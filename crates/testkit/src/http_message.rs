//! Just enough HTTP/1.1 for servers that must control every byte.

use std::{io, net::SocketAddr};

use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// One request, its body included.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// As long as `content-length` says.
    pub body: Vec<u8>,
}

/// One answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Headers besides `content-length`.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Reads the next request of a connection; `None` at its end.
///
/// # Errors
/// When the connection fails or ends inside a request.
pub async fn read_request(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Request>> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    let headers = read_headers(stream).await?;
    let body = read_body(stream, &headers).await?;
    Ok(Some(Request {
        method,
        target,
        headers,
        body,
    }))
}

/// Writes an answer, `content-length` included.
///
/// # Errors
/// When the connection fails.
pub async fn write_answer(stream: &mut TcpStream, answer: &Answer) -> io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} -\r\ncontent-length: {}\r\n",
        answer.status,
        answer.body.len()
    );
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&answer.body).await
}

/// Sends a request on a connection of its own and reads the answer, which must carry `content-length`.
///
/// # Errors
/// When the connection fails or the answer is none.
pub async fn forward(to: SocketAddr, request: &Request) -> io::Result<Answer> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let mut stream = tokio::io::BufReader::new(stream);
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in &request.headers {
        if name != "connection" {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("connection: close\r\n\r\n");
    stream.get_mut().write_all(head.as_bytes()).await?;
    stream.get_mut().write_all(&request.body).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let status = line
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let mut headers = read_headers(&mut stream).await?;
    let body = read_body(&mut stream, &headers).await?;
    headers.retain(|(name, _)| name != "content-length" && name != "connection");
    Ok(Answer {
        status,
        headers,
        body,
    })
}

async fn read_headers(
    stream: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Ok(headers);
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

async fn read_body(
    stream: &mut (impl AsyncBufRead + Unpin),
    headers: &[(String, String)],
) -> io::Result<Vec<u8>> {
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![
        0;
        length
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(0)
    ];
    stream.read_exact(&mut body).await?;
    Ok(body)
}
