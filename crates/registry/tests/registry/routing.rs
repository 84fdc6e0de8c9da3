//! Frames find their way unchanged, and ends are told.

use bytes::Bytes;
use mainstay_link::Close;
use mainstay_wire::relay::{Body, Frame};

use crate::support::{bulk, data, hybrid_key, rig};

#[tokio::test]
async fn frames_pass_unchanged_in_order_and_to_nobody_else() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let (mut left, mut right) = (rig.harness().await, rig.harness().await);
    for (harness, id) in [(&mut left, "left"), (&mut right, "right")] {
        harness.send(id, Body::Resume { next_seq: 0 }).await;
        executor.expect(id, Body::Resume { next_seq: 0 }).await;
    }
    for seq in 0..50 {
        left.send("left", bulk(seq)).await;
        right.send("right", data(seq, b"small")).await;
        executor.send("right", bulk(seq)).await;
        executor.send("left", data(seq, b"small")).await;
    }
    let (mut from_left, mut from_right) = (0, 0);
    for _ in 0..100 {
        let (id, body) = executor.receive().await;
        if id == "left" {
            assert_eq!(body, bulk(from_left));
            from_left += 1;
        } else {
            assert_eq!((id.as_str(), body), ("right", data(from_right, b"small")));
            from_right += 1;
        }
    }
    for seq in 0..50 {
        left.expect("left", data(seq, b"small")).await;
        right.expect("right", bulk(seq)).await;
    }
}

#[tokio::test]
async fn a_frame_is_forwarded_byte_by_byte_with_what_nobody_here_knows() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let mut harness = rig.harness().await;
    // A non-minimal length, an unknown field 100, and a version nobody speaks.
    let mut odd = b"\x08\x63\x12\x81\x00s".to_vec();
    odd.extend_from_slice(b"\xa2\x06\x03abc\x2a\x07\x18\x01\x22\x03xyz");
    let odd = Bytes::from(odd);
    harness.send_bytes(odd.clone()).await;
    assert_eq!(executor.receive_bytes().await, odd);
    executor.send_bytes(odd.clone()).await;
    assert_eq!(harness.receive_bytes().await, odd);
}

#[tokio::test]
async fn text_and_what_is_no_frame_are_dropped_without_a_word() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let mut harness = rig.harness().await;
    for peer in [&mut harness, &mut executor] {
        peer.0.sink.feed_text("hello".into()).await.unwrap();
        for junk in ["", "\u{0}", "junk that is no frame"] {
            peer.send_bytes(junk.into()).await;
        }
        peer.send_bytes(Frame::new("x".repeat(129), Body::Ack).encode())
            .await;
    }
    // Frames of streams that nobody claimed come from late answers.
    executor.send("nobody", data(0, b"x")).await;
    executor
        .send("nobody", Body::Reset { reason: "x".into() })
        .await;
    harness
        .send("nobody", Body::Reset { reason: "x".into() })
        .await;
    harness.send("s", data(0, b"x")).await;
    executor.expect("s", data(0, b"x")).await;
    executor.send("s", data(0, b"y")).await;
    harness.expect("s", data(0, b"y")).await;
}

#[tokio::test]
async fn the_executor_is_told_when_a_harness_goes() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let (mut leaving, mut staying) = (rig.harness().await, rig.harness().await);
    leaving.send("leaving", data(0, b"x")).await;
    executor.receive().await;
    staying.send("staying", data(0, b"x")).await;
    executor.receive().await;
    drop(leaving);
    executor.expect_reset("leaving").await;
    // A reset id may be used again.
    staying.send("leaving", data(0, b"y")).await;
    executor.expect("leaving", data(0, b"y")).await;
    staying.0.sink.close(Close::normal()).await.unwrap();
    let mut ended = [executor.receive().await.0, executor.receive().await.0];
    ended.sort();
    assert_eq!(ended, ["leaving", "staying"]);
}

#[tokio::test]
async fn harnesses_are_closed_when_their_executor_goes() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let (mut left, mut right) = (rig.harness().await, rig.harness().await);
    left.send("s", data(0, b"x")).await;
    executor.receive().await;
    executor.send("s", data(0, b"last")).await;
    drop(executor);
    left.expect("s", data(0, b"last")).await;
    assert_eq!(left.end().await, Some(1001));
    assert_eq!(right.end().await, Some(1001));
}

#[tokio::test]
async fn a_reset_of_either_end_reaches_the_other_and_frees_the_id() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let (mut first, mut second) = (rig.harness().await, rig.harness().await);
    let reset = Body::Reset {
        reason: "whatever".into(),
    };
    first.send("s", data(0, b"1")).await;
    executor.expect("s", data(0, b"1")).await;
    executor.send("s", reset.clone()).await;
    first.expect("s", reset.clone()).await;
    second.send("s", data(0, b"2")).await;
    executor.expect("s", data(0, b"2")).await;
    second.send("s", reset.clone()).await;
    executor.expect("s", reset).await;
    first.send("s", data(0, b"3")).await;
    executor.expect("s", data(0, b"3")).await;
    executor.send("s", data(0, b"4")).await;
    first.expect("s", data(0, b"4")).await;
}

#[tokio::test]
async fn a_stream_id_of_somebody_else_cannot_be_taken() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let (mut owner, mut thief) = (rig.harness().await, rig.harness().await);
    owner.send("s", data(0, b"mine")).await;
    executor.expect("s", data(0, b"mine")).await;
    thief.send("s", data(0, b"stolen")).await;
    thief.expect_reset("s").await;
    thief.send("s", Body::Reset { reason: "x".into() }).await;
    drop(thief);
    executor.send("s", data(0, b"answer")).await;
    owner.expect("s", data(0, b"answer")).await;
    owner.send("s", data(1, b"more")).await;
    executor.expect("s", data(1, b"more")).await;
}

#[tokio::test]
async fn a_harness_socket_has_room_for_a_few_streams() {
    let rig = rig().await;
    let (mut executor, _) = rig.executor(&hybrid_key(1)).await;
    let mut harness = rig.harness().await;
    for at in 0..8 {
        let id = format!("s{at}");
        harness.send(&id, data(0, b"x")).await;
        executor.expect(&id, data(0, b"x")).await;
    }
    harness.send("one more", data(0, b"x")).await;
    harness.expect_reset("one more").await;
}
