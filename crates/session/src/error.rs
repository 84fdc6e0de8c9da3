//! What can go wrong, in the caller's words (`session.md` 9.1).

use std::sync::Arc;
use std::time::Duration;

/// Whether a request that ended without an answer can have reached the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// No byte of it was written to any link: it may be repeated.
    NotSent,
    /// It was written, completely or in part; whether it was carried out is unknown.
    Unknown,
}

/// Why the outbound policy does not let the client contact somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denial {
    /// No policy has been published yet.
    Unavailable,
    /// The policy does not allow the destination.
    Destination,
    /// The policy allowed it once and does not any more.
    Revoked,
    /// The policy cannot be enforced on this kind of transport.
    UnsupportedTransport,
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Denial::Unavailable => "no outbound policy is available yet",
            Denial::Destination => "the destination is not allowed",
            Denial::Revoked => "the permission was revoked",
            Denial::UnsupportedTransport => "the transport cannot be checked",
        })
    }
}

/// How a WebSocket could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DialFailure {
    /// The upgrade was answered with an HTTP status other than 101.
    Http {
        /// The status.
        status: u16,
        /// `Retry-After` of the answer.
        retry_after: Option<Duration>,
    },
    /// TLS: certificate, name or protocol.
    Tls,
    /// The name could not be resolved, or the connection was refused, reset or broke while it was opened.
    Io(std::io::ErrorKind),
    /// The peer closed in the middle of the upgrade.
    Incomplete,
    /// The answer is not a WebSocket upgrade.
    Protocol,
}

/// How a registry request could not be completed (no HTTP status was received, or its body was cut).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestFailure {
    /// No connection to the registry.
    Connect,
    /// No complete answer in time.
    Timeout,
    /// The body was interrupted.
    Body,
    /// The body could not be decoded (compression, transfer encoding).
    Decode,
    /// The route (proxy) could not be resolved.
    Route,
    /// The request could not be built.
    Build,
    /// A redirect to an unsupported scheme.
    RedirectScheme,
    /// Too many redirects.
    TooManyRedirects,
    /// The outbound policy does not allow it; nothing left the machine.
    Denied(Denial),
}

/// A failure of the client. `Clone`, because callers that waited for the same attempt share it.
///
/// `classify` says whether and when to try again. No variant carries a secret: URLs are given
/// without query and fragment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stdio program could not be started.
    #[error("cannot start {program}: {text}")]
    Spawn {
        /// The program.
        program: String,
        /// What the operating system said.
        text: String,
    },
    /// The WebSocket did not open in time.
    #[error("{url} did not open within {timeout:?}")]
    ConnectTimeout {
        /// Where to, without query.
        url: String,
        /// The limit.
        timeout: Duration,
    },
    /// The WebSocket could not be opened.
    #[error("cannot connect to {url}: {text}")]
    Connect {
        /// Where to, without query.
        url: String,
        /// What happened, for decisions.
        failure: DialFailure,
        /// What happened, for people.
        text: String,
    },
    /// The WebSocket cannot be configured (bad URL, bad header).
    #[error("bad WebSocket configuration: {text}")]
    ConnectConfiguration {
        /// What is wrong.
        text: String,
    },
    /// Handshake and initialize took longer than their common budget.
    #[error("initialize was not answered within {timeout:?}")]
    InitializeTimeout {
        /// The configured budget.
        timeout: Duration,
    },
    /// The Noise handshake was refused or reset by the peer or the relay.
    #[error("handshake refused: {text}")]
    HandshakeRefused {
        /// What the peer or relay said.
        text: String,
    },
    /// The executor answered the handshake with a rejection of its own credentials; permanent for this environment.
    #[error("executor credentials rejected")]
    CredentialsRejected,
    /// A timed request was not answered in time.
    #[error("{method} was not answered within {timeout:?}")]
    RpcTimeout {
        /// The method.
        method: &'static str,
        /// The limit.
        timeout: Duration,
    },
    /// The outbound policy does not allow the connection.
    #[error("outbound policy: {0}")]
    Denied(Denial),
    /// The link ended while the request was pending.
    #[error("the connection is closed")]
    Closed {
        /// Whether the request can have arrived.
        delivery: Delivery,
    },
    /// There is no usable session.
    #[error("disconnected: {text}")]
    Disconnected {
        /// Why.
        text: String,
        /// Whether the request can have arrived; `NotSent` where there was no request.
        delivery: Delivery,
    },
    /// The environment could not be provisioned.
    #[error("provisioning failed: {text}")]
    ProvisioningFailed {
        /// What the provisioner said.
        text: String,
    },
    /// JSON that does not parse, or not as what it should be.
    #[error("bad JSON: {text}")]
    Json {
        /// Where and what.
        text: String,
    },
    /// An HTTP request through the environment failed.
    #[error("HTTP request: {text}")]
    HttpRequest {
        /// What happened.
        text: String,
    },
    /// The operation needs authentication that is not configured.
    #[error("authentication required")]
    AuthenticationRequired,
    /// The peer, or the caller, broke the protocol.
    #[error("protocol: {text}")]
    Protocol {
        /// How.
        text: String,
    },
    /// An environment was reported both with and without provisioning.
    #[error("environment {environment} is provisioned in another way already")]
    ProvisioningMode {
        /// The environment id.
        environment: String,
    },
    /// The executor answered with a JSON-RPC error.
    #[error("executor error {code}: {text}")]
    Server {
        /// JSON-RPC error code.
        code: i64,
        /// The executor's text.
        text: String,
    },
    /// The registry answered with an HTTP status that is neither success, 401 nor 403.
    #[error("registry answered {status}: {text}")]
    RegistryHttp {
        /// The status.
        status: u16,
        /// `error.code` of the body.
        code: Option<String>,
        /// `error.message` of the body, else its first 4096 characters.
        text: String,
        /// `Retry-After` of the answer.
        retry_after: Option<Duration>,
    },
    /// The registry's URL or the token is unusable.
    #[error("bad registry configuration: {text}")]
    RegistryConfiguration {
        /// What is wrong.
        text: String,
    },
    /// The registry answered 401 or 403.
    #[error("the registry rejected the credentials: {text}")]
    RegistryAuthentication {
        /// The registry's text.
        text: String,
    },
    /// A registry request could not be completed.
    #[error("registry request: {text}")]
    RegistryRequest {
        /// What happened, for decisions.
        failure: RequestFailure,
        /// What happened, for people.
        text: String,
    },
    /// The attempt that the caller waited for failed; all its callers share the inner error.
    #[error("connection attempt failed: {0}")]
    Attempt(#[source] Arc<Error>),
    /// A part of Mainstay itself crashed.
    #[error("internal: {text}")]
    Internal {
        /// Which part.
        text: String,
    },
}

impl Error {
    /// The error below all [`Attempt`](Error::Attempt) wrappers.
    #[must_use]
    pub fn root(&self) -> &Error {
        match self {
            Error::Attempt(inner) => inner.root(),
            other => other,
        }
    }

    /// Whether the request can have reached the executor, where that is known.
    #[must_use]
    pub fn delivery(&self) -> Option<Delivery> {
        match self.root() {
            Error::Closed { delivery } | Error::Disconnected { delivery, .. } => Some(*delivery),
            _ => None,
        }
    }
}
