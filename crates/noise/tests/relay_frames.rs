//! The relay frames of `noise-vectors.json`, both ways (noise-relay.md 12).

use bytes::Bytes;
use mainstay_wire::relay::{Body, Frame, begin_data};
use serde_json::Value;

fn vectors() -> Value {
    let text = include_str!("vectors/noise-vectors.json");
    serde_json::from_str::<Value>(text).unwrap()["noise_hybrid_ik_v1"].take()
}

fn bytes(value: &Value) -> Bytes {
    hex::decode(value.as_str().unwrap()).unwrap().into()
}

fn data(seq: u32, payload: Bytes) -> Body {
    Body::Data { seq, payload }
}

#[test]
fn every_relay_frame() {
    let v = vectors();
    let id = v["stream_id"].as_str().unwrap();
    let aabb = Bytes::from_static(&[0xaa, 0xbb]);
    let aa = Bytes::from_static(&[0xaa]);
    let mut traced = Frame::new("s", data(1, aa.clone()));
    traced.traceparent = Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_owned());
    let frames = [
        (
            "data_record0_seq0",
            Frame::new(id, data(0, bytes(&v["records"][0]["ciphertext"]))),
        ),
        ("resume", Frame::new(id, Body::Resume { next_seq: 0 })),
        ("reset_noise_relay_protocol_error", Frame::reset(id)),
        (
            "sid_s_data_seq0_aabb",
            Frame::new("s", data(0, aabb.clone())),
        ),
        ("sid_s_data_seq1_aabb", Frame::new("s", data(1, aabb))),
        ("sid_s_ack", Frame::new("s", Body::Ack)),
        ("sid_s_heartbeat", Frame::new("s", Body::Heartbeat)),
        (
            "sid_s_handshake_aa",
            Frame::new("s", Body::Handshake { payload: aa }),
        ),
        ("sid_s_data_seq1_aa_traceparent", traced),
    ];
    assert_eq!(v["relay_frames"].as_object().unwrap().len(), frames.len());
    for (name, frame) in frames {
        let expected = bytes(&v["relay_frames"][name]);
        assert_eq!(frame.encode(), expected, "{name}");
        assert_eq!(Frame::decode(expected).unwrap(), frame, "{name}");
    }
}

/// What is written around a record sealed in place is what [`Frame::encode`] writes.
#[test]
fn a_data_frame_begun_by_hand() {
    for seq in [0, 1, 127, 128, 300, 1 << 21, u32::MAX] {
        for length in [1, 16, 117, 127, 128, 16_383, 16_384, 61_456] {
            for id in [
                "s",
                "6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10",
                &"i".repeat(128),
            ] {
                let payload = vec![0xaa; length];
                let mut begun = Vec::new();
                begin_data(&mut begun, id, seq, length);
                begun.extend_from_slice(&payload);
                assert_eq!(begun, Frame::new(id, data(seq, payload.into())).encode());
            }
        }
    }
}
