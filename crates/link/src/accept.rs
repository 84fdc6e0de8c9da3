//! Accepting WebSockets: the one place where an HTTP request becomes a socket.
//!
//! The HTTP server around it (hyper's, or axum's without its `ws` feature) decides paths and authorisation;
//! the order is: [`refuse_origin`], then authorisation, then [`upgrade`].

mod serve;

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{handshake::derive_accept_key, protocol::Role};

use crate::{Limits, LinkError, RawSocket, no_delay, stream::Stream};

pub use serve::{ServeLimits, serve};

/// Body of the answers made here.
pub type Body = Full<Bytes>;

/// The socket that exists once its 101 left; an error if the peer went away before.
pub type Upgrading = Pin<Box<dyn Future<Output = Result<RawSocket, LinkError>> + Send>>;

/// The 403 with an empty body for a request with an `Origin` header, even an empty one (protocol.md 1.1):
/// browsers send it, no peer of ours does. To be asked before authorisation, on every path.
pub fn refuse_origin(headers: &HeaderMap) -> Option<Response<Body>> {
    headers
        .contains_key(header::ORIGIN)
        .then(|| answer(StatusCode::FORBIDDEN, ""))
}

/// Turns a request into a WebSocket: the 101 to answer with, and the socket that exists once that answer left.
/// `Err` holds the refusal to answer with (protocol.md 1.1). Sub-protocols and extensions are ignored.
#[allow(
    clippy::result_large_err,
    reason = "both arms are an answer, which leaves at once"
)]
pub fn upgrade<B>(
    request: &mut Request<B>,
    limits: Limits,
) -> Result<(Response<Body>, Upgrading), Response<Body>> {
    let key = check(request)?;
    let upgrade = hyper::upgrade::on(request);
    let mut response = answer(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = response.headers_mut();
    headers.insert(
        header::CONNECTION,
        header::HeaderValue::from_static("upgrade"),
    );
    headers.insert(
        header::UPGRADE,
        header::HeaderValue::from_static("websocket"),
    );
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, key);
    let socket = Box::pin(async move {
        let upgraded = upgrade
            .await
            .map_err(|error| LinkError::Io(std::io::Error::other(error)))?;
        let (stream, read_already) = unwrap(upgraded)?;
        Ok(RawSocket::new(stream, read_already, Role::Server, limits).await)
    });
    Ok((response, socket))
}

#[allow(
    clippy::result_large_err,
    reason = "a refusal is an answer, which leaves at once"
)]
fn check<B>(request: &Request<B>) -> Result<header::HeaderValue, Response<Body>> {
    let bad = |text| Err(answer(StatusCode::BAD_REQUEST, text));
    let headers = request.headers();
    if request.method() != Method::GET {
        return Err(answer(
            StatusCode::METHOD_NOT_ALLOWED,
            "Request method must be `GET`",
        ));
    }
    if !has_token(headers, header::CONNECTION, "upgrade") {
        return bad("Connection header did not include 'upgrade'");
    }
    if !has_token(headers, header::UPGRADE, "websocket") {
        return bad("`Upgrade` header did not include 'websocket'");
    }
    if !has_token(headers, header::SEC_WEBSOCKET_VERSION, "13") {
        return bad("`Sec-WebSocket-Version` header did not include '13'");
    }
    let Some(key) = headers.get(header::SEC_WEBSOCKET_KEY) else {
        return bad("`Sec-WebSocket-Key` header missing");
    };
    // The key is base64 of a digest, so it is always a header value.
    header::HeaderValue::from_str(&derive_accept_key(key.as_bytes()))
        .map_err(|_| answer(StatusCode::BAD_REQUEST, ""))
}

fn has_token(headers: &HeaderMap, name: header::HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(token))
}

/// The TCP socket itself where hyper served one, so that reads and writes are not dispatched dynamically.
fn unwrap(upgraded: Upgraded) -> Result<(Stream, Vec<u8>), LinkError> {
    match upgraded.downcast::<TokioIo<TcpStream>>() {
        Ok(parts) => {
            let tcp = parts.io.into_inner();
            no_delay(&tcp)?;
            Ok((Stream::Tcp(tcp), parts.read_buf.to_vec()))
        }
        Err(upgraded) => Ok((Stream::Upgraded(TokioIo::new(upgraded)), Vec::new())),
    }
}

/// A plain-text answer; no body and no content type if `text` is empty.
pub fn answer(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    if !text.is_empty() {
        response.headers_mut().insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("text/plain; charset=utf-8"),
        );
    }
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use hyper::{server::conn::http1, service::service_fn};
    use tokio::{net::TcpListener, sync::mpsc};

    use super::*;
    use crate::dial::connect;

    #[tokio::test]
    async fn sockets_have_no_delay_at_both_ends_and_are_plain_tcp_where_they_can() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (upgraded, mut sockets) = mpsc::channel(1);
        tokio::spawn(async move {
            let (tcp, _) = listener.accept().await.unwrap();
            let service = service_fn(move |mut request| {
                let upgraded = upgraded.clone();
                let socket = hyper::upgrade::on(&mut request);
                tokio::spawn(async move {
                    let _ = upgraded.send(unwrap(socket.await.unwrap()).unwrap()).await;
                });
                let answer = answer(StatusCode::SWITCHING_PROTOCOLS, "");
                std::future::ready(Ok::<_, Infallible>(answer))
            });
            http1::Builder::new()
                .serve_connection(TokioIo::new(tcp), service)
                .with_upgrades()
                .await
        });
        let mut near = connect("127.0.0.1", address.port()).await.unwrap();
        assert!(near.nodelay().unwrap());
        let request = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut near, request)
            .await
            .unwrap();
        match sockets.recv().await.unwrap() {
            (Stream::Tcp(far), read_already) => {
                assert!(far.nodelay().unwrap());
                assert!(read_already.is_empty());
            }
            (other, _) => panic!("{other:?}"),
        }
    }
}
