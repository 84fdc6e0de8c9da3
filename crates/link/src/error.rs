//! How connections fail: while they are made, and afterwards.

use std::{io, time::Duration};

use tokio_tungstenite::tungstenite::{self, error::CapacityError};

/// Why a running link can carry nothing more (except [`LinkError::TooLong`] when sending, after which it goes on).
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The connection broke; `UnexpectedEof` if it ended without a close frame.
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    /// The peer broke the rules of the transport.
    #[error("transport protocol violated: {0}")]
    Protocol(String),
    /// A message is too long: a received one ends the link, one to be sent is refused before its first byte.
    #[error("message of {size} bytes is above the limit of {limit} bytes")]
    TooLong {
        /// Bytes of the message, as far as known when it was refused.
        size: usize,
        /// The limit it exceeds.
        limit: usize,
    },
    /// The peer answered no ping in time.
    #[error("no pong within {0:?}")]
    PongTimeout(Duration),
    /// The peer took no bytes in time.
    #[error("write not taken within {0:?}")]
    WriteTimeout(Duration),
    /// The link was closed, by either end.
    #[error("connection closed")]
    Closed,
    /// The relay or the far end reset this stream; the socket below may live on.
    #[error("Noise relay stream reset")]
    Reset,
}

impl From<tungstenite::Error> for LinkError {
    fn from(error: tungstenite::Error) -> Self {
        use tungstenite::error::ProtocolError;
        match error {
            tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
                Self::Closed
            }
            tungstenite::Error::Protocol(ProtocolError::SendAfterClosing) => Self::Closed,
            tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                Self::Io(io::ErrorKind::UnexpectedEof.into())
            }
            tungstenite::Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
                Self::TooLong {
                    size,
                    limit: max_size,
                }
            }
            tungstenite::Error::Io(error) => Self::Io(error),
            other => Self::Protocol(other.to_string()),
        }
    }
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The address cannot be used. Never holds the address itself: a signed URL is a secret.
    #[error("unusable WebSocket address: {0}")]
    Url(&'static str),
    /// The outbound policy of the host forbids this destination.
    #[error("outbound policy forbids {host}")]
    Denied {
        /// The host that was asked for.
        host: String,
    },
    /// The whole attempt (names, TCP, TLS, upgrade) took longer than allowed.
    #[error("no WebSocket within {0:?}")]
    Timeout(Duration),
    /// Name lookup, TCP, or the read or write of the upgrade failed; the kind tells which.
    #[error("connect: {0}")]
    Io(#[source] io::Error),
    /// TLS could not be agreed on, or the certificate is not trusted.
    #[error("TLS: {0}")]
    Tls(String),
    /// The peer answered the upgrade with another status than 101.
    #[error("upgrade refused with HTTP {}", .0.status)]
    Refused(Refusal),
    /// The peer's answer is not a WebSocket upgrade.
    #[error("not a WebSocket answer: {0}")]
    Protocol(String),
}

/// A refused upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// `Retry-After` in its seconds form; the caller bounds it.
    pub retry_after: Option<Duration>,
    /// `x-codex-rendezvous-rejection-reason`, if it is one of the values of noise-relay.md 3.
    pub reason: Option<&'static str>,
}

/// The values of `x-codex-rendezvous-rejection-reason` that may be logged (noise-relay.md 3).
const REJECTION_REASONS: [&str; 17] = [
    "expired",
    "missing_role",
    "missing_expiry",
    "missing_signature",
    "missing_version",
    "missing_executor_registration_id",
    "unexpected_executor_registration_id",
    "malformed_query",
    "invalid_role",
    "invalid_expiry",
    "invalid_signature",
    "invalid_secret",
    "extra_query_param",
    "pod_draining",
    "unknown_route",
    "wrong_rendezvous_cluster",
    "route_unavailable",
];

impl Refusal {
    pub(crate) fn from_parts(status: u16, headers: &hyper::HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            status,
            retry_after: text("retry-after")
                .and_then(|value| value.trim().parse().ok())
                .map(Duration::from_secs),
            reason: text("x-codex-rendezvous-rejection-reason")
                .and_then(|value| REJECTION_REASONS.into_iter().find(|known| *known == value)),
        }
    }
}
