//! ML-KEM-768 (FIPS 203), keys kept as their 64-byte seeds.

use ml_kem::array::Array;
use ml_kem::kem::{Decapsulate, KeyExport};
use ml_kem::ml_kem_768::{DecapsulationKey, EncapsulationKey};
use zeroize::{Zeroize, Zeroizing};

use crate::{Entropy, HandshakeError};

/// Bytes of a public key.
pub(crate) const PUBLIC_BYTES: usize = 1184;
/// Bytes of a ciphertext.
pub(crate) const CIPHERTEXT_BYTES: usize = 1088;
/// Bytes of a secret key: d, then z.
pub(crate) const SEED_BYTES: usize = 64;
/// Bytes of a shared secret, and of the randomness of one encapsulation.
pub(crate) const SECRET_BYTES: usize = 32;

/// A shared secret, overwritten when dropped.
pub(crate) type Shared = Zeroizing<[u8; SECRET_BYTES]>;

/// A secret key; ml-kem overwrites it when dropped.
pub(crate) struct Secret(DecapsulationKey);

impl Secret {
    /// The key of this seed.
    pub(crate) fn from_seed(seed: &[u8; SEED_BYTES]) -> Secret {
        let mut array = Array(*seed);
        let secret = Secret(DecapsulationKey::from_seed(array));
        array.0.zeroize();
        secret
    }

    /// A fresh key.
    pub(crate) fn generate(entropy: &mut dyn Entropy) -> Result<Secret, HandshakeError> {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        entropy.fill(&mut *seed)?;
        Ok(Secret::from_seed(&seed))
    }

    /// Its public half.
    pub(crate) fn public(&self) -> [u8; PUBLIC_BYTES] {
        self.0.encapsulation_key().to_bytes().0
    }

    /// Recovers the shared secret. A forged ciphertext gives an unrelated secret, not an error (implicit rejection).
    pub(crate) fn decapsulate(&self, ciphertext: &[u8; CIPHERTEXT_BYTES]) -> Shared {
        let mut shared = self.0.decapsulate(&Array(*ciphertext));
        let copy = Zeroizing::new(shared.0);
        shared.0.zeroize();
        copy
    }
}

/// A public key, checked.
pub(crate) struct Public(EncapsulationKey);

impl Public {
    /// # Errors
    /// [`HandshakeError::UnusableKey`] if a coefficient is not reduced.
    pub(crate) fn new(bytes: &[u8; PUBLIC_BYTES]) -> Result<Public, HandshakeError> {
        EncapsulationKey::new(&Array(*bytes))
            .map(Public)
            .map_err(|_| HandshakeError::UnusableKey)
    }

    /// A ciphertext for the key's owner and the secret inside.
    pub(crate) fn encapsulate(
        &self,
        entropy: &mut dyn Entropy,
    ) -> Result<([u8; CIPHERTEXT_BYTES], Shared), HandshakeError> {
        let mut random = Zeroizing::new([0; SECRET_BYTES]);
        entropy.fill(&mut *random)?;
        let mut message = Array(*random);
        let (ciphertext, mut shared) = self.0.encapsulate_deterministic(&message);
        message.0.zeroize();
        let copy = Zeroizing::new(shared.0);
        shared.0.zeroize();
        Ok((ciphertext.0, copy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_overwritten_on_drop() {
        fn overwritten<T: zeroize::ZeroizeOnDrop>() {}
        overwritten::<DecapsulationKey>();
        overwritten::<Shared>();
    }
}
