//! Who somebody is: one static key pair per algorithm, and the public halves on the wire.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use mainstay_wire::base64::Base64;
use mainstay_wire::registry;
use snow::types::Dh;
use zeroize::Zeroizing;

use crate::primitives::{DH_BYTES, WipedDh, x25519};
use crate::{Entropy, HandshakeError, InvalidPublicKey, Suite, SystemEntropy, kem};

/// The static secrets of an executor process or of a harness environment, for every suite. Overwritten when the last
/// clone goes; `Debug` shows nothing.
#[derive(Clone)]
pub struct Identity(Arc<Secrets>);

struct Secrets {
    x25519: WipedDh,
    x25519_public: [u8; DH_BYTES],
    kem: kem::Secret,
    kem_public: Arc<[u8; kem::PUBLIC_BYTES]>,
}

impl Identity {
    /// A fresh identity.
    ///
    /// # Errors
    /// [`HandshakeError::Entropy`] if the system has no random bytes.
    pub fn generate() -> Result<Identity, HandshakeError> {
        Identity::generate_with(&mut SystemEntropy)
    }

    /// A fresh identity from this source: 32 bytes for X25519, then 64 for ML-KEM-768.
    ///
    /// # Errors
    /// What the source says.
    pub fn generate_with(entropy: &mut dyn Entropy) -> Result<Identity, HandshakeError> {
        let mut secret = Zeroizing::new([0; DH_BYTES]);
        entropy.fill(&mut *secret)?;
        let mut seed = Zeroizing::new([0; kem::SEED_BYTES]);
        entropy.fill(&mut *seed)?;
        let x25519 = x25519(&secret);
        let mut x25519_public = [0; DH_BYTES];
        x25519_public.copy_from_slice(x25519.pubkey());
        let kem = kem::Secret::from_seed(&seed);
        let kem_public = Arc::new(kem.public());
        Ok(Identity(Arc::new(Secrets {
            x25519,
            x25519_public,
            kem,
            kem_public,
        })))
    }

    /// The public half for a suite.
    pub fn public(&self, suite: Suite) -> PublicKey {
        let mlkem768 = match suite {
            Suite::HybridIk => Some(Arc::clone(&self.0.kem_public)),
            Suite::Ik => None,
        };
        PublicKey {
            suite,
            x25519: self.0.x25519_public,
            mlkem768,
        }
    }

    pub(crate) fn x25519(&self) -> &WipedDh {
        &self.0.x25519
    }

    pub(crate) fn x25519_public(&self) -> &[u8; DH_BYTES] {
        &self.0.x25519_public
    }

    pub(crate) fn kem(&self) -> &kem::Secret {
        &self.0.kem
    }

    pub(crate) fn kem_public(&self) -> &[u8; kem::PUBLIC_BYTES] {
        &self.0.kem_public
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// A peer's static public key, of one suite. Two are equal when suite and all bytes are.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PublicKey {
    suite: Suite,
    x25519: [u8; DH_BYTES],
    mlkem768: Option<Arc<[u8; kem::PUBLIC_BYTES]>>,
}

impl PublicKey {
    /// A key from its wire members; lengths are checked here, the ML-KEM coefficients when the key is used.
    ///
    /// # Errors
    /// A half that is missing, superfluous or of the wrong length.
    pub fn new(
        suite: Suite,
        x25519: &[u8],
        mlkem768: Option<&[u8]>,
    ) -> Result<PublicKey, InvalidPublicKey> {
        let x25519 = x25519
            .try_into()
            .map_err(|_| InvalidPublicKey::X25519Length)?;
        let mlkem768 = match (suite, mlkem768) {
            (Suite::HybridIk, Some(bytes)) => {
                let bytes: &[u8; kem::PUBLIC_BYTES] = bytes
                    .try_into()
                    .map_err(|_| InvalidPublicKey::MlKemLength)?;
                Some(Arc::new(*bytes))
            }
            (Suite::Ik, None) => None,
            (Suite::HybridIk, None) | (Suite::Ik, Some(_)) => return Err(InvalidPublicKey::Halves),
        };
        Ok(PublicKey {
            suite,
            x25519,
            mlkem768,
        })
    }

    /// The key of a registry object.
    ///
    /// # Errors
    /// A suite we do not know, or as [`PublicKey::new`].
    pub fn from_wire(key: &registry::PublicKey) -> Result<PublicKey, InvalidPublicKey> {
        let suite = Suite::from_key_suite(&key.suite).ok_or(InvalidPublicKey::UnknownSuite)?;
        let mlkem768 = key.mlkem768_public_key.as_deref();
        PublicKey::new(suite, &key.x25519_public_key, mlkem768)
    }

    /// The registry object of this key.
    pub fn to_wire(&self) -> registry::PublicKey {
        let base64 = |bytes: &[u8]| Base64(Bytes::copy_from_slice(bytes));
        registry::PublicKey {
            suite: self.suite.key_suite().to_owned(),
            x25519_public_key: base64(&self.x25519),
            mlkem768_public_key: self.mlkem768().map(|bytes| base64(bytes)),
        }
    }

    /// Its suite.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The X25519 half, 32 bytes.
    pub fn x25519(&self) -> &[u8; 32] {
        &self.x25519
    }

    /// The ML-KEM-768 half, 1184 bytes, of a hybrid key.
    pub fn mlkem768(&self) -> Option<&[u8; 1184]> {
        self.mlkem768.as_deref()
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.x25519;
        write!(f, "PublicKey({} {a:02x}{b:02x}{c:02x}{d:02x}…)", self.suite)
    }
}
