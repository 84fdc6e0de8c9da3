//! What a registry is started with.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use mainstay_link::accept::ServeLimits;

use crate::{Signer, Store, tokens::Tokens};

/// What a registry is started with. Nothing that has a default needs to be set.
#[derive(Clone)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// `http://` or `https://` URL under which others reach this registry; its `ws://` or `wss://` form is what
    /// executors and harnesses are sent to. The address listened on if absent.
    pub public_url: Option<String>,
    /// Who may do what.
    pub tokens: TokenSource,
    /// How much of everything.
    pub limits: Limits,
    /// Who is registered; in memory if absent.
    pub store: Option<Arc<dyn Store>>,
    /// Signs authorizations and URLs; a random key of this process if absent.
    pub signer: Option<Arc<dyn Signer>>,
}

/// Where tokens come from.
#[derive(Clone, Debug)]
pub enum TokenSource {
    /// A file that [`crate::tokens::issue`] made, read again by [`crate::Registry::reload`].
    File(PathBuf),
    /// Tokens that exist only in this process.
    Memory(Arc<Tokens>),
}

/// How much of everything, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What a stranger can make the HTTP side hold.
    pub http: ServeLimits,
    /// Bytes of a request body. A registration with keys of both suites is below 4 KiB.
    pub body: usize,
    /// Time for the 101 to leave and the socket to be there.
    pub upgrade_within: Duration,
    /// Rendezvous sockets of this node, executors and harnesses together.
    pub sockets: u32,
    /// Harness sockets of one executor; an executor takes 128 streams (noise-relay.md 6.2).
    pub harnesses_per_executor: u32,
    /// Streams of one harness socket, which needs one (noise-relay.md 1).
    pub streams_per_harness: u32,
    /// Bytes queued for one stream, each way. Above the window of `mainstayCredit` as base64, so that a stream with
    /// credit never makes its executor wait.
    pub stream_queue: u32,
    /// How long a full queue may keep the sending socket waiting (design.md 5); then its stream is reset.
    pub stream_patience: Duration,
    /// Life of a harness's URL and of its authorization, in whole seconds (design.md 5).
    pub authorization_lifetime: Duration,
    /// How long a request for the next registration is held.
    pub announcement_hold: Duration,
    /// Requests for the next registration held at once, per environment: one must not keep the others from asking.
    pub announcements: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            http: ServeLimits::default(),
            body: 16 * 1024,
            upgrade_within: Duration::from_secs(10),
            sockets: 10_000,
            harnesses_per_executor: 128,
            streams_per_harness: 8,
            stream_queue: 2 * 1024 * 1024,
            stream_patience: Duration::from_secs(10),
            authorization_lifetime: Duration::from_secs(60),
            announcement_hold: Duration::from_secs(25),
            announcements: 64,
        }
    }
}

impl Config {
    /// Everything at its default.
    pub fn new(listen: SocketAddr, tokens: TokenSource) -> Self {
        Self {
            listen,
            public_url: None,
            tokens,
            limits: Limits::default(),
            store: None,
            signer: None,
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("public_url", &self.public_url)
            .field("tokens", &self.tokens)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
