//! The handle of a running registry.

use std::{
    fmt, io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock, atomic::Ordering},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, Response, Uri},
};
use hyper::body::Incoming;
use mainstay_link::{Close, accept};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tower_service::Service;

use crate::{
    Config, HmacSigner, MemoryStore, TokenSource,
    api::{Announcements, Shared, routes},
    router::Router,
    tokens::{TokenError, Tokens},
};

/// How long sockets may take to end after they were told to (design.md 5).
const DRAIN: Duration = Duration::from_secs(5);

/// A running registry with its rendezvous. Dropping it ends it at once.
pub struct Registry {
    address: SocketAddr,
    url: String,
    tokens: Option<PathBuf>,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// Why a registry does not start.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// Why not.
        #[source]
        error: io::Error,
    },
    /// The public URL is not usable.
    #[error("public URL: {0}")]
    PublicUrl(&'static str),
    /// The tokens cannot be read.
    #[error(transparent)]
    Tokens(#[from] TokenError),
}

impl Registry {
    /// Reads the tokens, listens, and serves in the background.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn bind(config: Config) -> Result<Self, BindError> {
        let (tokens, path) = match config.tokens {
            TokenSource::File(path) => (Arc::new(Tokens::read(&path)?), Some(path)),
            TokenSource::Memory(tokens) => (tokens, None),
        };
        let signer = match config.signer {
            Some(signer) => signer,
            None => Arc::new(HmacSigner::random().map_err(TokenError::Random)?),
        };
        let listen_error = |error| BindError::Listen {
            address: config.listen,
            error,
        };
        let listener = TcpListener::bind(config.listen)
            .await
            .map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let url = match config.public_url {
            Some(url) => public_url(&url)?,
            None if address.ip().is_unspecified() => {
                return Err(BindError::PublicUrl(
                    "needed, because the address listened on is none that others can use",
                ));
            }
            None => format!("http://{address}"),
        };
        let store = config.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let shared = Arc::new(Shared {
            tokens: RwLock::new(tokens),
            router: Arc::new(Router::new(store.clone(), config.limits)),
            store,
            signer,
            // `http` becomes `ws`, `https` becomes `wss`.
            websocket_base: url.replacen("http", "ws", 1),
            announcements: Announcements::default(),
            limits: config.limits,
            stopping: CancellationToken::new(),
            draining: false.into(),
        });
        let server = tokio::spawn(serve(listener, shared.clone()));
        tracing::info!(%address, "registry listens");
        Ok(Self {
            address,
            url,
            tokens: path,
            shared,
            server,
        })
    }

    /// The URL under which others reach it, without a trailing slash.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Reads the tokens file again. Those of before stay if that fails; open connections stay in any case.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn reload(&self) -> Result<(), TokenError> {
        if let Some(path) = &self.tokens {
            let tokens = Tokens::read(path)?;
            tracing::info!(tokens = tokens.len(), "tokens read again");
            *self
                .shared
                .tokens
                .write()
                .unwrap_or_else(PoisonError::into_inner) = Arc::new(tokens);
        }
        Ok(())
    }

    /// Tells every peer to come back within `window`, takes nothing new, waits at most 5 s for the sockets to end.
    pub async fn shutdown(mut self, window: Duration) {
        self.shared.draining.store(true, Ordering::Relaxed);
        self.shared.stopping.cancel();
        tokio::join!(
            self.shared.router.shutdown(Close::restart(window), DRAIN),
            async {
                // Requests in progress; the accept loop has ended by then, or is ended by the drop.
                let _ = tokio::time::timeout(DRAIN, &mut self.server).await;
            }
        );
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.shared.draining.store(true, Ordering::Relaxed);
        self.shared.stopping.cancel();
        self.shared.router.abandon();
        self.server.abort();
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("address", &self.address)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let stopping = shared.stopping.clone();
    let limits = shared.limits.http;
    let routes = routes(shared);
    let service = move |request: Request<Incoming>, _peer| {
        let mut routes = routes.clone();
        async move { answer(&mut routes, request).await }
    };
    accept::serve(listener, limits, service, stopping.cancelled()).await;
}

async fn answer(routes: &mut axum::Router, request: Request<Incoming>) -> Response<Body> {
    if let Some(refusal) = accept::refuse_origin(request.headers()) {
        return refusal.map(Body::new);
    }
    match routes.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn public_url(text: &str) -> Result<String, BindError> {
    let text = text.trim().trim_end_matches('/');
    let uri: Uri = text
        .parse()
        .map_err(|_| BindError::PublicUrl("not a URL"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(BindError::PublicUrl("neither http:// nor https://"));
    }
    if uri.query().is_some() || text.contains(['#', '@']) {
        return Err(BindError::PublicUrl(
            "query, fragment and user information are not supported",
        ));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_urls() {
        assert_eq!(public_url(" https://h/x/ ").unwrap(), "https://h/x");
        for bad in [
            "",
            "h:1",
            "ftp://h",
            "http://h?x=1",
            "http://u@h",
            "http://h/#f",
        ] {
            assert!(public_url(bad).is_err(), "{bad}");
        }
    }
}
