//! From message 1 to a verdict: one task per calling harness, so that neither arithmetic nor the registry holds up
//! the socket.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_noise::{Channel, Identity, Prologue, PublicKey, Responder, Suite};
use mainstay_wire::limits;
use tokio::time::timeout;
use uuid::Uuid;

/// What an executor registered: who it is, where, and what it speaks.
#[derive(Clone, Debug)]
pub struct Station {
    /// The registered identity.
    pub identity: Identity,
    /// The environment.
    pub environment: String,
    /// The registration that the registry gave.
    pub registration: String,
    /// The suites whose keys are registered, in the order in which a message 1 is tried on them.
    pub suites: Vec<Suite>,
}

/// A harness that asks for a stream: its key is proven, its right is not.
#[derive(Clone, PartialEq, Eq)]
pub struct Claim {
    /// The stream, as the harness named it.
    pub stream_id: String,
    /// Its key.
    pub harness_key: PublicKey,
    /// What the registry gave it; secret.
    pub authorization: String,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The registry knows the harness.
    Valid,
    /// It does not, or could not be asked: the stream is reset.
    Refused,
    /// It refused *our* credentials (401): the harness is told so, end to end, and gets no stream (noise-relay.md 2.3).
    CredentialsRejected,
}

impl Claim {
    /// The value of `x-codex-noise-stream-id`: lower-case and hyphenated; none if the id is no UUID
    /// (noise-relay.md 2.3).
    pub fn stream_uuid(&self) -> Option<String> {
        Uuid::try_parse(&self.stream_id)
            .ok()
            .map(|uuid| uuid.to_string())
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("stream_id", &self.stream_id)
            .field("harness_key", &self.harness_key)
            .finish_non_exhaustive()
    }
}

/// How an examination ended.
pub(super) enum Outcome {
    /// Message 2 and the channel behind it.
    Ready {
        message_2: Bytes,
        channel: Box<Channel>,
        harness_key: PublicKey,
    },
    /// Message 2 that tells of our rejected credentials.
    Rejected { message_2: Bytes },
    /// Nothing but a reset.
    Failed,
}

/// Reads message 1, asks, answers. Ends within [`limits::RELAY_VALIDATION`].
pub(super) async fn examine<V, F>(
    station: Arc<Station>,
    stream_id: String,
    message_1: Bytes,
    validate: Arc<V>,
) -> Outcome
where
    V: Fn(Claim) -> F,
    F: Future<Output = Verdict>,
{
    let Some(responder) = station.read(&stream_id, &message_1) else {
        return Outcome::Failed;
    };
    let claim = Claim {
        stream_id,
        harness_key: responder.harness_key().clone(),
        authorization: responder.authorization().to_owned(),
    };
    match timeout(limits::RELAY_VALIDATION, validate(claim)).await {
        Ok(Verdict::Valid) => {
            let harness_key = responder.harness_key().clone();
            match responder.accept() {
                Ok((message_2, channel)) => Outcome::Ready {
                    message_2: message_2.into(),
                    channel: Box::new(channel),
                    harness_key,
                },
                Err(_) => Outcome::Failed,
            }
        }
        Ok(Verdict::CredentialsRejected) => match responder.reject_credentials() {
            Ok(message_2) => Outcome::Rejected {
                message_2: message_2.into(),
            },
            Err(_) => Outcome::Failed,
        },
        Ok(Verdict::Refused) | Err(_) => Outcome::Failed,
    }
}

impl Station {
    /// A frame does not tell its suite: the one whose keys read the message is the one it was made for.
    fn read(&self, stream_id: &str, message_1: &[u8]) -> Option<Responder> {
        self.suites.iter().find_map(|&suite| {
            let prologue = Prologue::new(suite, &self.environment, &self.registration, stream_id);
            Responder::read(&self.identity, &prologue, message_1).ok()
        })
    }
}
