//! The two ends of a handshake, whichever the suite.

use std::fmt;

use mainstay_wire::limits;
use snow::HandshakeState;

use crate::channel::{Channel, OpeningKey, SealingKey};
use crate::{
    Entropy, HandshakeError, Identity, Prologue, PublicKey, Suite, SystemEntropy, classic, hybrid,
};

/// Payload of message 2 when the registry refused the executor's own credentials (noise-relay.md 2.3, 5.4).
pub const AUTHENTICATION_REJECTED: &[u8] = b"codex-registry-authentication-rejected/v1";

/// The harness's end, between message 1 and message 2.
pub struct Initiator(Initiating);

enum Initiating {
    Hybrid(Box<hybrid::Waiting>),
    Classic(Box<HandshakeState>),
    Finished,
}

impl Initiator {
    /// Writes message 1, which only the owner of `remote` can read, and only in this context.
    ///
    /// # Errors
    /// Suites that differ, an authorization over [`limits::AUTHORIZATION`], an unusable remote key, no randomness.
    pub fn start(
        identity: &Identity,
        remote: &PublicKey,
        prologue: &Prologue,
        authorization: &str,
    ) -> Result<(Initiator, Vec<u8>), HandshakeError> {
        Initiator::start_with(
            identity,
            remote,
            prologue,
            authorization,
            &mut SystemEntropy,
        )
    }

    /// [`Initiator::start`] with another source of randomness, for test vectors.
    ///
    /// # Errors
    /// As [`Initiator::start`].
    pub fn start_with(
        identity: &Identity,
        remote: &PublicKey,
        prologue: &Prologue,
        authorization: &str,
        entropy: &mut dyn Entropy,
    ) -> Result<(Initiator, Vec<u8>), HandshakeError> {
        if remote.suite() != prologue.suite() {
            return Err(HandshakeError::SuiteMismatch);
        }
        if authorization.len() > limits::AUTHORIZATION {
            return Err(HandshakeError::AuthorizationTooLong);
        }
        let payload = authorization.as_bytes();
        match prologue.suite() {
            Suite::HybridIk => {
                let (state, message) =
                    hybrid::write_message_1(identity, remote, prologue, payload, entropy)?;
                Ok((Initiator(Initiating::Hybrid(Box::new(state))), message))
            }
            Suite::Ik => {
                let (state, message) =
                    classic::write_message_1(identity, remote, prologue, payload, entropy)?;
                Ok((Initiator(Initiating::Classic(Box::new(state))), message))
            }
        }
    }

    /// Reads message 2 of an executor that accepts us.
    ///
    /// # Errors
    /// As [`Initiator::finish_with_payload`]; [`HandshakeError::CredentialsRejected`] and
    /// [`HandshakeError::UnexpectedPayload`] if the answer is authentic but not empty.
    pub fn finish(&mut self, message: &[u8]) -> Result<Channel, HandshakeError> {
        let (channel, payload) = self.finish_with_payload(message)?;
        match payload.as_slice() {
            [] => Ok(channel),
            AUTHENTICATION_REJECTED => Err(HandshakeError::CredentialsRejected),
            _ => Err(HandshakeError::UnexpectedPayload),
        }
    }

    /// Reads message 2, whatever authentic payload it carries.
    ///
    /// # Errors
    /// A message that is no answer of this peer to this handshake; it leaves no trace, and the right one is still
    /// accepted afterwards. [`HandshakeError::Finished`] once one was.
    pub fn finish_with_payload(
        &mut self,
        message: &[u8],
    ) -> Result<(Channel, Vec<u8>), HandshakeError> {
        let (channel, payload) = match &mut self.0 {
            Initiating::Hybrid(waiting) => {
                check_response(message, hybrid::MESSAGE_2_BYTES)?;
                let (state, payload) = hybrid::read_message_2(waiting, message)?;
                let outcome = hybrid::outcome(state);
                let sealing = SealingKey::Cipher(outcome.initiator_to_responder);
                let opening = OpeningKey::Cipher(outcome.responder_to_initiator);
                (Channel::new(sealing, opening, outcome.hash), payload)
            }
            Initiating::Classic(state) => {
                check_response(message, classic::MESSAGE_2_BYTES)?;
                let payload = classic::read_message_2(state, message)?;
                let Initiating::Classic(state) =
                    std::mem::replace(&mut self.0, Initiating::Finished)
                else {
                    return Err(HandshakeError::Finished);
                };
                (Channel::classic(classic::outcome(*state)?), payload)
            }
            Initiating::Finished => return Err(HandshakeError::Finished),
        };
        self.0 = Initiating::Finished;
        Ok((channel, payload))
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Initiator").finish_non_exhaustive()
    }
}

