//! Why something was refused. None of these carries a byte of a message or a key.

use thiserror::Error;

/// A public key object that is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidPublicKey {
    /// The `suite` member names no suite we know.
    #[error("unknown key suite")]
    UnknownSuite,
    /// The X25519 half is not 32 bytes.
    #[error("an X25519 public key is 32 bytes")]
    X25519Length,
    /// The ML-KEM-768 half is not 1184 bytes.
    #[error("an ML-KEM-768 public key is 1184 bytes")]
    MlKemLength,
    /// The ML-KEM-768 half is missing in a hybrid key, or present in a classical one.
    #[error("the key's halves do not match its suite")]
    Halves,
}

/// Why a handshake was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HandshakeError {
    /// The message is shorter than its fixed parts.
    #[error("handshake message too short")]
    TooShort,
    /// The message is longer than the largest payload allows.
    #[error("handshake message too long")]
    TooLong,
    /// A tag did not verify: other key, other prologue, or changed bytes.
    #[error("handshake message does not authenticate")]
    Authentication,
    /// An ML-KEM key is not in canonical form, or an X25519 exchange gave zero.
    #[error("unusable public key")]
    UnusableKey,
    /// Key, prologue and profile do not name one suite.
    #[error("key and prologue are of different suites")]
    SuiteMismatch,
    /// The authorization is longer than [`mainstay_wire::limits::AUTHORIZATION`].
    #[error("harness key authorization too long")]
    AuthorizationTooLong,
    /// The authorization is not UTF-8.
    #[error("harness key authorization is not text")]
    AuthorizationNotText,
    /// The executor's own credentials were rejected by the registry; permanent for this environment (noise-relay.md 5.4).
    #[error("executor credentials rejected")]
    CredentialsRejected,
    /// Message 2 carried something else than nothing.
    #[error("handshake response payload must be empty")]
    UnexpectedPayload,
    /// The handshake has already produced its channel.
    #[error("handshake already finished")]
    Finished,
    /// No random bytes.
    #[error("no randomness from the operating system")]
    Entropy,
}

/// Why a message could not be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SealError {
    /// An empty message cannot be framed.
    #[error("a message has at least one byte")]
    Empty,
    /// The message is longer than [`mainstay_wire::limits::RELAY_JSON`].
    #[error("message of {length} bytes is over the limit of 64 MiB")]
    TooLong {
        /// Its length, bytes.
        length: usize,
    },
    /// The sequence number would wrap; the stream has ended.
    #[error("record numbers used up")]
    Exhausted,
}

/// Why a record, and with it the stream, was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Shorter than a tag or longer than the largest record.
    #[error("record length out of bounds")]
    RecordLength,
    /// Too far ahead of the next expected record.
    #[error("record too far ahead")]
    TooFarAhead,
    /// Too many early records, or too many bytes in them.
    #[error("too many early records")]
    WindowFull,
    /// The tag did not verify.
    #[error("record does not authenticate")]
    Authentication,
    /// The declared message length is 0 or over [`mainstay_wire::limits::RELAY_JSON`].
    #[error("message length out of bounds")]
    MessageLength,
    /// The sequence number would wrap; the stream has ended.
    #[error("record numbers used up")]
    Exhausted,
}
