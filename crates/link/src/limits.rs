//! What one socket may hold and how long it may take.

use std::time::Duration;

const MIB: usize = 1 << 20;

/// Bounds of one connection. Two sets exist: [`Limits::direct`] and [`Limits::rendezvous`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of one received WebSocket frame, in bytes.
    pub frame: usize,
    /// Largest message, in bytes: received over any number of frames, or sent.
    pub message: usize,
    /// A message above this many bytes leaves in continuation frames of this size.
    pub split: usize,
    /// Bytes asked from the socket by one read.
    pub read_buffer: usize,
    /// Bytes that may gather before a write without a flush reaches the socket.
    pub write_buffer: usize,
    /// Time between two pings; none is sent while one is unanswered.
    pub ping_every: Duration,
    /// Time a peer has to answer a ping.
    pub pong_within: Duration,
    /// Time one frame has to be taken by the socket.
    pub write_within: Duration,
}

impl Limits {
    /// For JSON-RPC over a direct WebSocket, stdio or a pair: frame 16 MiB, message 64 MiB
    /// (protocol.md 1.1), split above 8 MiB (design.md 7), keepalive of noise-relay.md 3.
    pub const fn direct() -> Self {
        Self {
            frame: 16 * MIB,
            message: 64 * MIB,
            split: 8 * MIB,
            read_buffer: 4096,
            write_buffer: 64 * 1024,
            ping_every: Duration::from_secs(30),
            pong_within: Duration::from_secs(60),
            write_within: Duration::from_secs(60),
        }
    }

    /// For relay frames: frame and message 262,144 bytes (noise-relay.md 3), otherwise as direct.
    pub const fn rendezvous() -> Self {
        Self {
            frame: 262_144,
            message: 262_144,
            split: 262_144,
            ..Self::direct()
        }
    }
}