/// The executor's end, between message 1 and message 2: it knows who calls and has promised nothing.
pub struct Responder {
    state: Responding,
    authorization: String,
}

enum Responding {
    Hybrid(Box<hybrid::Asked>),
    Classic(Box<classic::Asked>),
}

impl Responder {
    /// Reads message 1; `identity` is untouched by whatever it holds.
    ///
    /// # Errors
    /// A message that was not made for this identity in this context, an authorization over
    /// [`limits::AUTHORIZATION`] or not UTF-8, unusable keys.
    pub fn read(
        identity: &Identity,
        prologue: &Prologue,
        message: &[u8],
    ) -> Result<Responder, HandshakeError> {
        Responder::read_with(identity, prologue, message, &mut SystemEntropy)
    }

    /// [`Responder::read`] with another source of randomness, for test vectors.
    ///
    /// # Errors
    /// As [`Responder::read`].
    pub fn read_with(
        identity: &Identity,
        prologue: &Prologue,
        message: &[u8],
        entropy: &mut dyn Entropy,
    ) -> Result<Responder, HandshakeError> {
        let fixed = match prologue.suite() {
            Suite::HybridIk => hybrid::MESSAGE_1_BYTES,
            Suite::Ik => classic::MESSAGE_1_BYTES,
        };
        if message.len() > fixed + limits::AUTHORIZATION {
            return Err(HandshakeError::AuthorizationTooLong);
        }
        let (state, payload) = match prologue.suite() {
            Suite::HybridIk => {
                let mut asked = hybrid::read_message_1(identity, prologue, message)?;
                let payload = std::mem::take(&mut asked.payload);
                (Responding::Hybrid(Box::new(asked)), payload)
            }
            Suite::Ik => {
                let mut asked = classic::read_message_1(identity, prologue, message, entropy)?;
                let payload = std::mem::take(&mut asked.payload);
                (Responding::Classic(Box::new(asked)), payload)
            }
        };
        let authorization =
            String::from_utf8(payload).map_err(|_| HandshakeError::AuthorizationNotText)?;
        Ok(Responder {
            state,
            authorization,
        })
    }

    /// Message 2 for a harness that the registry vouches for, and the channel to it.
    ///
    /// # Errors
    /// No randomness, or an unusable key.
    pub fn accept(self) -> Result<(Vec<u8>, Channel), HandshakeError> {
        self.respond_with(&[], &mut SystemEntropy)
    }

    /// Message 2 that tells the harness that the registry refused the executor's own credentials. There is no channel.
    ///
    /// # Errors
    /// No randomness, or an unusable key.
    pub fn reject_credentials(self) -> Result<Vec<u8>, HandshakeError> {
        Ok(self
            .respond_with(AUTHENTICATION_REJECTED, &mut SystemEntropy)?
            .0)
    }

    /// Message 2 with any payload and another source of randomness, for test vectors.
    ///
    /// # Errors
    /// No randomness, or an unusable key.
    pub fn respond_with(
        self,
        payload: &[u8],
        entropy: &mut dyn Entropy,
    ) -> Result<(Vec<u8>, Channel), HandshakeError> {
        match self.state {
            Responding::Hybrid(asked) => {
                let (state, message) = hybrid::write_message_2(*asked, payload, entropy)?;
                let outcome = hybrid::outcome(state);
                let sealing = SealingKey::Cipher(outcome.responder_to_initiator);
                let opening = OpeningKey::Cipher(outcome.initiator_to_responder);
                Ok((message, Channel::new(sealing, opening, outcome.hash)))
            }
            Responding::Classic(asked) => {
                let (outcome, message) = classic::write_message_2(*asked, payload)?;
                Ok((message, Channel::classic(outcome)))
            }
        }
    }

    /// Who calls, proven by possession of the key; not yet authorized.
    pub fn harness_key(&self) -> &PublicKey {
        match &self.state {
            Responding::Hybrid(asked) => &asked.remote,
            Responding::Classic(asked) => &asked.remote,
        }
    }

    /// What the registry gave the harness; secret, never to be logged.
    pub fn authorization(&self) -> &str {
        &self.authorization
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("harness_key", self.harness_key())
            .finish_non_exhaustive()
    }
}

fn check_response(message: &[u8], fixed: usize) -> Result<(), HandshakeError> {
    if message.len() > fixed + limits::AUTHORIZATION {
        return Err(HandshakeError::TooLong);
    }
    Ok(())
}
