//! `clatter`, an independent implementation with an independent ML-KEM (PQClean's), on the other end: random
//! handshakes in each role, and every record the same bytes.
//!
//! 100 handshakes per suite and role by default, 10,000 with `MAINSTAY_TEST_ALL`.

use clatter::bytearray::ByteArray;
use clatter::crypto::cipher::AesGcm;
use clatter::crypto::dh::X25519;
use clatter::crypto::hash::Sha256;
use clatter::crypto::kem::pqclean_ml_kem::MlKem768;
use clatter::handshakepattern::{noise_hybrid_ik, noise_ik};
use clatter::traits::{Dh, Kem};
use clatter::transportstate::TransportState;
use clatter::{Handshaker, HybridHandshake, HybridHandshakeParams, KeyPair, NqHandshake};
use mainstay_noise::{
    Channel, HandshakeError, Identity, Initiator, Opener, Prologue, PublicKey, Responder, Sealer,
    Suite,
};
use mainstay_wire::limits::RECORD;

type Hybrid = HybridHandshake<X25519, MlKem768, MlKem768, AesGcm, Sha256>;
type Plain = NqHandshake<X25519, AesGcm, Sha256>;
type Transport = TransportState<AesGcm, Sha256>;
type DhPair = KeyPair<<X25519 as Dh>::PubKey, <X25519 as Dh>::PrivateKey>;
type KemPair = KeyPair<<MlKem768 as Kem>::PubKey, <MlKem768 as Kem>::SecretKey>;

/// The other implementation's identity.
struct Other {
    dh: DhPair,
    kem: KemPair,
}

impl Other {
    fn new() -> Other {
        Other {
            dh: X25519::genkey().unwrap(),
            kem: MlKem768::genkey().unwrap(),
        }
    }

    fn public(&self, suite: Suite) -> PublicKey {
        let kem = match suite {
            Suite::HybridIk => Some(self.kem.public.as_slice()),
            Suite::Ik => None,
        };
        PublicKey::new(suite, self.dh.public.as_slice(), kem).unwrap()
    }

    fn hybrid(&self, initiator: bool, prologue: &[u8], remote: Option<&PublicKey>) -> Hybrid {
        let mut params = HybridHandshakeParams::new(noise_hybrid_ik(), initiator)
            .with_prologue(prologue)
            .with_s(self.dh.clone())
            .with_s_kem(self.kem.clone());
        if let Some(remote) = remote {
            let kem = ByteArray::from_slice(remote.mlkem768().unwrap());
            params = params.with_rs(*remote.x25519()).with_rs_kem(kem);
        }
        Hybrid::new(params).unwrap()
    }

    fn plain(&self, initiator: bool, prologue: &[u8], remote: Option<&PublicKey>) -> Plain {
        let remote = remote.map(|remote| *remote.x25519());
        Plain::new(
            noise_ik(),
            prologue,
            initiator,
            Some(self.dh.clone()),
            None,
            remote,
            None,
        )
        .unwrap()
    }
}

fn handshakes() -> usize {
    match std::env::var_os("MAINSTAY_TEST_ALL") {
        Some(_) => 10_000,
        None => 100,
    }
}

/// A few random bytes per round, without another dependency: what differs is what matters.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

/// A random text of 0 to 4096 bytes.
fn authorization() -> String {
    let length = usize::from(u16::from_be_bytes(random())) % 4097;
    hex::encode(random::<2048>())[..length].to_owned()
}

fn prologue(suite: Suite) -> Prologue {
    let part = || hex::encode(random::<12>());
    Prologue::new(suite, &part(), &part(), &part())
}

#[test]
fn ours_initiates_the_hybrid() {
    for _ in 0..handshakes() {
        let (ours, other) = (Identity::generate().unwrap(), Other::new());
        let prologue = prologue(Suite::HybridIk);
        let responder = other.hybrid(false, prologue.as_bytes(), None);
        we_initiate(&ours, &other.public(Suite::HybridIk), &prologue, responder);
    }
}

#[test]
fn ours_answers_the_hybrid() {
    for _ in 0..handshakes() {
        let (ours, other) = (Identity::generate().unwrap(), Other::new());
        let prologue = prologue(Suite::HybridIk);
        let remote = ours.public(Suite::HybridIk);
        let initiator = other.hybrid(true, prologue.as_bytes(), Some(&remote));
        we_answer(&ours, &other.public(Suite::HybridIk), &prologue, initiator);
    }
}

#[test]
fn ours_initiates_plain_ik() {
    for _ in 0..handshakes() {
        let (ours, other) = (Identity::generate().unwrap(), Other::new());
        let prologue = prologue(Suite::Ik);
        let responder = other.plain(false, prologue.as_bytes(), None);
        we_initiate(&ours, &other.public(Suite::Ik), &prologue, responder);
    }
}

#[test]
fn ours_answers_plain_ik() {
    for _ in 0..handshakes() {
        let (ours, other) = (Identity::generate().unwrap(), Other::new());
        let prologue = prologue(Suite::Ik);
        let initiator = other.plain(true, prologue.as_bytes(), Some(&ours.public(Suite::Ik)));
        we_answer(&ours, &other.public(Suite::Ik), &prologue, initiator);
    }
}

