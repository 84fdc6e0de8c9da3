//! The one error type callers see.

use std::fmt;
use std::time::Duration;

use mainstay_session::classify::is_preparation_retryable;
pub use mainstay_session::{Delivery, Denial, DialFailure, Error as ErrorKind, RequestFailure};
use mainstay_wire::RpcError;

/// What a failed start missed, when the executor could tell (`data.mainstayMissing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// The working directory.
    Cwd,
    /// The program.
    Program,
}

/// Why an operation did not succeed. Cheap to clone; never contains a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: Box<ErrorKind>,
    missing: Option<Missing>,
}

impl Error {
    /// What happened.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Set exactly when the operation ended without an answer: whether it can have had an effect.
    pub fn delivery(&self) -> Option<Delivery> {
        self.kind.delivery()
    }

    /// Whether the same request may succeed later, although nothing that caused this is mended by the caller
    /// (`session.md` 9.3, *preparation-retryable*): a lost connection, a registry that is down, an executor that is offline.
    /// Whether it may be repeated is [`delivery`](Self::delivery)'s business.
    pub fn is_retryable(&self) -> bool {
        is_preparation_retryable(self.kind.root())
    }

    /// How long to wait before that, if the answer said so (`Retry-After`).
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind.root() {
            ErrorKind::RegistryHttp { retry_after, .. } => *retry_after,
            ErrorKind::Connect {
                failure: DialFailure::Http { retry_after, .. },
                ..
            } => *retry_after,
            _ => None,
        }
    }

    /// The code of the executor's own failure answer (protocol.md 14), if that is what this is.
    pub fn code(&self) -> Option<i64> {
        match self.kind.root() {
            ErrorKind::Server { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// For a failed start: what was missing, if the executor could tell.
    pub fn missing(&self) -> Option<Missing> {
        self.missing
    }

    pub(crate) fn disconnected(text: impl Into<String>, delivery: Delivery) -> Self {
        ErrorKind::Disconnected {
            text: text.into(),
            delivery,
        }
        .into()
    }

    pub(crate) fn protocol(text: impl Into<String>) -> Self {
        ErrorKind::Protocol { text: text.into() }.into()
    }

    pub(crate) fn unsupported(feature: &str) -> Self {
        Self::protocol(format!("the executor does not offer {feature}"))
    }

    /// Whether the request ended because its transport did (`session.md` 9.3, *transport-closed*).
    pub(crate) fn is_transport_closed(&self) -> bool {
        match self.kind.root() {
            ErrorKind::Closed { .. } | ErrorKind::Disconnected { .. } => true,
            ErrorKind::Server { code, text } => {
                *code == -32000 && text == "JSON-RPC transport closed"
            }
            _ => false,
        }
    }

    pub(crate) fn into_kind(self) -> ErrorKind {
        *self.kind
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self {
            kind: Box::new(kind),
            missing: None,
        }
    }
}

impl From<RpcError> for Error {
    fn from(error: RpcError) -> Self {
        let missing =
            error
                .data
                .as_ref()
                .and_then(|data| match data.get("mainstayMissing")?.as_str()? {
                    "cwd" => Some(Missing::Cwd),
                    "program" => Some(Missing::Program),
                    _ => None,
                });
        Self {
            kind: Box::new(ErrorKind::Server {
                code: error.code,
                text: error.message,
            }),
            missing,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        match self.missing {
            Some(missing) => write!(f, " (missing: {missing:?})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&*self.kind)
    }
}

impl From<Error> for std::io::Error {
    /// The mapping of `environment.md` 6.
    fn from(error: Error) -> Self {
        use std::io::ErrorKind as Io;
        let kind = match error.kind.root() {
            ErrorKind::Server { code: -32004, .. } => Io::NotFound,
            ErrorKind::Server { code: -32600, .. } => Io::InvalidInput,
            ErrorKind::Closed { .. } | ErrorKind::Disconnected { .. } => Io::BrokenPipe,
            _ => Io::Other,
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn an_error_says_whether_and_when_to_try_again() {
        let refused = |status, retry_after| {
            let refusal = ErrorKind::RegistryHttp {
                status,
                code: None,
                text: String::new(),
                retry_after,
            };
            Error::from(ErrorKind::Attempt(Arc::new(refusal)))
        };
        let wait = Some(Duration::from_secs(7));
        assert!(refused(429, wait).is_retryable());
        assert_eq!(refused(429, wait).retry_after(), wait);
        assert!(!refused(404, None).is_retryable());
        assert!(!Error::protocol("x").is_retryable());
    }
}
