//! Every byte string of `noise-vectors.json` that this crate makes, intermediate hashes and keys included.

use std::collections::VecDeque;

use serde_json::Value;

use crate::{
    Channel, Entropy, HandshakeError, Identity, Initiator, Prologue, Responder, Suite, hybrid,
    primitives,
};

fn vectors(suite: &str) -> Value {
    let text = include_str!("../tests/vectors/noise-vectors.json");
    serde_json::from_str::<Value>(text).unwrap()[suite].take()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap()
}

fn bytes(value: &Value, pointer: &str) -> Vec<u8> {
    hex::decode(text(value, pointer)).unwrap()
}

/// Hands out scripted draws and insists on their lengths and order.
struct Script(VecDeque<Vec<u8>>);

impl Script {
    fn new<const N: usize>(draws: [Vec<u8>; N]) -> Script {
        Script(draws.into())
    }
}

impl Entropy for Script {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), HandshakeError> {
        out.copy_from_slice(&self.0.pop_front().expect("no draw is left"));
        Ok(())
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        assert!(self.0.is_empty(), "a scripted draw was not used");
    }
}

fn seed(value: &Value, at: &str, prefix: &str) -> Vec<u8> {
    let half = |name: &str| bytes(value, &format!("{at}/{prefix}mlkem_{name}"));
    [half("d"), half("z")].concat()
}

fn identity(value: &Value, at: &str) -> Identity {
    let x25519 = bytes(value, &format!("{at}/x25519_secret"));
    Identity::generate_with(&mut Script::new([x25519, seed(value, at, "")])).unwrap()
}

fn message_1_script(v: &Value) -> Script {
    Script::new([
        bytes(v, "/message_1/skem_encaps_m"),
        bytes(v, "/message_1/e_x25519_secret"),
        seed(v, "/message_1", "e_"),
    ])
}

fn message_2_script(v: &Value) -> Script {
    Script::new([
        bytes(v, "/message_2/ekem_encaps_m"),
        bytes(v, "/message_2/skem_encaps_m"),
        bytes(v, "/message_2/e_x25519_secret"),
        seed(v, "/message_2", "e_"),
    ])
}

fn prologue(v: &Value) -> Prologue {
    Prologue::new(
        Suite::HybridIk,
        text(v, "/environment_id"),
        text(v, "/executor_registration_id"),
        text(v, "/stream_id"),
    )
}

fn sha256(data: &[u8]) -> String {
    let mut hash = primitives::sha256();
    let mut out = [0; 32];
    hash.input(data);
    hash.result(&mut out);
    hex::encode(out)
}

#[test]
fn names_and_prologue() {
    let v = vectors("noise_hybrid_ik_v1");
    assert_eq!(Suite::HybridIk.profile(), text(&v, "/suite"));
    assert_eq!(
        Suite::HybridIk.protocol_name(),
        text(&v, "/noise_protocol_name")
    );
    assert_eq!(prologue(&v).as_bytes(), bytes(&v, "/prologue"));

    let v = vectors("noise_ik_v1_proposed");
    assert_eq!(Suite::Ik.protocol_name(), text(&v, "/noise_protocol_name"));
    let prologue = Prologue::new(
        Suite::Ik,
        "env-1",
        "reg-1",
        "6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10",
    );
    assert_eq!(prologue.as_bytes(), bytes(&v, "/prologue"));
}

#[test]
fn hybrid_public_keys() {
    let v = vectors("noise_hybrid_ik_v1");
    for who in ["/executor_static", "/harness_static"] {
        let public = identity(&v, who).public(Suite::HybridIk);
        assert_eq!(
            &public.x25519()[..],
            bytes(&v, &format!("{who}/x25519_public"))
        );
        let kem = public.mlkem768().unwrap();
        assert_eq!(sha256(kem), text(&v, &format!("{who}/mlkem_public_sha256")));
    }
}

#[test]
fn hybrid_handshake_step_by_step() {
    let v = vectors("noise_hybrid_ik_v1");
    let executor = identity(&v, "/executor_static");
    let harness = identity(&v, "/harness_static");
    let executor_key = executor.public(Suite::HybridIk);
    let authorization = text(&v, "/harness_key_authorization").as_bytes();

    let before = hybrid::start(
        &prologue(&v),
        executor.x25519_public(),
        executor.kem_public(),
    );
    assert_eq!(&before.hash()[..], bytes(&v, "/h_before_message_1"));

    let (waiting, message_1) = hybrid::write_message_1(
        &harness,
        &executor_key,
        &prologue(&v),
        authorization,
        &mut message_1_script(&v),
    )
    .unwrap();
    assert_eq!(message_1, bytes(&v, "/message_1/bytes"));
    assert_eq!(sha256(&message_1), text(&v, "/message_1/sha256"));

    let asked = hybrid::read_message_1(&executor, &prologue(&v), &message_1).unwrap();
    assert_eq!(asked.payload, authorization);
    assert_eq!(asked.remote, harness.public(Suite::HybridIk));
    for state in [&waiting.state, &asked.state] {
        assert_eq!(&state.hash()[..], bytes(&v, "/h_after_message_1"));
        assert_eq!(&state.chaining_key()[..], bytes(&v, "/ck_after_message_1"));
    }

    let (responder, message_2) =
        hybrid::write_message_2(asked, &[], &mut message_2_script(&v)).unwrap();
    assert_eq!(message_2, bytes(&v, "/message_2/bytes"));
    assert_eq!(sha256(&message_2), text(&v, "/message_2/sha256"));

    let (initiator, payload) = hybrid::read_message_2(&waiting, &message_2).unwrap();
    assert_eq!(payload, bytes(&v, "/message_2/payload"));
    for mut state in [responder, initiator] {
        assert_eq!(&state.hash()[..], bytes(&v, "/h_final"));
        assert_eq!(&state.chaining_key()[..], bytes(&v, "/ck_final"));
        let (forth, back) = state.split();
        assert_eq!(&forth[..], bytes(&v, "/key_initiator_to_responder"));
        assert_eq!(&back[..], bytes(&v, "/key_responder_to_initiator"));
    }
}