#[test]
fn authorizations_that_we_would_not_send() {
    for (payload, refusal) in [
        (vec![b'a'; 4097], HandshakeError::AuthorizationTooLong),
        (vec![0xff], HandshakeError::AuthorizationNotText),
    ] {
        let (ours, other) = (Identity::generate().unwrap(), Other::new());
        let prologue = prologue(Suite::HybridIk);
        let remote = ours.public(Suite::HybridIk);
        let mut initiator = other.hybrid(true, prologue.as_bytes(), Some(&remote));
        let message = written(&mut initiator, &payload);
        assert_eq!(
            Responder::read(&ours, &prologue, &message).unwrap_err(),
            refusal
        );
    }
}

#[test]
fn an_unusable_harness_key_is_refused_before_anybody_is_asked() {
    let (ours, mut other) = (Identity::generate().unwrap(), Other::new());
    other.kem.public = ByteArray::new_with(0xff);
    let prologue = prologue(Suite::HybridIk);
    let remote = ours.public(Suite::HybridIk);
    let mut initiator = other.hybrid(true, prologue.as_bytes(), Some(&remote));
    let message = written(&mut initiator, b"authorization");
    let refused = Responder::read(&ours, &prologue, &message).unwrap_err();
    assert_eq!(refused, HandshakeError::UnusableKey);
}

fn written(other: &mut Hybrid, payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0; 65_535];
    let length = other.write_message(payload, &mut buffer).unwrap();
    buffer.truncate(length);
    buffer
}

fn we_initiate(
    ours: &Identity,
    remote: &PublicKey,
    prologue: &Prologue,
    mut other: impl Handshaker<AesGcm, Sha256>,
) {
    let (sent, answered) = (authorization(), random::<33>());
    let (mut initiator, message_1) = Initiator::start(ours, remote, prologue, &sent).unwrap();
    let mut buffer = vec![0; 65_535];
    let read = other.read_message(&message_1, &mut buffer).unwrap();
    assert_eq!(&buffer[..read], sent.as_bytes());
    let written = other.write_message(&answered, &mut buffer).unwrap();
    let (channel, payload) = initiator.finish_with_payload(&buffer[..written]).unwrap();
    assert_eq!(payload, answered);
    agree(channel, other.finalize().unwrap());
}

fn we_answer(
    ours: &Identity,
    remote: &PublicKey,
    prologue: &Prologue,
    mut other: impl Handshaker<AesGcm, Sha256>,
) {
    let (sent, answered) = (authorization(), random::<33>());
    let mut buffer = vec![0; 65_535];
    let written = other.write_message(sent.as_bytes(), &mut buffer).unwrap();
    let responder = Responder::read(ours, prologue, &buffer[..written]).unwrap();
    assert_eq!(responder.authorization(), sent);
    assert_eq!(responder.harness_key(), remote);
    let mut entropy = mainstay_noise::SystemEntropy;
    let (message_2, channel) = responder.respond_with(&answered, &mut entropy).unwrap();
    let read = other.read_message(&message_2, &mut buffer).unwrap();
    assert_eq!(&buffer[..read], answered);
    agree(channel, other.finalize().unwrap());
}

/// The handshake hash, and a few records each way. AES-GCM is a bijection per key and nonce: a record that the other
/// end opens to the same plaintext is, byte for byte, the record that it would have made.
fn agree(channel: Channel, mut other: Transport) {
    assert_eq!(
        &channel.handshake_hash()[..],
        other.get_handshake_hash().as_slice()
    );
    let (mut sealer, mut opener) = channel.split();
    // The other end's cipher is slow without optimisation: one handshake in 16 sends a message of two records.
    let [dice] = random::<1>();
    let long = if dice < 16 { 70_000 } else { 700 };
    for message in [&random::<1>()[..], &random::<300>(), &vec![dice; long]] {
        let framed = [&(message.len() as u32).to_be_bytes()[..], message].concat();
        ours_to_other(&mut sealer, message, &framed, &mut other);
        other_to_ours(&mut opener, message, &framed, &mut other);
    }
}

fn ours_to_other(sealer: &mut Sealer, message: &[u8], framed: &[u8], other: &mut Transport) {
    sealer.push(message.to_vec()).unwrap();
    let mut chunks = framed.chunks(RECORD);
    while let Some(next) = sealer.upcoming() {
        let mut record = Vec::new();
        sealer.seal(&mut record).unwrap();
        assert_eq!(record.len(), next.len);
        assert_eq!(other.receiving_nonce(), u64::from(next.seq));
        assert_eq!(other.receive_vec(&record).unwrap(), chunks.next().unwrap());
    }
    assert_eq!(chunks.next(), None);
}

fn other_to_ours(opener: &mut Opener, message: &[u8], framed: &[u8], other: &mut Transport) {
    for chunk in framed.chunks(RECORD) {
        let seq = u32::try_from(other.sending_nonce()).unwrap();
        let record = other.send_vec(chunk).unwrap();
        opener.accept(seq, record.into()).unwrap();
    }
    assert_eq!(opener.message().unwrap().unwrap(), message);
    assert_eq!(opener.message(), Ok(None));
}
