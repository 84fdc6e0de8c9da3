//! How a harness fails to get a link through the rendezvous.

use mainstay_noise::{HandshakeError, InvalidPublicKey};

use crate::LinkError;

/// Why a registry's answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBundle {
    /// A profile we do not speak. The text is the reference's (noise-relay.md 2.1).
    #[error("environment registry returned unsupported security profile `{0}`")]
    Profile(String),
    /// URL, registration or authorization is blank (noise-relay.md 2.2).
    #[error("environment registry returned incomplete Noise connection data")]
    Incomplete,
    /// The executor's key is none.
    #[error("environment registry returned an unusable executor key: {0}")]
    Key(#[from] InvalidPublicKey),
    /// The executor's key is of another suite than the profile.
    #[error("environment registry returned a key of another suite than its security profile")]
    Suite,
}

/// Why there is no link, once the socket is open. The texts are the reference's (noise-relay.md 7).
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The executor's own credentials were rejected by the registry: permanent for this environment.
    #[error("executor credentials rejected")]
    CredentialsRejected,
    /// Anything else before the link was ready; worth another bundle and another attempt.
    #[error("Noise harness handshake failed before connection became ready: {0}")]
    Handshake(#[from] HandshakeFault),
}

/// What went wrong between the open socket and the ready link.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeFault {
    /// The relay or the executor refused the stream; it never says why. Back off at least 1 s (noise-relay.md 6.3).
    #[error("Noise relay stream reset")]
    Reset,
    /// A record came before message 2.
    #[error("Noise relay received data before handshake completion")]
    DataFirst,
    /// A message does not authenticate, or cannot be made.
    #[error("Noise relay handshake failed: {0}")]
    Noise(HandshakeError),
    /// The peer sent a text message or an invalid frame, or the socket failed.
    #[error(transparent)]
    Link(LinkError),
}

impl From<HandshakeError> for RelayError {
    fn from(error: HandshakeError) -> Self {
        match error {
            HandshakeError::CredentialsRejected => Self::CredentialsRejected,
            other => Self::Handshake(HandshakeFault::Noise(other)),
        }
    }
}

impl From<LinkError> for RelayError {
    fn from(error: LinkError) -> Self {
        Self::Handshake(HandshakeFault::Link(error))
    }
}
