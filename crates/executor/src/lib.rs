//! The far end: sessions that outlive links, processes, files, HTTP.
//!
//! ```text
//! Executor (handle) ─► Root            knows every session and connection
//!                      ├─ Listener     accepts WebSockets on a TCP port
//!                      ├─ Registrar    keeps the executor reachable through a registry
//!                      ├─ Conversation one per connection: handshake, dispatch, files; ends with its link
//!                      └─ Session      owns processes; outlives its connections
//!                         └─ Process   owns a child, its group, its output log and sequence numbers
//! ```

pub mod auth;
pub mod capabilities;
mod config;
pub mod config_read;
mod connection;
mod descent;
mod dispatch;
mod dispositions;
mod environment;
mod executor;
pub mod files;
mod guard;
pub mod http;
mod killer;
pub mod lane;
mod listener;
pub mod notice_sink;
mod nursery;
mod os;
mod outbox;
mod peer;
mod process;
mod registrar;
mod root;
pub mod sandbox;
mod session;
mod shared;
mod signal;
pub mod watch_missing;

pub use config::Config;
pub use executor::{Executor, ListenError, StartError};
pub use guard::guard;
pub use registrar::{RegisterConfig, RegisterError, Registration};
pub use signal::{Signal, signal};
