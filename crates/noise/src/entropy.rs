//! Where random bytes come from: the operating system, or a test's script.

use crate::HandshakeError;

/// A source of secret random bytes. Product code uses [`SystemEntropy`]; test vectors bring their own.
pub trait Entropy {
    /// Fills `out` entirely.
    ///
    /// # Errors
    /// [`HandshakeError::Entropy`] if the source failed; `out` must then not be used.
    fn fill(&mut self, out: &mut [u8]) -> Result<(), HandshakeError>;
}

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), HandshakeError> {
        getrandom::fill(out).map_err(|_| HandshakeError::Entropy)
    }
}
