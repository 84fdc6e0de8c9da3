//! An HTTP/1.1 server that bounds what somebody it does not know can make it hold.

use std::{
    convert::Infallible, error::Error, net::SocketAddr, pin::pin, sync::Arc, time::Duration,
};

use hyper::{
    Request, Response,
    body::{Body, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::no_delay;

/// After a failed accept (out of file descriptors, for example): retrying at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Bounds of an HTTP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Connections that still speak HTTP; upgraded ones no longer count. Above it the kernel's backlog waits.
    pub connections: u32,
    /// Time for a request's head, and for the pause between two requests.
    pub head_within: Duration,
    /// Bytes of a request's head; at least 8192.
    pub head_bytes: usize,
    /// Time for the head, body and answer of one request together.
    pub request_within: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            head_within: Duration::from_secs(10),
            head_bytes: 16 * 1024,
            request_within: Duration::from_secs(60),
        }
    }
}

/// Serves HTTP/1.1 with no-delay and upgrades until `stop` is done, then lets requests in progress finish
/// and returns once no connection speaks HTTP any more. Upgraded sockets are the service's business.
pub async fn serve<S, F, B>(
    listener: TcpListener,
    limits: ServeLimits,
    service: S,
    stop: impl Future<Output = ()>,
) where
    S: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let slots = Arc::new(Semaphore::new(limits.connections as usize));
    let stopping = CancellationToken::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            // The semaphore is never closed.
            let slot = slots.clone().acquire_owned().await.ok();
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let connection =
                    connection(stream, peer, limits, service.clone(), stopping.clone());
                tokio::spawn(async move {
                    connection.await;
                    drop(slot);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::select! {
                    () = &mut stop => break,
                    () = sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
    drop(listener);
    stopping.cancel();
    // All slots free: every connection has ended.
    let _ = slots.acquire_many(limits.connections).await;
}

async fn connection<S, F, B>(
    stream: TcpStream,
    peer: SocketAddr,
    limits: ServeLimits,
    service: S,
    stopping: CancellationToken,
) where
    S: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    if no_delay(&stream).is_err() {
        return;
    }
    // Says when a request began, so that one that dawdles is cut off.
    let (began, mut requests) = watch::channel(());
    let service = service_fn(move |request| {
        began.send_replace(());
        let answer = service(request, peer);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut http = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_within)
            .max_buf_size(limits.head_bytes.max(8192))
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades()
    );
    tokio::select! {
        ended = &mut http => {
            if let Err(error) = ended {
                tracing::trace!(%peer, %error, "HTTP connection ended");
            }
        }
        () = stopping.cancelled() => {
            http.as_mut().graceful_shutdown();
            // Requests in progress finish, but not for longer than any request may take.
            let _ = timeout(limits.request_within, http).await;
        }
        () = quiet_for(&mut requests, limits.request_within) => {
            tracing::debug!(%peer, "HTTP connection cut off: a request took too long");
        }
    }
}

/// Ends once no request has begun for `limit`.
async fn quiet_for(requests: &mut watch::Receiver<()>, limit: Duration) {
    loop {
        match timeout(limit, requests.changed()).await {
            Ok(Ok(())) => {}
            // No more requests can begin: the connection is about to end by itself.
            Ok(Err(_)) => std::future::pending().await,
            Err(_) => return,
        }
    }
}
