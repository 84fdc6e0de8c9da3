//! One physical connection: WebSocket, relay stream, stdio.
//!
//! A [`Link`] carries one JSON-RPC message per [`Sink::send`] and [`Source::recv`], whatever the transport
//! below is; a [`RawSocket`] carries the binary messages of the rendezvous. Both come from [`dial()`] or
//! from [`accept`], and both bound everything: sizes, the time of each write, and the time a peer may
//! stay silent after a ping. Nothing here knows what a session is.

#![allow(
    clippy::disallowed_types,
    reason = "not an actor crate: the two halves of a socket share it"
)]

pub mod accept;
mod beat;
mod close;
mod dial;
mod error;
mod limits;
mod lines;
mod link;
mod pair;
pub mod relay;
mod socket;
mod stream;
pub mod tls;

pub use close::Close;
pub use dial::{DialOptions, Policy, dial, dial_raw};
pub use error::{DialError, LinkError, Refusal};
pub use limits::Limits;
pub use lines::stdio;
pub use link::{Link, Sink, Source};
pub use pair::pair;
pub use socket::{Frame, RawSink, RawSocket, RawSource};

/// Installs no-delay on a TCP socket: every socket of Mainstay has it (protocol.md 17, item 2).
pub(crate) fn no_delay(stream: &tokio::net::TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)
}