fn hybrid_channels(v: &Value) -> (Channel, Channel) {
    let executor = identity(v, "/executor_static");
    let harness = identity(v, "/harness_static");
    let (mut initiator, message_1) = Initiator::start_with(
        &harness,
        &executor.public(Suite::HybridIk),
        &prologue(v),
        text(v, "/harness_key_authorization"),
        &mut message_1_script(v),
    )
    .unwrap();
    let responder = Responder::read(&executor, &prologue(v), &message_1).unwrap();
    let (message_2, executor_side) = responder
        .respond_with(&[], &mut message_2_script(v))
        .unwrap();
    (initiator.finish(&message_2).unwrap(), executor_side)
}

#[test]
fn hybrid_records() {
    let v = vectors("noise_hybrid_ik_v1");
    let (harness_side, executor_side) = hybrid_channels(&v);
    assert_eq!(&harness_side.handshake_hash()[..], bytes(&v, "/h_final"));
    let (mut forth_sealer, mut back_opener) = harness_side.split();
    let (mut back_sealer, mut forth_opener) = executor_side.split();
    let records = v["records"].as_array().unwrap();
    assert_eq!(records.len(), 3);
    for record in records {
        let (sealer, opener) = match text(record, "/dir") {
            "i2r" => (&mut forth_sealer, &mut forth_opener),
            "r2i" => (&mut back_sealer, &mut back_opener),
            other => panic!("direction {other}"),
        };
        let plaintext = bytes(record, "/plaintext");
        let message = plaintext[4..].to_vec();
        sealer.push(message.clone()).unwrap();
        let next = sealer.upcoming().unwrap();
        assert_eq!(u64::from(next.seq), record["nonce"].as_u64().unwrap());
        let mut sealed = Vec::new();
        sealer.seal(&mut sealed).unwrap();
        assert_eq!(sealed, bytes(record, "/ciphertext"));
        opener.accept(next.seq, sealed.into()).unwrap();
        assert_eq!(opener.message().unwrap().unwrap(), message);
    }
}

#[test]
fn plain_ik() {
    let v = vectors("noise_ik_v1_proposed");
    let with_x25519 =
        |at: &str| Identity::generate_with(&mut Script::new([bytes(&v, at), vec![0; 64]])).unwrap();
    let executor = with_x25519("/executor_x25519_secret");
    let harness = with_x25519("/harness_x25519_secret");
    let prologue = Prologue::new(
        Suite::Ik,
        "env-1",
        "reg-1",
        "6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10",
    );
    let authorization = text(&v, "/harness_key_authorization");

    let (mut initiator, message_1) = Initiator::start_with(
        &harness,
        &executor.public(Suite::Ik),
        &prologue,
        authorization,
        &mut Script::new([bytes(&v, "/harness_ephemeral_secret")]),
    )
    .unwrap();
    assert_eq!(message_1, bytes(&v, "/message_1"));
    let responder = Responder::read_with(
        &executor,
        &prologue,
        &message_1,
        &mut Script::new([bytes(&v, "/executor_ephemeral_secret")]),
    )
    .unwrap();
    assert_eq!(responder.authorization(), authorization);
    assert_eq!(responder.harness_key(), &harness.public(Suite::Ik));
    let (message_2, executor_side) = responder.accept().unwrap();
    assert_eq!(message_2, bytes(&v, "/message_2"));
    let harness_side = initiator.finish(&message_2).unwrap();
    assert_eq!(&harness_side.handshake_hash()[..], bytes(&v, "/h_final"));
    assert_eq!(&executor_side.handshake_hash()[..], bytes(&v, "/h_final"));

    let (mut sealer, _) = harness_side.split();
    let (_, mut opener) = executor_side.split();
    sealer.push("{}").unwrap();
    let mut record = Vec::new();
    sealer.seal(&mut record).unwrap();
    assert_eq!(record, bytes(&v, "/record0_i2r/ciphertext"));
    opener.accept(0, record.into()).unwrap();
    assert_eq!(opener.message().unwrap().unwrap(), "{}");
}
