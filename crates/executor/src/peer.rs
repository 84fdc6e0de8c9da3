//! Who is on the other end of a connection.

use std::fmt;
use std::net::SocketAddr;

use mainstay_noise::PublicKey;
use mainstay_wire::RpcError;
use mainstay_wire::envelope::Malformed;

/// The other end.
#[derive(Clone, Debug)]
pub(crate) enum Peer {
    /// A WebSocket on our own listener.
    WebSocket(SocketAddr),
    /// Our parent, over standard input and output.
    Stdio,
    /// A harness, authenticated by its key.
    Relay(Box<PublicKey>),
    /// Somebody in this process.
    Memory,
}

impl Peer {
    /// Whether one may take over the session of the other: over a relay only with the same key; without authentication
    /// whoever knows the session id owns it.
    pub(crate) fn is_same_party(&self, other: &Self) -> bool {
        match (self, other) {
            (Peer::Relay(one), Peer::Relay(other)) => one == other,
            (Peer::Relay(_), _) | (_, Peer::Relay(_)) => false,
            (
                Peer::WebSocket(_) | Peer::Stdio | Peer::Memory,
                Peer::WebSocket(_) | Peer::Stdio | Peer::Memory,
            ) => true,
        }
    }

    /// What to answer to a message that cannot be read; `None`: it ends the connection (noise-relay.md 5.5).
    pub(crate) fn unreadable(&self, malformed: &Malformed) -> Option<RpcError> {
        match self {
            Peer::WebSocket(address) => Some(malformed.on_websocket(address)),
            Peer::Stdio => Some(malformed.on_stdio()),
            Peer::Memory => Some(malformed.on_websocket("memory")),
            Peer::Relay(_) => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::WebSocket(address) => address.fmt(f),
            Peer::Stdio => f.write_str("stdio"),
            Peer::Relay(_) => f.write_str("relay"),
            Peer::Memory => f.write_str("memory"),
        }
    }
}
