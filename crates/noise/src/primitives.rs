//! Cryptographic primitives: snow's, ring first, wrapped so that the keys they hold are overwritten when they go.

use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver, RingResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of an X25519 key, public or secret, and of an exchange's result.
pub(crate) const DH_BYTES: usize = 32;
/// Bytes of an AES-256-GCM key and of a SHA-256 hash.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of an AES-GCM tag.
pub(crate) const TAG_BYTES: usize = 16;

/// X25519 with this secret, clamped by the exchange itself. `dh` refuses an all-zero result.
pub(crate) fn x25519(secret: &[u8; DH_BYTES]) -> WipedDh {
    let mut dh = WipedDh(bare_x25519());
    dh.set(secret);
    dh
}

/// SHA-256 with HMAC and HKDF.
pub(crate) fn sha256() -> Box<dyn Hash> {
    // ring has SHA-256 whatever its features.
    RingResolver
        .resolve_hash(&HashChoice::SHA256)
        .expect("ring has SHA-256")
}

/// AES-256-GCM; the caller counts the nonces (4 zero bytes, then a big-endian u64).
pub(crate) fn aes_gcm() -> Box<dyn Cipher> {
    // ring has AES-256-GCM whatever its features.
    Box::new(WipedCipher(
        RingResolver
            .resolve_cipher(&CipherChoice::AESGCM)
            .expect("ring has AES-GCM"),
    ))
}

fn bare_x25519() -> Box<dyn Dh> {
    // The workspace builds snow with `use-curve25519`; ring offers no exchange with a given secret.
    DefaultResolver
        .resolve_dh(&DHChoice::Curve25519)
        .expect("snow is built with use-curve25519")
}

/// The same primitives for snow's own handshake state, with the one ephemeral secret it may draw.
pub(crate) struct Resolver {
    ephemeral: Zeroizing<[u8; DH_BYTES]>,
}

impl Resolver {
    /// `ephemeral` must be fresh from the system's generator, or a test vector's.
    pub(crate) fn new(ephemeral: Zeroizing<[u8; DH_BYTES]>) -> Resolver {
        Resolver { ephemeral }
    }
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(OneDraw(Some(self.ephemeral.clone()))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        match choice {
            DHChoice::Curve25519 => Some(Box::new(WipedDh(bare_x25519()))),
            DHChoice::Curve448 => None,
        }
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        RingResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        Some(Box::new(WipedCipher(RingResolver.resolve_cipher(choice)?)))
    }
}

/// Gives its 32 bytes once, then nothing: a second draw would repeat an ephemeral key.
struct OneDraw(Option<Zeroizing<[u8; DH_BYTES]>>);

impl Random for OneDraw {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        let bytes = self.0.take().ok_or(snow::Error::Rng)?;
        if dest.len() != bytes.len() {
            return Err(snow::Error::Rng);
        }
        dest.copy_from_slice(&*bytes);
        Ok(())
    }
}

/// An exchange whose secret is overwritten on drop; snow's own type leaves it in freed memory.
pub(crate) struct WipedDh(Box<dyn Dh>);

impl Drop for WipedDh {
    fn drop(&mut self) {
        self.0.set(&[0; DH_BYTES]);
    }
}

impl Dh for WipedDh {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn pub_len(&self) -> usize {
        self.0.pub_len()
    }

    fn priv_len(&self) -> usize {
        self.0.priv_len()
    }

    fn set(&mut self, privkey: &[u8]) {
        self.0.set(privkey);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        self.0.generate(rng)
    }

    fn pubkey(&self) -> &[u8] {
        self.0.pubkey()
    }

    fn privkey(&self) -> &[u8] {
        self.0.privkey()
    }

    fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        self.0.dh(pubkey, out)?;
        // A point of small order gives zero whatever the secret; snow lets it pass.
        if bool::from(out[..DH_BYTES].ct_eq(&[0; DH_BYTES])) {
            return Err(snow::Error::Dh);
        }
        Ok(())
    }
}

/// A cipher whose key is overwritten on drop.
struct WipedCipher(Box<dyn Cipher>);

impl Drop for WipedCipher {
    fn drop(&mut self) {
        self.0.set(&[0; KEY_BYTES]);
    }
}

impl Cipher for WipedCipher {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn set(&mut self, key: &[u8; KEY_BYTES]) {
        self.0.set(key);
    }

    fn encrypt(&self, nonce: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        self.0.encrypt(nonce, authtext, plaintext, out)
    }

    fn decrypt(
        &self,
        nonce: u64,
        authtext: &[u8],
        ciphertext: &[u8],
        out: &mut [u8],
    ) -> Result<usize, snow::Error> {
        self.0.decrypt(nonce, authtext, ciphertext, out)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Reports every key that it is given.
    struct Probe(mpsc::Sender<Vec<u8>>);

    impl Dh for Probe {
        fn name(&self) -> &'static str {
            "probe"
        }

        fn pub_len(&self) -> usize {
            DH_BYTES
        }

        fn priv_len(&self) -> usize {
            DH_BYTES
        }

        fn set(&mut self, privkey: &[u8]) {
            self.0.send(privkey.to_vec()).unwrap();
        }

        fn generate(&mut self, _: &mut dyn Random) -> Result<(), snow::Error> {
            Err(snow::Error::Rng)
        }

        fn pubkey(&self) -> &[u8] {
            &[]
        }

        fn privkey(&self) -> &[u8] {
            &[]
        }

        fn dh(&self, _: &[u8], _: &mut [u8]) -> Result<(), snow::Error> {
            Err(snow::Error::Dh)
        }
    }

    impl Cipher for Probe {
        fn name(&self) -> &'static str {
            "probe"
        }

        fn set(&mut self, key: &[u8; KEY_BYTES]) {
            self.0.send(key.to_vec()).unwrap();
        }

        fn encrypt(&self, _: u64, _: &[u8], _: &[u8], _: &mut [u8]) -> usize {
            0
        }

        fn decrypt(&self, _: u64, _: &[u8], _: &[u8], _: &mut [u8]) -> Result<usize, snow::Error> {
            Err(snow::Error::Decrypt)
        }
    }

    #[test]
    fn keys_are_overwritten_on_drop() {
        let (report, keys) = mpsc::channel();
        drop(WipedDh(Box::new(Probe(report.clone()))));
        drop(WipedCipher(Box::new(Probe(report))));
        assert_eq!(keys.iter().collect::<Vec<_>>(), [[0; 32], [0; 32]]);
    }

    #[test]
    fn an_ephemeral_is_drawn_once() {
        let resolver = Resolver::new(Zeroizing::new([5; DH_BYTES]));
        let mut random = resolver.resolve_rng().unwrap();
        let mut out = [0; DH_BYTES];
        random.try_fill_bytes(&mut out).unwrap();
        assert_eq!(out, [5; DH_BYTES]);
        random.try_fill_bytes(&mut out).unwrap_err();
    }
}
