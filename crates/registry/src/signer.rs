//! Who signs what the registry promises.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes of a signature.
pub(crate) const SIGNATURE: usize = 32;

/// Makes and checks signatures. Nodes that serve the same environments share one key.
pub trait Signer: Send + Sync + 'static {
    /// The signature of `message`.
    fn sign(&self, message: &[u8]) -> [u8; SIGNATURE];

    /// Whether `signature` is that of `message`; in constant time.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool;
}

/// HMAC-SHA256.
pub struct HmacSigner {
    keyed: Hmac<Sha256>,
}

impl HmacSigner {
    /// A key that exists only in this process.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(Self::with_key(&key))
    }

    /// A key that other nodes have too.
    pub fn with_key(key: &[u8; 32]) -> Self {
        // HMAC pads a short key with zeros to the block of its hash, so this is the same key.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(key);
        Self {
            keyed: Hmac::new(&block.into()),
        }
    }
}

impl Signer for HmacSigner {
    fn sign(&self, message: &[u8]) -> [u8; SIGNATURE] {
        let mut mac = self.keyed.clone();
        mac.update(message);
        mac.finalize().into_bytes().into()
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let mut mac = self.keyed.clone();
        mac.update(message);
        mac.verify_slice(signature).is_ok()
    }
}

impl fmt::Debug for HmacSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacSigner")
    }
}

/// Joins `parts` so that no two lists of parts give the same bytes: each with its length before it.
pub(crate) fn statement(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// A signature as text.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// 32 bytes written as 64 lower-case hex digits.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_message_and_key_only() {
        let signer = HmacSigner::with_key(&[7; 32]);
        let signature = signer.sign(b"message");
        assert!(signer.verify(b"message", &signature));
        assert!(!signer.verify(b"messagf", &signature));
        assert!(!signer.verify(b"message", &signature[..31]));
        assert!(!HmacSigner::with_key(&[8; 32]).verify(b"message", &signature));
    }

    #[test]
    fn parts_cannot_be_moved_into_each_other() {
        assert_ne!(statement(&[b"ab", b"c"]), statement(&[b"a", b"bc"]));
        assert_ne!(statement(&[b"ab"]), statement(&[b"ab", b""]));
    }

    #[test]
    fn hex_both_ways() {
        let bytes = std::array::from_fn(|at| at as u8 * 8);
        assert_eq!(from_hex(&to_hex(&bytes)), Some(bytes));
        assert_eq!(from_hex(&"A".repeat(64)), None);
        assert_eq!(from_hex("00"), None);
    }
}
