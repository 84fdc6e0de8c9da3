//! Handshake messages that must be refused, each without a trace: the right message is still accepted afterwards.

use mainstay_noise::{
    HandshakeError, Identity, Initiator, InvalidPublicKey, Prologue, PublicKey, Responder, Suite,
};
use mainstay_wire::limits::AUTHORIZATION;

struct Pair {
    suite: Suite,
    executor: Identity,
    harness: Identity,
    prologue: Prologue,
}

impl Pair {
    fn new(suite: Suite) -> Pair {
        Pair {
            suite,
            executor: Identity::generate().unwrap(),
            harness: Identity::generate().unwrap(),
            prologue: Prologue::new(suite, "env", "reg", "stream"),
        }
    }

    fn start(&self) -> (Initiator, Vec<u8>) {
        let remote = self.executor.public(self.suite);
        Initiator::start(&self.harness, &remote, &self.prologue, "secret").unwrap()
    }

    fn read(&self, message: &[u8]) -> Result<Responder, HandshakeError> {
        Responder::read(&self.executor, &self.prologue, message)
    }

    fn answer(&self, message_1: &[u8]) -> Vec<u8> {
        self.read(message_1).unwrap().accept().unwrap().0
    }
}

/// Where the parts of a message begin, its end included (noise-relay.md 5.3, 9.1).
fn boundaries(suite: Suite, message: usize) -> Vec<usize> {
    match (suite, message) {
        (Suite::HybridIk, 1) => vec![0, 1088, 1120, 2304, 2336, 2352, 3536, 3552, 3558, 3574],
        (Suite::HybridIk, 2) => vec![0, 1088, 2176, 2192, 2224, 3408, 3424],
        (Suite::Ik, 1) => vec![0, 32, 64, 80, 86, 102],
        (Suite::Ik, 2) => vec![0, 32, 48],
        other => panic!("no such message: {other:?}"),
    }
}

/// One bit changed at the start, in the middle and at the end of each part.
fn tampered(suite: Suite, number: usize, message: &[u8]) -> Vec<Vec<u8>> {
    let boundaries = boundaries(suite, number);
    assert_eq!(boundaries.last(), Some(&message.len()), "the layout moved");
    let mut all = Vec::new();
    for part in boundaries.windows(2) {
        for at in [part[0], (part[0] + part[1]) / 2, part[1] - 1] {
            let mut changed = message.to_vec();
            changed[at] ^= 0x01;
            all.push(changed);
        }
    }
    all
}

/// Cut at each boundary, one before and one after; and one byte too many.
fn resized(suite: Suite, number: usize, message: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = boundaries(suite, number)
        .into_iter()
        .flat_map(|at| [at.saturating_sub(1), at, at + 1])
        .filter(|&length| length < message.len())
        .map(|length| message[..length].to_vec())
        .collect();
    all.push([message, &[0]].concat());
    all
}

#[test]
fn message_1_changed_anywhere_or_cut_anywhere() {
    for suite in Suite::ALL {
        let pair = Pair::new(suite);
        let (_, message) = pair.start();
        for wrong in tampered(suite, 1, &message) {
            pair.read(&wrong).unwrap_err();
        }
        for wrong in resized(suite, 1, &message) {
            pair.read(&wrong).unwrap_err();
        }
        assert_eq!(pair.read(&[]).unwrap_err(), HandshakeError::TooShort);
        assert_eq!(pair.read(&message).unwrap().authorization(), "secret");
    }
}

#[test]
fn message_2_changed_anywhere_or_cut_anywhere() {
    for suite in Suite::ALL {
        let pair = Pair::new(suite);
        let (mut initiator, message_1) = pair.start();
        let message = pair.answer(&message_1);
        for wrong in tampered(suite, 2, &message) {
            initiator.finish(&wrong).unwrap_err();
        }
        for wrong in resized(suite, 2, &message) {
            initiator.finish(&wrong).unwrap_err();
        }
        assert_eq!(initiator.finish(&[]).unwrap_err(), HandshakeError::TooShort);
        initiator.finish(&message).unwrap();
    }
}

