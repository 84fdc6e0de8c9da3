//! Plain `Noise_IK_25519_AESGCM_SHA256` (noise-relay.md 9.1): snow's own handshake state on our wrapped primitives.

use snow::params::NoiseParams;
use snow::types::Dh;
use snow::{Builder, HandshakeState, StatelessTransportState};
use zeroize::Zeroizing;

use crate::primitives::{DH_BYTES, KEY_BYTES, Resolver, TAG_BYTES};
use crate::{Entropy, HandshakeError, Identity, Prologue, PublicKey, Suite};

/// Message 1 without its payload.
pub(crate) const MESSAGE_1_BYTES: usize = DH_BYTES + (DH_BYTES + TAG_BYTES) + TAG_BYTES;
/// Message 2 without its payload.
pub(crate) const MESSAGE_2_BYTES: usize = DH_BYTES + TAG_BYTES;

/// What a finished handshake yields.
pub(crate) struct Outcome {
    pub(crate) transport: StatelessTransportState,
    pub(crate) hash: [u8; KEY_BYTES],
}

/// Writes message 1. Draws 32 bytes for the ephemeral key.
pub(crate) fn write_message_1(
    identity: &Identity,
    remote: &PublicKey,
    prologue: &Prologue,
    payload: &[u8],
    entropy: &mut dyn Entropy,
) -> Result<(HandshakeState, Vec<u8>), HandshakeError> {
    let mut state = builder(prologue, identity, entropy)?
        .remote_public_key(remote.x25519())
        .and_then(Builder::build_initiator)
        .map_err(refused)?;
    let message = write(&mut state, MESSAGE_1_BYTES, payload)?;
    Ok((state, message))
}

/// The responder between message 1 and its answer.
pub(crate) struct Asked {
    state: HandshakeState,
    pub(crate) remote: PublicKey,
    pub(crate) payload: Vec<u8>,
}

/// Reads message 1. Draws 32 bytes for the answer's ephemeral key: snow wants its generator up front.
pub(crate) fn read_message_1(
    identity: &Identity,
    prologue: &Prologue,
    message: &[u8],
    entropy: &mut dyn Entropy,
) -> Result<Asked, HandshakeError> {
    let payload_bytes = message
        .len()
        .checked_sub(MESSAGE_1_BYTES)
        .ok_or(HandshakeError::TooShort)?;
    let mut state = builder(prologue, identity, entropy)?
        .build_responder()
        .map_err(refused)?;
    let mut payload = vec![0; payload_bytes];
    state.read_message(message, &mut payload).map_err(refused)?;
    let remote = state
        .get_remote_static()
        .ok_or(HandshakeError::UnusableKey)?;
    let remote =
        PublicKey::new(Suite::Ik, remote, None).map_err(|_| HandshakeError::UnusableKey)?;
    Ok(Asked {
        state,
        remote,
        payload,
    })
}

/// Writes message 2.
pub(crate) fn write_message_2(
    asked: Asked,
    payload: &[u8],
) -> Result<(Outcome, Vec<u8>), HandshakeError> {
    let mut state = asked.state;
    let message = write(&mut state, MESSAGE_2_BYTES, payload)?;
    Ok((outcome(state)?, message))
}

/// Reads message 2 and returns the payload; on an error `state` is as it was (snow restores its checkpoint).
pub(crate) fn read_message_2(
    state: &mut HandshakeState,
    message: &[u8],
) -> Result<Vec<u8>, HandshakeError> {
    let payload_bytes = message
        .len()
        .checked_sub(MESSAGE_2_BYTES)
        .ok_or(HandshakeError::TooShort)?;
    let mut payload = vec![0; payload_bytes];
    state.read_message(message, &mut payload).map_err(refused)?;
    Ok(payload)
}

/// Splits a finished handshake.
pub(crate) fn outcome(state: HandshakeState) -> Result<Outcome, HandshakeError> {
    let hash = state
        .get_handshake_hash()
        .try_into()
        .map_err(|_| HandshakeError::SuiteMismatch)?;
    let transport = state.into_stateless_transport_mode().map_err(refused)?;
    Ok(Outcome { transport, hash })
}

fn builder<'a>(
    prologue: &'a Prologue,
    identity: &'a Identity,
    entropy: &mut dyn Entropy,
) -> Result<Builder<'a>, HandshakeError> {
    let params: NoiseParams = Suite::Ik.protocol_name().parse().map_err(refused)?;
    let mut ephemeral = Zeroizing::new([0; DH_BYTES]);
    entropy.fill(&mut *ephemeral)?;
    Builder::with_resolver(params, Box::new(Resolver::new(ephemeral)))
        .prologue(prologue.as_bytes())
        .and_then(|builder| builder.local_private_key(identity.x25519().privkey()))
        .map_err(refused)
}

fn write(
    state: &mut HandshakeState,
    fixed: usize,
    payload: &[u8],
) -> Result<Vec<u8>, HandshakeError> {
    let mut message = vec![0; fixed + payload.len()];
    let length = state
        .write_message(payload, &mut message)
        .map_err(refused)?;
    message.truncate(length);
    Ok(message)
}

fn refused(error: snow::Error) -> HandshakeError {
    match error {
        snow::Error::Dh => HandshakeError::UnusableKey,
        snow::Error::Rng => HandshakeError::Entropy,
        // Its enum is open: whatever else it says, the message was not accepted.
        _ => HandshakeError::Authentication,
    }
}
