//! `harness_key_authorization`: a short-lived signed statement that any node can check and none has to remember.

use mainstay_wire::registry::{EnvironmentId, PublicKey};
use sha2::{Digest, Sha256};

use crate::signer::{Signer, from_hex, statement, to_hex};

const DOMAIN: &[u8] = b"mainstay-harness-key-authorization/v1";
const PREFIX: &str = "v1";

/// States that `key` may connect to this registration until `expires` (Unix seconds). Far below the 4096 bytes that a
/// Noise message 1 takes.
pub(crate) fn sign(
    signer: &dyn Signer,
    environment: &EnvironmentId,
    registration: &str,
    key: &PublicKey,
    expires: u64,
) -> String {
    let signature = signer.sign(&message(environment, registration, key, expires));
    format!("{PREFIX}.{expires}.{}", to_hex(&signature))
}

/// Whether the statement was made for exactly this environment, registration and key, and still holds at `now`.
pub(crate) fn verify(
    signer: &dyn Signer,
    environment: &EnvironmentId,
    registration: &str,
    key: &PublicKey,
    authorization: &str,
    now: u64,
) -> bool {
    let mut parts = authorization.splitn(3, '.');
    let (Some(PREFIX), Some(expires), Some(signature)) = (parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let (Ok(expires), Some(signature)) = (expires.parse::<u64>(), from_hex(signature)) else {
        return false;
    };
    signer.verify(
        &message(environment, registration, key, expires),
        &signature,
    ) && now < expires
}

fn message(
    environment: &EnvironmentId,
    registration: &str,
    key: &PublicKey,
    expires: u64,
) -> Vec<u8> {
    statement(&[
        DOMAIN,
        environment.as_str().as_bytes(),
        registration.as_bytes(),
        &fingerprint(key),
        &expires.to_be_bytes(),
    ])
}

/// One digest for one key, whatever its JSON looked like.
pub(crate) fn fingerprint(key: &PublicKey) -> [u8; 32] {
    let kem = key.mlkem768_public_key.as_ref();
    Sha256::digest(statement(&[
        key.suite.as_bytes(),
        &key.x25519_public_key,
        kem.map_or(&[][..], |kem| &kem[..]),
    ]))
    .into()
}

#[cfg(test)]
mod tests {
    use mainstay_wire::{base64::Base64, registry::SUITE_IK};

    use super::*;
    use crate::HmacSigner;

    #[test]
    fn an_authorization_holds_for_nothing_but_what_it_names() {
        let signer = HmacSigner::with_key(&[1; 32]);
        let environment = EnvironmentId::parse("build").unwrap();
        let other = EnvironmentId::parse("builf").unwrap();
        let key = |byte: u8| PublicKey {
            suite: SUITE_IK.into(),
            x25519_public_key: Base64(vec![byte; 32].into()),
            mlkem768_public_key: None,
        };
        let text = sign(&signer, &environment, "reg-1", &key(1), 160);
        assert!(text.len() <= mainstay_wire::limits::AUTHORIZATION);
        let holds = |environment, registration, key: &PublicKey, text: &str, now| {
            verify(&signer, environment, registration, key, text, now)
        };
        assert!(holds(&environment, "reg-1", &key(1), &text, 159));
        assert!(!holds(&environment, "reg-1", &key(1), &text, 160));
        assert!(!holds(&other, "reg-1", &key(1), &text, 159));
        assert!(!holds(&environment, "reg-2", &key(1), &text, 159));
        assert!(!holds(&environment, "reg-1", &key(2), &text, 159));
        let later = text.replace(".160.", ".161.");
        assert!(!holds(&environment, "reg-1", &key(1), &later, 159));
        let padded = format!("{text}0");
        for bad in ["", "v1", "v1..", "v1.160", "v2.160.00", padded.as_str()] {
            assert!(!holds(&environment, "reg-1", &key(1), bad, 159), "{bad}");
        }
        let foreign = HmacSigner::with_key(&[2; 32]);
        assert!(!verify(
            &foreign,
            &environment,
            "reg-1",
            &key(1),
            &text,
            159
        ));
    }
}
