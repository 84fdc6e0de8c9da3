//! The direct listener: the actor that accepts WebSockets on a TCP port (protocol.md 1.1, 1.2).
//!
//! Child of the root, which gets every link that was upgraded.
//!
//! | message | meaning |
//! |---|---|
//! | `Run` | accept until killed; the mailbox is not used after that |

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use mainstay_link::accept::{self, Body};
use mainstay_link::{Limits, Link};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::peer::Peer;
use crate::root;
use crate::shared::Shared;

/// Time a peer has to send the head of its request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);

/// Requests being served and not yet upgraded; further ones wait in the kernel's queue.
const UNDECIDED: usize = 256;

/// Pause after the kernel refused to accept (no file descriptor left), which repeats at once otherwise.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The actor.
#[derive(Debug)]
pub(crate) struct Listener;

/// Its only message.
#[derive(Debug)]
pub(crate) enum Message {
    /// Accept connections.
    Run,
}

/// What a listener is started with.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) socket: TcpListener,
    pub(crate) shared: Arc<Shared>,
    pub(crate) root: ActorRef<root::Message>,
}

impl Actor for Listener {
    type Msg = Message;
    type State = Option<Arguments>;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        arguments: Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Some(arguments))
    }

    async fn handle(
        &self,
        _myself: ActorRef<Message>,
        message: Message,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Run => {
                if let Some(arguments) = state.take() {
                    accept_all(arguments).await;
                }
            }
        }
        Ok(())
    }
}

async fn accept_all(
    Arguments {
        socket,
        shared,
        root,
    }: Arguments,
) {
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            accepted = socket.accept(), if serving.len() < UNDECIDED => match accepted {
                Ok((stream, peer)) => {
                    serving.spawn(serve(stream, peer, shared.clone(), root.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = serving.join_next() => {}
        }
    }
}

async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    root: ActorRef<root::Message>,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection ended before it began");
        return;
    }
    let answer = service_fn(|request| {
        let response = answer(request, peer, &shared, &root);
        async { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), answer)
        .with_upgrades()
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "request not served");
    }
}

fn answer(
    mut request: Request<Incoming>,
    peer: SocketAddr,
    shared: &Shared,
    root: &ActorRef<root::Message>,
) -> Response<Body> {
    if let Some(refused) = accept::refuse_origin(request.headers()) {
        return refused;
    }
    match request.uri().path() {
        "/readyz" => match *request.method() {
            Method::GET | Method::HEAD => accept::answer(StatusCode::OK, ""),
            _ => accept::answer(StatusCode::METHOD_NOT_ALLOWED, ""),
        },
        "/" => {
            let authorization = request.headers().get(header::AUTHORIZATION);
            let authorization = authorization.map(header::HeaderValue::as_bytes);
            if let Err(refusal) = shared.config.auth.check(authorization, SystemTime::now()) {
                return unauthorized(refusal.to_string());
            }
            upgrade(&mut request, peer, root)
        }
        _ => accept::answer(StatusCode::NOT_FOUND, ""),
    }
}

fn upgrade(
    request: &mut Request<Incoming>,
    peer: SocketAddr,
    root: &ActorRef<root::Message>,
) -> Response<Body> {
    match accept::upgrade(request, Limits::direct()) {
        Ok((response, socket)) => {
            let root = root.clone();
            tokio::spawn(async move {
                match socket.await {
                    Ok(socket) => {
                        let link = Box::new(Link::from(socket));
                        let peer = Peer::WebSocket(peer);
                        let _ = root.cast(root::Message::Accept {
                            link,
                            peer,
                            ended: None,
                        });
                    }
                    Err(error) => tracing::debug!(%error, "upgrade failed"),
                }
            });
            response
        }
        Err(refused) => refused,
    }
}

fn unauthorized(text: String) -> Response<Body> {
    let mut response = Response::new(Body::new(Bytes::from(text)));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
