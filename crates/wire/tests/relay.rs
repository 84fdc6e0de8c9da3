//! Relay frames: the recorded bytes of `noise-vectors.json`, and every rule of validation (`noise-relay.md` 4.2).

use bytes::Bytes;
use mainstay_wire::relay::{BadFrame, Body, Frame, RESET_REASON};

const ID: &str = "6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10";

/// `relay_frames` of `noise-vectors.json`: bytes, and what they say.
#[test]
fn recorded_frames() {
    let data = |id: &str, seq, payload: &str| {
        Frame::new(
            id,
            Body::Data {
                seq,
                payload: hex(payload).into(),
            },
        )
    };
    let record = "161a1d220fddc2df780a4a84be60f9e6dbf033018d5ec1907f65acbe7b2ce3beb4936397895310ac459b5d7db4b8b22ec62e4bd48a649fc31f111eb82012862515b5f1629ef199043e606de16fae5a5516abfa5a32ea5c45d2b96e23688f8bbe13390cb90c4308d6e87afc324f8b8b9c5ee32297c3";
    let mut traced = data("s", 1, "aa");
    traced.traceparent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
    for (bytes, frame) in [
        (
            "0801122436663164336630612d326335372d346135332d396134302d3166356133663964326231303a00",
            Frame::new(ID, Body::Resume { next_seq: 0 }),
        ),
        (
            "0801122436663164336630612d326335372d346135332d396134302d316635613366396432623130421c0a1a6e6f6973655f72656c61795f70726f746f636f6c5f6572726f72",
            Frame::reset(ID),
        ),
        ("08011201732a0618012202aabb", data("s", 0, "aabb")),
        ("08011201732a08080118012202aabb", data("s", 1, "aabb")),
        ("08011201733200", Frame::new("s", Body::Ack)),
        ("08011201734a00", Frame::new("s", Body::Heartbeat)),
        (
            "080112017352030a01aa",
            Frame::new(
                "s",
                Body::Handshake {
                    payload: hex("aa").into(),
                },
            ),
        ),
        (
            "08011201732a07080118012201aa5a3730302d34626639326633353737623334646136613363653932396430653065343733362d303066303637616130626139303262372d3031",
            traced,
        ),
        (
            &format!(
                "0801122436663164336630612d326335372d346135332d396134302d3166356133663964326231302a7918012275{record}"
            ),
            data(ID, 0, record),
        ),
    ] {
        assert_eq!(Frame::decode(hex(bytes).into()).as_ref(), Ok(&frame));
        assert_eq!(frame.encode(), hex(bytes));
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// A protobuf field: bytes, or a number.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[tag << 3 | 2, bytes.len() as u8][..], bytes].concat()
}

fn number(tag: u8, value: u8) -> Vec<u8> {
    vec![tag << 3, value]
}

fn frame(version: u8, id: &str, body: Vec<u8>) -> Result<Frame, BadFrame> {
    Frame::decode(
        [number(1, version), field(2, id.as_bytes()), body]
            .concat()
            .into(),
    )
}

fn data(index: u8, count: u8, payload: &[u8]) -> Vec<u8> {
    field(
        5,
        &[
            number(1, 3),
            number(2, index),
            number(3, count),
            field(4, payload),
        ]
        .concat(),
    )
}

#[test]
fn s4_2_what_is_valid() {
    let good = data(0, 1, b"x");
    assert_eq!(
        frame(1, ID, good.clone()),
        Ok(Frame::new(
            ID,
            Body::Data {
                seq: 3,
                payload: Bytes::from_static(b"x")
            }
        ))
    );
    assert_eq!(frame(0, ID, good.clone()), Err(BadFrame::Version));
    assert_eq!(frame(2, ID, good.clone()), Err(BadFrame::Version));
    assert_eq!(frame(1, "", good.clone()), Err(BadFrame::StreamId));
    assert_eq!(frame(1, " \t", good.clone()), Err(BadFrame::StreamId));
    assert!(frame(1, " pad ", good.clone()).is_ok());
    assert_eq!(frame(1, ID, data(1, 1, b"x")), Err(BadFrame::Data));
    assert_eq!(frame(1, ID, data(0, 2, b"x")), Err(BadFrame::Data));
    assert_eq!(frame(1, ID, data(0, 0, b"x")), Err(BadFrame::Data));
    assert_eq!(frame(1, ID, data(0, 1, b"")), Err(BadFrame::Data));
    assert_eq!(frame(1, ID, vec![]), Err(BadFrame::NoBody));
    assert_eq!(frame(1, ID, field(8, b"")), Err(BadFrame::Reset));
    assert_eq!(frame(1, ID, field(10, b"")), Err(BadFrame::Handshake));
    assert_eq!(frame(1, ID, field(6, b"")).unwrap().body, Body::Ack);
    assert_eq!(frame(1, ID, field(9, b"")).unwrap().body, Body::Heartbeat);
    // A field nobody knows, inside and outside.
    assert!(frame(1, ID, [field(6, b""), field(15, b"later")].concat()).is_ok());
    assert_eq!(
        Frame::decode(Bytes::from_static(b"\xff\xff\xff")),
        Err(BadFrame::Undecodable)
    );
}

#[test]
fn our_caps() {
    let long = |len: usize| Frame::new("i".repeat(len), Body::Ack).encode();
    assert!(Frame::decode(long(128)).is_ok());
    assert_eq!(Frame::decode(long(129)), Err(BadFrame::StreamId));
    let payload = |len: usize| {
        Frame::new(
            ID,
            Body::Data {
                seq: 0,
                payload: vec![1; len].into(),
            },
        )
        .encode()
    };
    let overhead = payload(262_000).len() - 262_000;
    assert!(Frame::decode(payload(262_144 - overhead)).is_ok());
    assert_eq!(
        Frame::decode(payload(262_145 - overhead)),
        Err(BadFrame::TooLarge)
    );
}

#[test]
fn round_trip_with_trace() {
    let mut frame = Frame::new(
        ID,
        Body::Handshake {
            payload: Bytes::from_static(b"m1"),
        },
    );
    frame.traceparent = Some("00-1-2-01".to_owned());
    frame.tracestate = Some(String::new());
    assert_eq!(Frame::decode(frame.encode()), Ok(frame));
    assert_eq!(
        Frame::decode(Frame::reset(ID).encode()).unwrap().body,
        Body::Reset {
            reason: RESET_REASON.to_owned()
        }
    );
}

#[test]
fn a_payload_shares_the_messages_memory() {
    let message = Frame::new(
        ID,
        Body::Data {
            seq: 0,
            payload: vec![1; 1000].into(),
        },
    )
    .encode();
    let range = message.as_ptr_range();
    let Body::Data { payload, .. } = Frame::decode(message.clone()).unwrap().body else {
        panic!()
    };
    assert!(range.contains(&payload.as_ptr()));
}
