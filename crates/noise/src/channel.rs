//! What a handshake leaves: one key per direction.

use std::fmt;
use std::sync::Arc;

use snow::StatelessTransportState;
use snow::types::Cipher;

use crate::primitives::KEY_BYTES;
use crate::{Opener, Sealer, classic};

/// An established channel, both directions.
pub struct Channel {
    sealer: Sealer,
    opener: Opener,
    hash: [u8; KEY_BYTES],
}

impl Channel {
    pub(crate) fn new(sealing: SealingKey, opening: OpeningKey, hash: [u8; KEY_BYTES]) -> Channel {
        Channel {
            sealer: Sealer::new(sealing),
            opener: Opener::new(opening),
            hash,
        }
    }

    pub(crate) fn classic(outcome: classic::Outcome) -> Channel {
        let transport = Arc::new(outcome.transport);
        Channel::new(
            SealingKey::Snow(Arc::clone(&transport)),
            OpeningKey::Snow(transport),
            outcome.hash,
        )
    }

    /// The sending and the receiving half.
    pub fn split(self) -> (Sealer, Opener) {
        (self.sealer, self.opener)
    }

    /// The handshake hash: equal on both ends, and different for every handshake.
    pub fn handshake_hash(&self) -> &[u8; 32] {
        &self.hash
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}

/// The key of the sending direction.
pub(crate) enum SealingKey {
    Cipher(Box<dyn Cipher>),
    Snow(Arc<StatelessTransportState>),
}

impl SealingKey {
    /// Encrypts into `out`, which is as long as plaintext and tag.
    pub(crate) fn seal(&self, nonce: u64, plaintext: &[u8], out: &mut [u8]) {
        match self {
            SealingKey::Cipher(cipher) => {
                cipher.encrypt(nonce, &[], plaintext, out);
            }
            SealingKey::Snow(transport) => {
                // Fails only for a wrong buffer, a message over 65,535 bytes or the last nonce; records are
                // shorter and numbered by u32.
                transport
                    .write_message(nonce, plaintext, out)
                    .expect("a record fits its buffer");
            }
        }
    }
}

/// The key of the receiving direction.
pub(crate) enum OpeningKey {
    Cipher(Box<dyn Cipher>),
    Snow(Arc<StatelessTransportState>),
}

impl OpeningKey {
    /// Decrypts into `out`, which is as long as `record` (in-place providers work there), and tells the plaintext's length.
    pub(crate) fn open(&self, nonce: u64, record: &[u8], out: &mut [u8]) -> Option<usize> {
        match self {
            OpeningKey::Cipher(cipher) => cipher.decrypt(nonce, &[], record, out).ok(),
            OpeningKey::Snow(transport) => transport.read_message(nonce, record, out).ok(),
        }
    }
}
