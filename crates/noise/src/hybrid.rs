//! The pattern `hybridIK` (noise-relay.md 5.3), which snow cannot name, on snow's primitives and ML-KEM-768:
//!
//! ```text
//! <- s
//! -> skem, e, es, s, ss
//! <- ekem, skem, e, ee, se
//! ```

use snow::types::{Cipher, Dh};
use zeroize::Zeroizing;

use crate::kem::{CIPHERTEXT_BYTES, PUBLIC_BYTES};
use crate::primitives::{DH_BYTES, KEY_BYTES, TAG_BYTES, WipedDh, aes_gcm, x25519};
use crate::symmetric::Symmetric;
use crate::{Entropy, HandshakeError, Identity, Prologue, PublicKey, Suite, kem};

/// Message 1 without its payload.
pub(crate) const MESSAGE_1_BYTES: usize = CIPHERTEXT_BYTES
    + DH_BYTES
    + PUBLIC_BYTES
    + (DH_BYTES + TAG_BYTES)
    + (PUBLIC_BYTES + TAG_BYTES)
    + TAG_BYTES;
/// Message 2 without its payload.
pub(crate) const MESSAGE_2_BYTES: usize =
    CIPHERTEXT_BYTES + (CIPHERTEXT_BYTES + TAG_BYTES) + DH_BYTES + PUBLIC_BYTES + TAG_BYTES;

/// What a finished handshake yields.
pub(crate) struct Outcome {
    pub(crate) initiator_to_responder: Box<dyn Cipher>,
    pub(crate) responder_to_initiator: Box<dyn Cipher>,
    pub(crate) hash: [u8; KEY_BYTES],
}

/// The initiator between its message and the answer.
pub(crate) struct Waiting {
    pub(crate) state: Symmetric,
    identity: Identity,
    ephemeral: WipedDh,
    ephemeral_kem: kem::Secret,
}

/// Writes message 1. Draws, in order: 32 bytes for the encapsulation, 32 for X25519, 64 for ML-KEM.
pub(crate) fn write_message_1(
    identity: &Identity,
    remote: &PublicKey,
    prologue: &Prologue,
    payload: &[u8],
    entropy: &mut dyn Entropy,
) -> Result<(Waiting, Vec<u8>), HandshakeError> {
    let remote_kem = remote.mlkem768().ok_or(HandshakeError::SuiteMismatch)?;
    let mut state = start(prologue, remote.x25519(), remote_kem);
    let mut message = Vec::with_capacity(MESSAGE_1_BYTES + payload.len());

    // skem
    let (ciphertext, shared) = kem::Public::new(remote_kem)?.encapsulate(entropy)?;
    state.encrypt_and_hash(&ciphertext, &mut message);
    state.mix_key_and_hash(&*shared);
    // e
    let ephemeral = fresh_x25519(entropy)?;
    let ephemeral_kem = kem::Secret::generate(entropy)?;
    write_ephemeral(&mut state, &ephemeral, &ephemeral_kem, &mut message);
    // es
    mix_dh(&mut state, &ephemeral, remote.x25519())?;
    // s
    state.encrypt_and_hash(identity.x25519_public(), &mut message);
    state.encrypt_and_hash(identity.kem_public(), &mut message);
    // ss
    mix_dh(&mut state, identity.x25519(), remote.x25519())?;
    state.encrypt_and_hash(payload, &mut message);
    Ok((
        Waiting {
            state,
            identity: identity.clone(),
            ephemeral,
            ephemeral_kem,
        },
        message,
    ))
}

/// The responder between message 1 and its answer.
pub(crate) struct Asked {
    pub(crate) state: Symmetric,
    pub(crate) remote: PublicKey,
    pub(crate) payload: Vec<u8>,
    remote_kem: kem::Public,
    remote_ephemeral: [u8; DH_BYTES],
    remote_ephemeral_kem: kem::Public,
}

