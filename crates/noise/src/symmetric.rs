//! Noise's SymmetricState on snow's primitives, for the pattern that snow cannot name.

use snow::types::{Cipher, Hash};
use zeroize::Zeroizing;

use crate::HandshakeError;
use crate::primitives::{KEY_BYTES, TAG_BYTES, aes_gcm, sha256};

/// Hash, chaining key and cipher of a handshake under way.
pub(crate) struct Symmetric {
    hash: Box<dyn Hash>,
    cipher: Box<dyn Cipher>,
    h: [u8; KEY_BYTES],
    ck: Zeroizing<[u8; KEY_BYTES]>,
    key: Option<Zeroizing<[u8; KEY_BYTES]>>,
    nonce: u64,
}

impl Symmetric {
    /// InitializeSymmetric, for a protocol name longer than a hash.
    pub(crate) fn new(protocol_name: &str) -> Symmetric {
        let mut hash = sha256();
        let mut h = [0; KEY_BYTES];
        hash.reset();
        hash.input(protocol_name.as_bytes());
        hash.result(&mut h);
        Symmetric {
            hash,
            cipher: aes_gcm(),
            h,
            ck: Zeroizing::new(h),
            key: None,
            nonce: 0,
        }
    }

    /// A copy to try a message on: what fails on the copy has not happened.
    pub(crate) fn fork(&self) -> Symmetric {
        let mut cipher = aes_gcm();
        if let Some(key) = &self.key {
            cipher.set(key);
        }
        Symmetric {
            hash: sha256(),
            cipher,
            h: self.h,
            ck: self.ck.clone(),
            key: self.key.clone(),
            nonce: self.nonce,
        }
    }

    pub(crate) fn mix_hash(&mut self, data: &[u8]) {
        self.hash.reset();
        self.hash.input(&self.h);
        self.hash.input(data);
        self.hash.result(&mut self.h);
    }

    pub(crate) fn mix_key(&mut self, material: &[u8]) {
        let mut ck = Zeroizing::new([0; KEY_BYTES]);
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        self.hash
            .hkdf(&*self.ck, material, 2, &mut *ck, &mut *key, &mut []);
        self.ck = ck;
        self.set_key(key);
    }

    pub(crate) fn mix_key_and_hash(&mut self, material: &[u8]) {
        let mut ck = Zeroizing::new([0; KEY_BYTES]);
        let mut mixed = Zeroizing::new([0; KEY_BYTES]);
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        self.hash
            .hkdf(&*self.ck, material, 3, &mut *ck, &mut *mixed, &mut *key);
        self.ck = ck;
        self.mix_hash(&*mixed);
        self.set_key(key);
    }

    /// Appends the encrypted `plaintext` to `out`, or a copy of it while there is no key.
    pub(crate) fn encrypt_and_hash(&mut self, plaintext: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        if self.key.is_none() {
            out.extend_from_slice(plaintext);
        } else {
            out.resize(start + plaintext.len() + TAG_BYTES, 0);
            self.cipher
                .encrypt(self.nonce, &self.h, plaintext, &mut out[start..]);
            self.nonce += 1;
        }
        self.mix_hash(&out[start..]);
    }

    /// Decrypts `ciphertext` into `out`, which has its length minus the tag's (or its length, while there is no key).
    pub(crate) fn decrypt_and_hash(
        &mut self,
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<(), HandshakeError> {
        let overhead = if self.key.is_some() { TAG_BYTES } else { 0 };
        if ciphertext.len() != out.len() + overhead {
            return Err(HandshakeError::TooShort);
        }
        if self.key.is_none() {
            out.copy_from_slice(ciphertext);
        } else {
            self.cipher
                .decrypt(self.nonce, &self.h, ciphertext, out)
                .map_err(|_| HandshakeError::Authentication)?;
            self.nonce += 1;
        }
        self.mix_hash(ciphertext);
        Ok(())
    }

    /// Split: the keys of initiator to responder, and the other way.
    pub(crate) fn split(&mut self) -> (Zeroizing<[u8; KEY_BYTES]>, Zeroizing<[u8; KEY_BYTES]>) {
        let mut forth = Zeroizing::new([0; KEY_BYTES]);
        let mut back = Zeroizing::new([0; KEY_BYTES]);
        self.hash
            .hkdf(&*self.ck, &[], 2, &mut *forth, &mut *back, &mut []);
        (forth, back)
    }

    /// The handshake hash so far.
    pub(crate) fn hash(&self) -> &[u8; KEY_BYTES] {
        &self.h
    }

    /// The chaining key, for the test vectors.
    #[cfg(test)]
    pub(crate) fn chaining_key(&self) -> &[u8; KEY_BYTES] {
        &self.ck
    }

    fn set_key(&mut self, key: Zeroizing<[u8; KEY_BYTES]>) {
        self.cipher.set(&key);
        self.key = Some(key);
        self.nonce = 0;
    }
}
