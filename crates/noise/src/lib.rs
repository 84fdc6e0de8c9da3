//! The end-to-end channel between a harness and an executor: identities, handshakes, records, the ordered window.
//!
//! Everything here is bytes in, bytes out: no IO, no clock, and randomness only through [`Entropy`]. The rendezvous in
//! the middle sees what this crate produces and nothing else.
//!
//! ```
//! use mainstay_noise::{Identity, Initiator, Prologue, Responder, Suite};
//!
//! let executor = Identity::generate()?;
//! let harness = Identity::generate()?;
//! let prologue = Prologue::new(Suite::HybridIk, "env-1", "reg-1", "6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10");
//!
//! // Harness: message 1 carries the registry's authorization.
//! let (mut initiator, message_1) =
//!     Initiator::start(&harness, &executor.public(Suite::HybridIk), &prologue, "authorization")?;
//! // Executor: learns who calls, asks the registry, then answers.
//! let responder = Responder::read(&executor, &prologue, &message_1)?;
//! assert_eq!(responder.harness_key(), &harness.public(Suite::HybridIk));
//! assert_eq!(responder.authorization(), "authorization");
//! let (message_2, executor_side) = responder.accept()?;
//! let harness_side = initiator.finish(&message_2)?;
//!
//! // Both: messages become records, records become messages.
//! let (mut sealer, _) = harness_side.split();
//! let (_, mut opener) = executor_side.split();
//! sealer.push("{}")?;
//! let mut record = Vec::new();
//! while let Some(next) = sealer.upcoming() {
//!     record.clear();
//!     sealer.seal(&mut record)?;
//!     opener.accept(next.seq, record.clone().into())?;
//! }
//! assert_eq!(opener.message()?.as_deref(), Some(&b"{}"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod channel;
mod classic;
mod entropy;
mod error;
mod handshake;
mod hybrid;
mod identity;
mod kem;
mod opener;
mod primitives;
mod prologue;
mod sealer;
mod suite;
mod symmetric;
#[cfg(test)]
mod vectors;
mod window;

pub use channel::Channel;
pub use entropy::{Entropy, SystemEntropy};
pub use error::{HandshakeError, InvalidPublicKey, OpenError, SealError};
pub use handshake::{AUTHENTICATION_REJECTED, Initiator, Responder};
pub use identity::{Identity, PublicKey};
pub use opener::Opener;
pub use prologue::Prologue;
pub use sealer::{Sealer, TAG_BYTES, Upcoming};
pub use suite::Suite;