/// Reads message 1.
pub(crate) fn read_message_1(
    identity: &Identity,
    prologue: &Prologue,
    message: &[u8],
) -> Result<Asked, HandshakeError> {
    // Every length first: nothing is computed for a message that cannot be whole.
    let payload_bytes = message
        .len()
        .checked_sub(MESSAGE_1_BYTES)
        .ok_or(HandshakeError::TooShort)?;
    let mut rest = message;
    let ciphertext = take::<CIPHERTEXT_BYTES>(&mut rest)?;
    let remote_ephemeral = take::<DH_BYTES>(&mut rest)?;
    let remote_ephemeral_kem = take::<PUBLIC_BYTES>(&mut rest)?;
    let sealed_x25519 = take::<{ DH_BYTES + TAG_BYTES }>(&mut rest)?;
    let sealed_kem = take::<{ PUBLIC_BYTES + TAG_BYTES }>(&mut rest)?;

    let mut state = start(prologue, identity.x25519_public(), identity.kem_public());
    // skem
    let mut clear = [0; CIPHERTEXT_BYTES];
    state.decrypt_and_hash(ciphertext, &mut clear)?;
    state.mix_key_and_hash(&*identity.kem().decapsulate(&clear));
    // e
    state.mix_hash(remote_ephemeral);
    state.mix_hash(remote_ephemeral_kem);
    // es
    mix_dh(&mut state, identity.x25519(), remote_ephemeral)?;
    // s
    let mut remote_x25519 = [0; DH_BYTES];
    state.decrypt_and_hash(sealed_x25519, &mut remote_x25519)?;
    let mut remote_kem = [0; PUBLIC_BYTES];
    state.decrypt_and_hash(sealed_kem, &mut remote_kem)?;
    // ss
    mix_dh(&mut state, identity.x25519(), &remote_x25519)?;
    let mut payload = vec![0; payload_bytes];
    state.decrypt_and_hash(rest, &mut payload)?;

    let remote = PublicKey::new(Suite::HybridIk, &remote_x25519, Some(&remote_kem))
        .map_err(|_| HandshakeError::UnusableKey)?;
    Ok(Asked {
        state,
        remote,
        payload,
        // Unusable keys are refused now, not after the registry has been asked.
        remote_kem: kem::Public::new(&remote_kem)?,
        remote_ephemeral: *remote_ephemeral,
        remote_ephemeral_kem: kem::Public::new(remote_ephemeral_kem)?,
    })
}

/// Writes message 2. Draws, in order: 32 bytes for each of two encapsulations, 32 for X25519, 64 for ML-KEM.
pub(crate) fn write_message_2(
    asked: Asked,
    payload: &[u8],
    entropy: &mut dyn Entropy,
) -> Result<(Symmetric, Vec<u8>), HandshakeError> {
    let Asked {
        mut state,
        remote,
        payload: _,
        remote_kem,
        remote_ephemeral,
        remote_ephemeral_kem,
    } = asked;
    let mut message = Vec::with_capacity(MESSAGE_2_BYTES + payload.len());
    // ekem
    let (ciphertext, shared) = remote_ephemeral_kem.encapsulate(entropy)?;
    state.mix_hash(&ciphertext);
    message.extend_from_slice(&ciphertext);
    state.mix_key(&*shared);
    // skem
    let (ciphertext, shared) = remote_kem.encapsulate(entropy)?;
    state.encrypt_and_hash(&ciphertext, &mut message);
    state.mix_key_and_hash(&*shared);
    // e; nobody uses its ML-KEM half, but it is sent and hashed.
    let ephemeral = fresh_x25519(entropy)?;
    write_ephemeral(
        &mut state,
        &ephemeral,
        &kem::Secret::generate(entropy)?,
        &mut message,
    );
    // ee, se
    mix_dh(&mut state, &ephemeral, &remote_ephemeral)?;
    mix_dh(&mut state, &ephemeral, remote.x25519())?;
    state.encrypt_and_hash(payload, &mut message);
    Ok((state, message))
}

