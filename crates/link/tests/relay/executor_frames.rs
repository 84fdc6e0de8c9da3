//! An executor's socket: what each kind of frame does in each state (noise-relay.md 4.2, 6.1).

use bytes::Bytes;
use mainstay_link::LinkError;
use mainstay_link::relay::Verdict;
use mainstay_wire::relay::{Body, Frame};

use crate::far::Rig;

#[tokio::test]
async fn n4_2_what_is_no_valid_frame_is_dropped_in_silence() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    let valid = Frame::new("s", Body::Heartbeat).encode();
    let version = |number| [&[0x08, number], &valid[2..]].concat();
    for junk in [
        version(0),
        version(2),
        Frame::new("", Body::Heartbeat).encode().to_vec(),
        Frame::new("  ", Body::Heartbeat).encode().to_vec(),
        Frame::new("i".repeat(129), Body::Heartbeat)
            .encode()
            .to_vec(),
        // No body; an empty record; two segments; an empty handshake; an empty reason.
        vec![0x08, 1, 0x12, 1, b's'],
        Frame::new(
            "s",
            Body::Data {
                seq: 0,
                payload: Bytes::new(),
            },
        )
        .encode()
        .to_vec(),
        vec![
            0x08, 1, 0x12, 1, b's', 0x2a, 6, 0x18, 2, 0x22, 2, 0xaa, 0xbb,
        ],
        Frame::new(
            "s",
            Body::Handshake {
                payload: Bytes::new(),
            },
        )
        .encode()
        .to_vec(),
        Frame::new(
            "s",
            Body::Reset {
                reason: String::new(),
            },
        )
        .encode()
        .to_vec(),
        vec![0xff; 40],
        vec![],
    ] {
        rig.far.send_bytes(junk.into()).await;
    }
    rig.far
        .socket
        .sink
        .feed_text("{}".to_owned())
        .await
        .unwrap();
    rig.expect_silence().await;
    rig.echo(&mut stream).await;
}

#[tokio::test]
async fn n6_1_acks_resumes_and_heartbeats_are_ignored_in_every_state() {
    let mut rig = Rig::new().await;
    let bodies = [Body::Ack, Body::Resume { next_seq: 7 }, Body::Heartbeat];
    for body in &bodies {
        rig.far.send("s", body.clone()).await;
    }
    let (mut initiator, answer) = rig.call("s").await;
    for body in &bodies {
        rig.far.send("s", body.clone()).await;
    }
    answer.send(Verdict::Valid).unwrap();
    let message_2 = rig.far.expect_handshake("s").await;
    initiator.finish(&message_2).unwrap();
    for body in bodies {
        rig.far.send("s", body).await;
    }
    rig.expect_silence().await;
}

#[tokio::test]
async fn n6_1_a_handshake_on_an_active_stream_is_answered_with_a_reset_and_harms_nobody() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    rig.echo(&mut stream).await;
    let (_, message_1) = rig.start("s");
    rig.far.handshake("s", message_1).await;
    rig.far.expect_reset("s").await;
    rig.echo(&mut stream).await;
    assert!(rig.claims.try_recv().is_err());
}

#[tokio::test]
async fn n6_1_a_second_handshake_drops_a_pending_one() {
    let mut rig = Rig::new().await;
    let (_, first) = rig.call("s").await;
    let (_, message_1) = rig.start("s");
    rig.far.handshake("s", message_1).await;
    rig.far.expect_reset("s").await;
    // The dropped one's verdict comes too late, if it is not refused outright.
    let _ = first.send(Verdict::Valid);
    rig.expect_silence().await;
    let mut stream = rig.open("s").await;
    rig.echo(&mut stream).await;
    assert!(rig.accepted.try_recv().is_err());
}

#[tokio::test]
async fn n6_1_data_drops_a_pending_handshake() {
    let mut rig = Rig::new().await;
    let (_, first) = rig.call("s").await;
    rig.far.data("s", 0, vec![0; 16]).await;
    rig.far.expect_reset("s").await;
    rig.expect_silence().await;
    // Nobody waits for the registry's word any more.
    assert!(first.is_closed());
    rig.open("s").await;
}

#[tokio::test]
async fn n6_1_a_reset_drops_a_pending_handshake_in_silence() {
    let mut rig = Rig::new().await;
    let (_, first) = rig.call("s").await;
    rig.far.send("s", reset()).await;
    rig.expect_silence().await;
    let _ = first.send(Verdict::Valid);
    rig.expect_silence().await;
    // Eight of them cost nothing of the failure budget.
    let mut unanswered = Vec::new();
    for _ in 0..8 {
        unanswered.push(rig.call("s").await);
        rig.far.send("s", reset()).await;
    }
    rig.open("s").await;
}

#[tokio::test]
async fn n6_1_data_without_a_stream_is_answered_with_a_reset_each_time() {
    let mut rig = Rig::new().await;
    for _ in 0..3 {
        rig.far.data("nobody", 0, vec![0; 16]).await;
        rig.far.expect_reset("nobody").await;
    }
    rig.far.send("nobody", reset()).await;
    rig.expect_silence().await;
}

#[tokio::test]
async fn n6_1_a_reset_ends_the_link_after_what_arrived_and_frees_the_id() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    stream.send(&mut rig.far, "before").await;
    rig.far.send("s", reset()).await;
    assert_eq!(stream.link.source.recv().await.unwrap().unwrap(), "before");
    let end = stream.link.source.recv().await.unwrap_err();
    assert!(matches!(end, LinkError::Reset), "{end}");
    let end = stream.link.sink.send("x".to_owned()).await.unwrap_err();
    assert_eq!(end.to_string(), "Noise relay stream reset");
    let mut again = rig.open("s").await;
    // The end of the first link says nothing about the second.
    drop(stream);
    rig.expect_silence().await;
    rig.echo(&mut again).await;
}

#[tokio::test]
async fn n5_5_a_bad_record_resets_its_stream_and_no_other() {
    let mut rig = Rig::new().await;
    let mut good = rig.open("good").await;
    for number in 0..4 {
        let mut bad = rig.open("bad").await;
        let (seq, record) = bad.seal("{}").remove(0);
        let mut record = record.to_vec();
        match number {
            0 => record[3] ^= 1,
            1 => record.truncate(15),
            2 => record = vec![0; 61_457],
            _ => {}
        }
        let seq = if number == 3 { 65 } else { seq };
        rig.far.data("bad", seq, record).await;
        rig.far.expect_reset("bad").await;
        let end = bad.link.source.recv().await.unwrap_err();
        assert!(matches!(end, LinkError::Reset), "{end}");
        rig.echo(&mut good).await;
    }
}

#[tokio::test]
async fn n5_6_records_are_put_in_order_and_repeats_ignored() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    let mut records: Vec<_> = (0..65)
        .flat_map(|number| stream.seal(&format!("{number}")))
        .collect();
    records.reverse();
    for (seq, record) in records {
        rig.far.data("s", seq, record.clone()).await;
        rig.far.data("s", seq, record).await;
    }
    for number in 0..65 {
        let message = stream.link.source.recv().await.unwrap().unwrap();
        assert_eq!(message, format!("{number}"));
    }
    rig.echo(&mut stream).await;
}

fn reset() -> Body {
    let reason = "anything".to_owned();
    Body::Reset { reason }
}
