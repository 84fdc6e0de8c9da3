//! Environment registry and rendezvous relay.
//!
//! The registry brings harnesses and executors together over HTTP (`register`, `connect`, `validate`); the
//! rendezvous forwards their relay frames between WebSockets. Neither ever holds a private key or sees plaintext.
//!
//! ```text
//! Registry ── accept loop ── api (tokens, store, signer) ── register, connect, validate, announcement
//!                        └── rendezvous (signed URLs) ── router
//!                                                        └─ Hub, one per executor socket
//!                                                           └─ Stream ── Harness socket
//! ```
//!
//! What must survive or be shared between nodes sits behind two traits: [`Store`] (who is registered) and
//! [`Signer`] (what was promised). The defaults keep both in memory, so that after a restart every registration is
//! unknown and executors register again.

#![allow(
    clippy::disallowed_types,
    reason = "not an actor crate: sockets of one environment share its stream table"
)]

mod address;
mod api;
mod authorization;
mod clock;
mod config;
mod registry;
mod rendezvous;
mod router;
mod signer;
pub mod store;
pub mod tokens;

pub use config::{Config, Limits, TokenSource};
pub use registry::{BindError, Registry};
pub use signer::{HmacSigner, Signer};
pub use store::{MemoryStore, Store};
