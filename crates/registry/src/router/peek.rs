//! Reads from a relay frame what the router needs, and leaves the frame as it is.

use std::str;

use mainstay_wire::limits;

/// What the router reads from a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peek<'a> {
    pub(crate) stream_id: &'a str,
    pub(crate) reset: bool,
}

/// Stream id and kind of a frame; nothing if it is no protobuf, or its id is blank or above 128 bytes. As for every protobuf
/// reader, the last of several values counts, so that router and receiver see the same.
pub(crate) fn peek(frame: &[u8]) -> Option<Peek<'_>> {
    let mut rest = frame;
    let mut stream_id: &[u8] = &[];
    let mut body = 0;
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let field = tag >> 3;
        match tag & 7 {
            0 => {
                varint(&mut rest)?;
            }
            1 => take(&mut rest, 8)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                let value = rest;
                take(&mut rest, length)?;
                match field {
                    2 => stream_id = &value[..length],
                    5..=10 => body = field,
                    _ => {}
                }
            }
            5 => take(&mut rest, 4)?,
            _ => return None,
        }
    }
    if stream_id.len() > limits::RELAY_STREAM_ID {
        return None;
    }
    let stream_id = str::from_utf8(stream_id).ok()?;
    (!stream_id.trim().is_empty()).then_some(Peek {
        stream_id,
        reset: body == 8,
    })
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

fn take(rest: &mut &[u8], length: usize) -> Option<()> {
    *rest = rest.get(length..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mainstay_wire::relay::{Body, Frame};

    use super::*;

    #[test]
    fn frames_of_the_codec_are_read_as_it_wrote_them() {
        let payload = Bytes::from(vec![0xff; 61_456]);
        let bodies = [
            Body::Data {
                seq: 0,
                payload: payload.clone(),
            },
            Body::Data {
                seq: u32::MAX,
                payload: payload.clone(),
            },
            Body::Ack,
            Body::Resume { next_seq: 0 },
            Body::Heartbeat,
            Body::Handshake { payload },
            Body::Reset { reason: "x".into() },
        ];
        for body in bodies {
            let reset = matches!(body, Body::Reset { .. });
            let mut frame = Frame::new("6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10", body);
            frame.traceparent = Some("00-4bf92f".into());
            let bytes = frame.encode();
            assert_eq!(
                peek(&bytes),
                Some(Peek {
                    stream_id: &frame.stream_id,
                    reset
                })
            );
            for end in 0..bytes.len().min(60) {
                // Cut short it is something else, or nothing, but never a panic.
                let _ = peek(&bytes[..end]);
            }
        }
    }

    #[test]
    fn what_is_no_frame_is_nothing() {
        for bad in [
            &b""[..],
            b"\x12\x00",
            b"\x12\x02  ",
            b"\x12\x05ab",
            b"\x12\x02\xff\xfe",
            b"\x13\x01a",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
        ] {
            assert_eq!(peek(bad), None, "{bad:?}");
        }
        let long = Frame::new("x".repeat(129), Body::Ack).encode();
        assert_eq!(peek(&long), None);
    }

    #[test]
    fn of_two_ids_and_two_bodies_the_last_counts_as_for_the_receiver() {
        let mut bytes = Frame::reset("first").encode().to_vec();
        bytes.extend(Frame::new("second", Body::Ack).encode());
        let seen = Frame::decode(bytes.clone().into()).unwrap();
        let peeked = peek(&bytes).unwrap();
        assert_eq!(
            (peeked.stream_id, peeked.reset),
            (seen.stream_id.as_str(), false)
        );
    }
}
