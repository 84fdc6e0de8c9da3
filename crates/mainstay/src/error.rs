//! The one error type callers see.

use std::fmt;

/// Whether a request that ended without an answer can have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// Not a byte of it entered a socket: it had no effect.
    NotSent,
    /// It was written, and no answer came: it may or may not have had its effect.
    Unknown,
}

/// What a failed start missed, when the executor could tell.
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
    text: String,
    code: Option<i64>,
    delivery: Option<Delivery>,
    missing: Option<Missing>,
}

impl Error {
    pub(crate) fn disconnected(text: impl Into<String>, delivery: Delivery) -> Self {
        Self {
            text: text.into(),
            code: None,
            delivery: Some(delivery),
            missing: None,
        }
    }

    pub(crate) fn protocol(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: None,
            delivery: None,
            missing: None,
        }
    }

    /// Set exactly when the operation ended without an answer: whether it can have had an effect.
    pub fn delivery(&self) -> Option<Delivery> {
        self.delivery
    }

    /// The code of the executor's own failure answer (protocol.md 14), if that is what this is.
    pub fn code(&self) -> Option<i64> {
        self.code
    }

    /// For a failed start: what was missing, if the executor could tell.
    pub fn missing(&self) -> Option<Missing> {
        self.missing
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("text", &self.text)
            .field("code", &self.code)
            .field("delivery", &self.delivery)
            .finish()
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        let kind = match (error.code, error.delivery) {
            (Some(-32004), _) => std::io::ErrorKind::NotFound,
            (Some(-32600), _) => std::io::ErrorKind::InvalidInput,
            (None, Some(_)) => std::io::ErrorKind::BrokenPipe,
            (Some(_), _) | (None, None) => std::io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