#[test]
fn wrong_keys() {
    for suite in Suite::ALL {
        let pair = Pair::new(suite);
        let (mut initiator, message) = pair.start();
        let stranger = Identity::generate().unwrap();
        let refused = Responder::read(&stranger, &pair.prologue, &message).unwrap_err();
        assert_eq!(refused, HandshakeError::Authentication);
        // An answer to somebody else's message 1, and one from somebody else.
        let (_, others) = pair.start();
        let answer = pair.answer(&others);
        let refused = initiator.finish(&answer).unwrap_err();
        assert_eq!(refused, HandshakeError::Authentication);
        initiator.finish(&pair.answer(&message)).unwrap();
    }
}

#[test]
fn wrong_environment_registration_or_stream() {
    for suite in Suite::ALL {
        let pair = Pair::new(suite);
        let (_, message) = pair.start();
        for (environment, registration, stream) in [
            ("env2", "reg", "stream"),
            ("env", "reg2", "stream"),
            ("env", "reg", "stream2"),
            ("envr", "eg", "stream"),
            ("env", "reg", " stream"),
        ] {
            let prologue = Prologue::new(suite, environment, registration, stream);
            let refused = Responder::read(&pair.executor, &prologue, &message).unwrap_err();
            assert_eq!(refused, HandshakeError::Authentication);
        }
        pair.read(&message).unwrap();
    }
}

#[test]
fn a_message_2_is_taken_once() {
    for suite in Suite::ALL {
        let pair = Pair::new(suite);
        let (mut initiator, message_1) = pair.start();
        let message_2 = pair.answer(&message_1);
        initiator.finish(&message_2).unwrap();
        let replayed = initiator.finish(&message_2).unwrap_err();
        assert_eq!(replayed, HandshakeError::Finished);
    }
}

#[test]
fn suites_do_not_mix() {
    let pair = Pair::new(Suite::HybridIk);
    let plain = Prologue::new(Suite::Ik, "env", "reg", "stream");
    let hybrid_key = pair.executor.public(Suite::HybridIk);
    let refused = Initiator::start(&pair.harness, &hybrid_key, &plain, "").unwrap_err();
    assert_eq!(refused, HandshakeError::SuiteMismatch);
    let (_, message) = pair.start();
    Responder::read(&pair.executor, &plain, &message).unwrap_err();
}

#[test]
fn authorizations_over_the_limit() {
    for suite in Suite::ALL {
        let pair = Pair::new(suite);
        let remote = pair.executor.public(suite);
        let longest = "a".repeat(AUTHORIZATION);
        let (_, message) =
            Initiator::start(&pair.harness, &remote, &pair.prologue, &longest).unwrap();
        assert_eq!(pair.read(&message).unwrap().authorization(), longest);
        let longer = [message.as_slice(), &[0]].concat();
        assert_eq!(
            pair.read(&longer).unwrap_err(),
            HandshakeError::AuthorizationTooLong
        );
        let too_long = longest + "a";
        let refused = Initiator::start(&pair.harness, &remote, &pair.prologue, &too_long);
        assert_eq!(refused.unwrap_err(), HandshakeError::AuthorizationTooLong);
    }
}

#[test]
fn an_answer_longer_than_any_payload() {
    for suite in Suite::ALL {
        let (mut initiator, _) = Pair::new(suite).start();
        let refused = initiator.finish(&vec![0; 65_536]).unwrap_err();
        assert_eq!(refused, HandshakeError::TooLong);
    }
}

#[test]
fn payloads_of_message_2() {
    for suite in Suite::ALL {
        let pair = Pair::new(suite);
        let (mut initiator, message_1) = pair.start();
        let rejected = pair.read(&message_1).unwrap().reject_credentials().unwrap();
        let refused = initiator.finish(&rejected).unwrap_err();
        assert_eq!(refused, HandshakeError::CredentialsRejected);
        assert_eq!(refused.to_string(), "executor credentials rejected");

        let (mut initiator, message_1) = pair.start();
        let responder = pair.read(&message_1).unwrap();
        let mut entropy = mainstay_noise::SystemEntropy;
        let (other, _) = responder.respond_with(b"x", &mut entropy).unwrap();
        let refused = initiator.finish(&other).unwrap_err();
        assert_eq!(refused, HandshakeError::UnexpectedPayload);
        assert_eq!(
            refused.to_string(),
            "handshake response payload must be empty"
        );
    }
}

