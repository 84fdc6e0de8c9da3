//! What both ends must agree on before a handshake can succeed.

use crate::Suite;

/// The context a handshake is bound to: environment, registration and stream, each of which must be equal on both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prologue {
    suite: Suite,
    bytes: Vec<u8>,
}

impl Prologue {
    /// Four parts, each an 8-byte big-endian length and its bytes (noise-relay.md 5.2). `stream` is taken as received, untrimmed.
    pub fn new(suite: Suite, environment: &str, registration: &str, stream: &str) -> Prologue {
        let parts = [suite.domain(), environment, registration, stream];
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| 8 + part.len()).sum());
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        Prologue { suite, bytes }
    }

    /// The suite whose domain this prologue carries; it decides the handshake.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The bytes that are hashed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HandshakeError, Identity, Initiator, Responder};

    /// The first of the four parts; the others are tested from outside.
    #[test]
    fn another_domain_is_refused() {
        for suite in Suite::ALL {
            let (executor, harness) =
                (Identity::generate().unwrap(), Identity::generate().unwrap());
            let right = Prologue::new(suite, "env", "reg", "stream");
            let (_, message) =
                Initiator::start(&harness, &executor.public(suite), &right, "").unwrap();
            let mut wrong = right.clone();
            wrong.bytes[8] ^= 0x20;
            let refused = Responder::read(&executor, &wrong, &message).unwrap_err();
            assert_eq!(refused, HandshakeError::Authentication);
            Responder::read(&executor, &right, &message).unwrap();
        }
    }
}
