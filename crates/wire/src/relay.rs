//! Frames of a rendezvous socket: one protobuf message per binary WebSocket message (`noise-relay.md` 4).

use bytes::Bytes;
use prost::Message as _;

use crate::limits;

/// The one version there is.
pub const VERSION: u32 = 1;
/// The reason every reset carries, whatever the cause.
pub const RESET_REASON: &str = "noise_relay_protocol_error";

/// A valid frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Which stream: a canonical UUID from us.
    pub stream_id: String,
    /// What it says.
    pub body: Body,
    /// Clear-text trace of a request, on its first frame only.
    pub traceparent: Option<String>,
    /// The same.
    pub tracestate: Option<String>,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// One Noise record.
    Data {
        /// From 0, by 1, per direction.
        seq: u32,
        /// The record.
        payload: Bytes,
    },
    /// Ignored by everybody.
    Ack,
    /// Claims the stream at the router.
    Resume {
        /// Sent as 0.
        next_seq: u32,
    },
    /// The stream is dead. The reason is unauthenticated text: never show it.
    Reset {
        /// Not empty.
        reason: String,
    },
    /// Ignored by everybody.
    Heartbeat,
    /// A Noise handshake message.
    Handshake {
        /// The message.
        payload: Bytes,
    },
}

/// Why bytes are no valid frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// Over 262,144 bytes.
    #[error("relay frame is too large")]
    TooLarge,
    /// Not protobuf.
    #[error("relay frame does not decode")]
    Undecodable,
    /// Not version 1.
    #[error("relay frame has an unknown version")]
    Version,
    /// Blank, or over 128 bytes.
    #[error("relay frame has no usable stream id")]
    StreamId,
    /// None.
    #[error("relay frame has no body")]
    NoBody,
    /// Segmented, or empty.
    #[error("relay frame has a bad data body")]
    Data,
    /// Empty reason.
    #[error("relay frame has a reset without reason")]
    Reset,
    /// Empty payload.
    #[error("relay frame has an empty handshake")]
    Handshake,
}

impl Frame {
    /// A frame without trace.
    pub fn new(stream_id: impl Into<String>, body: Body) -> Self {
        Self {
            stream_id: stream_id.into(),
            body,
            traceparent: None,
            tracestate: None,
        }
    }

    /// The reset every failure ends with.
    pub fn reset(stream_id: impl Into<String>) -> Self {
        Self::new(
            stream_id,
            Body::Reset {
                reason: RESET_REASON.to_owned(),
            },
        )
    }

    /// The bytes of one WebSocket message.
    pub fn encode(&self) -> Bytes {
        proto::Frame::from(self).encode_to_vec().into()
    }

    /// Reads and checks one WebSocket message; payloads share its memory.
    pub fn decode(message: Bytes) -> Result<Self, BadFrame> {
        if message.len() > limits::RELAY_MESSAGE {
            return Err(BadFrame::TooLarge);
        }
        let frame = proto::Frame::decode(message).map_err(|_| BadFrame::Undecodable)?;
        if frame.version != VERSION {
            return Err(BadFrame::Version);
        }
        if frame.stream_id.trim().is_empty() || frame.stream_id.len() > limits::RELAY_STREAM_ID {
            return Err(BadFrame::StreamId);
        }
        let body = match frame.body.ok_or(BadFrame::NoBody)? {
            proto::Body::Data(data) => {
                if data.segment_index != 0 || data.segment_count != 1 || data.payload.is_empty() {
                    return Err(BadFrame::Data);
                }
                Body::Data {
                    seq: data.seq,
                    payload: data.payload,
                }
            }
            proto::Body::AckFrame(proto::Nothing {}) => Body::Ack,
            proto::Body::Resume(resume) => Body::Resume {
                next_seq: resume.next_seq,
            },
            proto::Body::Reset(reset) if reset.reason.is_empty() => return Err(BadFrame::Reset),
            proto::Body::Reset(reset) => Body::Reset {
                reason: reset.reason,
            },
            proto::Body::Heartbeat(proto::Nothing {}) => Body::Heartbeat,
            proto::Body::Handshake(handshake) if handshake.payload.is_empty() => {
                return Err(BadFrame::Handshake);
            }
            proto::Body::Handshake(handshake) => Body::Handshake {
                payload: handshake.payload,
            },
        };
        Ok(Self {
            stream_id: frame.stream_id,
            body,
            traceparent: frame.traceparent,
            tracestate: frame.tracestate,
        })
    }
}