#[test]
fn unusable_remote_keys() {
    let pair = Pair::new(Suite::HybridIk);
    let good = pair.executor.public(Suite::HybridIk);
    let kem = good.mlkem768().map(<[u8; 1184]>::as_slice);
    let start = |suite, key: PublicKey| {
        let prologue = Prologue::new(suite, "env", "reg", "stream");
        Initiator::start(&pair.harness, &key, &prologue, "").unwrap_err()
    };
    // The point of order one: every exchange with it gives zero.
    let zero = PublicKey::new(Suite::HybridIk, &[0; 32], kem).unwrap();
    assert_eq!(start(Suite::HybridIk, zero), HandshakeError::UnusableKey);
    let zero = PublicKey::new(Suite::Ik, &[0; 32], None).unwrap();
    assert_eq!(start(Suite::Ik, zero), HandshakeError::UnusableKey);
    // Coefficients over the modulus.
    let unreduced = PublicKey::new(Suite::HybridIk, good.x25519(), Some(&[0xff; 1184])).unwrap();
    assert_eq!(
        start(Suite::HybridIk, unreduced),
        HandshakeError::UnusableKey
    );
}

#[test]
fn public_keys_of_wrong_shape() {
    let key = PublicKey::new;
    let (x, k) = ([1; 32], [1; 1184]);
    let hybrid = Suite::HybridIk;
    assert!(key(hybrid, &x, Some(&k)).is_ok());
    assert!(key(Suite::Ik, &x, None).is_ok());
    assert_eq!(
        key(hybrid, &x[1..], Some(&k)),
        Err(InvalidPublicKey::X25519Length)
    );
    assert_eq!(
        key(hybrid, &[1; 33], Some(&k)),
        Err(InvalidPublicKey::X25519Length)
    );
    assert_eq!(
        key(hybrid, &x, Some(&k[1..])),
        Err(InvalidPublicKey::MlKemLength)
    );
    assert_eq!(
        key(hybrid, &x, Some(&[1; 1185])),
        Err(InvalidPublicKey::MlKemLength)
    );
    assert_eq!(key(hybrid, &x, None), Err(InvalidPublicKey::Halves));
    assert_eq!(key(Suite::Ik, &x, Some(&k)), Err(InvalidPublicKey::Halves));
}

#[test]
fn public_keys_as_registry_objects() {
    let identity = Identity::generate().unwrap();
    for suite in Suite::ALL {
        let key = identity.public(suite);
        let object = key.to_wire();
        assert_eq!(object.suite, suite.key_suite());
        assert_eq!(object.check(), Ok(()));
        assert_eq!(object.profile(), Some(suite.profile()));
        assert_eq!(PublicKey::from_wire(&object), Ok(key));
    }
    let mut object = identity.public(Suite::HybridIk).to_wire();
    object.suite = Suite::HybridIk.protocol_name().to_owned();
    let refused = PublicKey::from_wire(&object).unwrap_err();
    assert_eq!(refused, InvalidPublicKey::UnknownSuite);
    object.suite = Suite::Ik.key_suite().to_owned();
    let refused = PublicKey::from_wire(&object).unwrap_err();
    assert_eq!(refused, InvalidPublicKey::Halves);
}

#[test]
fn debug_shows_no_secret() {
    let pair = Pair::new(Suite::HybridIk);
    let (mut initiator, message_1) = pair.start();
    let responder = pair.read(&message_1).unwrap();
    assert_eq!(format!("{:?}", pair.harness), "Identity { .. }");
    assert_eq!(format!("{initiator:?}"), "Initiator { .. }");
    let shown = format!("{responder:?}");
    assert!(
        shown.starts_with("Responder { harness_key: PublicKey(noise_hybrid_ik_v1 "),
        "{shown}"
    );
    assert!(!shown.contains("secret"), "{shown}");
    let (message_2, channel) = responder.accept().unwrap();
    assert_eq!(format!("{channel:?}"), "Channel { .. }");
    let (sealer, opener) = initiator.finish(&message_2).unwrap().split();
    assert_eq!(format!("{sealer:?}"), "Sealer { seq: 0, .. }");
    assert_eq!(format!("{opener:?}"), "Opener { next: 0, .. }");
}
