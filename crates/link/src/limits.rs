//! What one socket may hold and how long it may take.

use std::time::Duration;

use mainstay_wire::limits;

/// Bounds of one connection. Two sets exist: [`Limits::direct`] and [`Limits::rendezvous`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of one received WebSocket frame, in bytes.
    pub frame: usize,
    /// Largest message, in bytes: received over any number of frames, or sent.
    pub message: usize,
    /// A message above this many bytes leaves in several frames.
    pub split_above: usize,
    /// Bytes of each of those frames. Small ones keep pings and pongs moving, and the buffers low.
    pub piece: usize,
    /// Bytes asked from the socket by one read, allocated for as long as the connection lives. Measured for
    /// 60 KiB messages, CPU of both ends: 4 KiB costs a fifth more than 64 KiB, 16 KiB a tenth more.
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
    /// (protocol.md 1.1), split above 8 MiB (design.md 7), keepalive and write time of noise-relay.md 3.
    pub const fn direct() -> Self {
        Self {
            frame: limits::INBOUND_FRAME,
            message: limits::MESSAGE,
            split_above: limits::SPLIT_ABOVE,
            piece: limits::MIB,
            read_buffer: 16 * limits::KIB,
            write_buffer: 64 * limits::KIB,
            ping_every: limits::PING_INTERVAL,
            pong_within: limits::PONG_TIMEOUT,
            write_within: limits::PONG_TIMEOUT,
        }
    }

    /// For relay frames: frame and message 262,144 bytes (noise-relay.md 3), otherwise as direct.
    pub const fn rendezvous() -> Self {
        Self {
            frame: limits::RELAY_MESSAGE,
            message: limits::RELAY_MESSAGE,
            ..Self::direct()
        }
    }
}