/// Reads message 2 into the outcome and the payload; `waiting` stays as it was.
pub(crate) fn read_message_2(
    waiting: &Waiting,
    message: &[u8],
) -> Result<(Symmetric, Vec<u8>), HandshakeError> {
    let payload_bytes = message
        .len()
        .checked_sub(MESSAGE_2_BYTES)
        .ok_or(HandshakeError::TooShort)?;
    let mut rest = message;
    let ephemeral_ciphertext = take::<CIPHERTEXT_BYTES>(&mut rest)?;
    let sealed_ciphertext = take::<{ CIPHERTEXT_BYTES + TAG_BYTES }>(&mut rest)?;
    let remote_ephemeral = take::<DH_BYTES>(&mut rest)?;
    let remote_ephemeral_kem = take::<PUBLIC_BYTES>(&mut rest)?;

    let mut state = waiting.state.fork();
    // ekem
    state.mix_hash(ephemeral_ciphertext);
    state.mix_key(&*waiting.ephemeral_kem.decapsulate(ephemeral_ciphertext));
    // skem
    let mut ciphertext = [0; CIPHERTEXT_BYTES];
    state.decrypt_and_hash(sealed_ciphertext, &mut ciphertext)?;
    state.mix_key_and_hash(&*waiting.identity.kem().decapsulate(&ciphertext));
    // e
    state.mix_hash(remote_ephemeral);
    state.mix_hash(remote_ephemeral_kem);
    // ee, se
    mix_dh(&mut state, &waiting.ephemeral, remote_ephemeral)?;
    mix_dh(&mut state, waiting.identity.x25519(), remote_ephemeral)?;
    let mut payload = vec![0; payload_bytes];
    state.decrypt_and_hash(rest, &mut payload)?;
    Ok((state, payload))
}

/// Name, prologue, and the responder's static halves as two separate hashes.
pub(crate) fn start(
    prologue: &Prologue,
    x25519: &[u8; DH_BYTES],
    kem: &[u8; PUBLIC_BYTES],
) -> Symmetric {
    let mut state = Symmetric::new(Suite::HybridIk.protocol_name());
    state.mix_hash(prologue.as_bytes());
    state.mix_hash(x25519);
    state.mix_hash(kem);
    state
}

/// Splits a finished handshake.
pub(crate) fn outcome(mut state: Symmetric) -> Outcome {
    let hash = *state.hash();
    let (forth, back) = state.split();
    let (mut initiator_to_responder, mut responder_to_initiator) = (aes_gcm(), aes_gcm());
    initiator_to_responder.set(&forth);
    responder_to_initiator.set(&back);
    Outcome {
        initiator_to_responder,
        responder_to_initiator,
        hash,
    }
}

fn fresh_x25519(entropy: &mut dyn Entropy) -> Result<WipedDh, HandshakeError> {
    let mut secret = Zeroizing::new([0; DH_BYTES]);
    entropy.fill(&mut *secret)?;
    Ok(x25519(&secret))
}

fn write_ephemeral(
    state: &mut Symmetric,
    x25519: &WipedDh,
    kem: &kem::Secret,
    message: &mut Vec<u8>,
) {
    let kem = kem.public();
    state.mix_hash(x25519.pubkey());
    state.mix_hash(&kem);
    message.extend_from_slice(x25519.pubkey());
    message.extend_from_slice(&kem);
}

fn mix_dh(
    state: &mut Symmetric,
    own: &WipedDh,
    remote: &[u8; DH_BYTES],
) -> Result<(), HandshakeError> {
    let mut shared = Zeroizing::new([0; DH_BYTES]);
    own.dh(remote, &mut *shared)
        .map_err(|_| HandshakeError::UnusableKey)?;
    state.mix_key(&*shared);
    Ok(())
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], HandshakeError> {
    let (first, others) = rest.split_first_chunk().ok_or(HandshakeError::TooShort)?;
    *rest = others;
    Ok(first)
}