/// Begins a data frame whose payload, `payload_len` bytes of it, is appended next: the same bytes as [`Frame::encode`],
/// without a copy of the payload.
pub fn begin_data(out: &mut Vec<u8>, stream_id: &str, seq: u32, payload_len: usize) {
    let seq_len = if seq == 0 {
        0
    } else {
        1 + varint_len(u64::from(seq))
    };
    // segment_count, then tag and length of the payload.
    let data_len = seq_len + 2 + 1 + varint_len(payload_len as u64) + payload_len;
    out.extend_from_slice(&[0x08, VERSION as u8, 0x12]);
    put_varint(out, stream_id.len() as u64);
    out.extend_from_slice(stream_id.as_bytes());
    out.push(0x2a);
    put_varint(out, data_len as u64);
    if seq != 0 {
        out.push(0x08);
        put_varint(out, u64::from(seq));
    }
    out.extend_from_slice(&[0x18, 0x01, 0x22]);
    put_varint(out, payload_len as u64);
}

fn put_varint(out: &mut Vec<u8>, value: u64) {
    prost::encoding::encode_varint(value, out);
}

fn varint_len(value: u64) -> usize {
    prost::encoding::encoded_len_varint(value)
}

impl From<&Frame> for proto::Frame {
    fn from(frame: &Frame) -> Self {
        let body = match &frame.body {
            Body::Data { seq, payload } => proto::Body::Data(proto::Data {
                seq: *seq,
                segment_index: 0,
                segment_count: 1,
                payload: payload.clone(),
            }),
            Body::Ack => proto::Body::AckFrame(proto::Nothing {}),
            Body::Resume { next_seq } => proto::Body::Resume(proto::Resume {
                next_seq: *next_seq,
            }),
            Body::Reset { reason } => proto::Body::Reset(proto::Reset {
                reason: reason.clone(),
            }),
            Body::Heartbeat => proto::Body::Heartbeat(proto::Nothing {}),
            Body::Handshake { payload } => proto::Body::Handshake(proto::Handshake {
                payload: payload.clone(),
            }),
        };
        Self {
            version: VERSION,
            stream_id: frame.stream_id.clone(),
            ack: 0,
            ack_bits: 0,
            body: Some(body),
            traceparent: frame.traceparent.clone(),
            tracestate: frame.tracestate.clone(),
        }
    }
}

/// The protobuf messages, package `codex.exec_server.relay.v1`, with the field numbers of `noise-relay.md` 4.1.
mod proto {
    use bytes::Bytes;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Frame {
        #[prost(uint32, tag = "1")]
        pub(super) version: u32,
        #[prost(string, tag = "2")]
        pub(super) stream_id: String,
        #[prost(uint32, tag = "3")]
        pub(super) ack: u32,
        #[prost(uint32, tag = "4")]
        pub(super) ack_bits: u32,
        #[prost(oneof = "Body", tags = "5, 6, 7, 8, 9, 10")]
        pub(super) body: Option<Body>,
        #[prost(string, optional, tag = "11")]
        pub(super) traceparent: Option<String>,
        #[prost(string, optional, tag = "12")]
        pub(super) tracestate: Option<String>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub(super) enum Body {
        #[prost(message, tag = "5")]
        Data(Data),
        #[prost(message, tag = "6")]
        AckFrame(Nothing),
        #[prost(message, tag = "7")]
        Resume(Resume),
        #[prost(message, tag = "8")]
        Reset(Reset),
        #[prost(message, tag = "9")]
        Heartbeat(Nothing),
        #[prost(message, tag = "10")]
        Handshake(Handshake),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Data {
        #[prost(uint32, tag = "1")]
        pub(super) seq: u32,
        #[prost(uint32, tag = "2")]
        pub(super) segment_index: u32,
        #[prost(uint32, tag = "3")]
        pub(super) segment_count: u32,
        #[prost(bytes = "bytes", tag = "4")]
        pub(super) payload: Bytes,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Nothing {}

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Resume {
        #[prost(uint32, tag = "1")]
        pub(super) next_seq: u32,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Reset {
        #[prost(string, tag = "1")]
        pub(super) reason: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Handshake {
        #[prost(bytes = "bytes", tag = "1")]
        pub(super) payload: Bytes,
    }
}
