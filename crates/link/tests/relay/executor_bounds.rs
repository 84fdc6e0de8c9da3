//! An executor's socket: every bound, at it and one past it (noise-relay.md 6.2, 6.3).

use std::time::Duration;

use mainstay_link::LinkError;
use mainstay_link::relay::Verdict;
use mainstay_wire::relay::{Body, Frame as RelayFrame};
use tokio::time::advance;

use crate::far::{Rig, frozen};

#[tokio::test]
async fn n6_2_the_129th_stream_is_reset() {
    let mut rig = Rig::new().await;
    let mut streams = Vec::new();
    for number in 0..128 {
        streams.push(rig.open(&format!("stream-{number}")).await);
    }
    let (_, message_1) = rig.start("one too many");
    rig.far.handshake("one too many", message_1).await;
    rig.far.expect_reset("one too many").await;
    assert!(rig.claims.try_recv().is_err());
    rig.echo(&mut streams[127]).await;
    // One leaves, one comes.
    drop(streams.remove(0));
    rig.far.expect_reset("stream-0").await;
    let mut stream = rig.open("one too many").await;
    rig.echo(&mut stream).await;
}

#[tokio::test]
async fn n6_2_the_128th_place_is_for_whoever_is_validated_first() {
    let mut rig = Rig::new().await;
    let mut streams = Vec::new();
    for number in 0..127 {
        streams.push(rig.open(&format!("stream-{number}")).await);
    }
    let (_, slow) = rig.call("slow").await;
    let mut fast = rig.open("fast").await;
    slow.send(Verdict::Valid).unwrap();
    rig.far.expect_reset("slow").await;
    rig.echo(&mut fast).await;
}

#[tokio::test]
async fn n6_2_the_33rd_validation_in_flight_is_reset_and_is_no_failure() {
    let mut rig = Rig::new().await;
    let mut waiting = Vec::new();
    for number in 0..32 {
        waiting.push(rig.call(&format!("stream-{number}")).await);
    }
    for _ in 0..8 {
        let (_, message_1) = rig.start("one too many");
        rig.far.handshake("one too many", message_1).await;
        rig.far.expect_reset("one too many").await;
    }
    let (mut initiator, answer) = waiting.pop().unwrap();
    answer.send(Verdict::Valid).unwrap();
    let message_2 = rig.far.expect_handshake("stream-31").await;
    initiator.finish(&message_2).unwrap();
    let _admitted = rig.accepted.recv().await.unwrap();
    rig.open("one too many").await;
}

#[test]
fn n6_2_a_validation_has_ten_seconds() {
    frozen(async {
        let mut rig = Rig::new().await;
        let (_, mut answer) = rig.call("s").await;
        advance(Duration::from_millis(9_990)).await;
        rig.expect_silence().await;
        advance(Duration::from_millis(20)).await;
        rig.far.expect_reset("s").await;
        answer.closed().await;
    });
}

#[tokio::test]
async fn n6_2_the_129th_undelivered_message_resets_its_stream_and_no_other() {
    let mut rig = Rig::new().await;
    let mut slow = rig.open("slow").await;
    let mut other = rig.open("other").await;
    for number in 0..128 {
        slow.send(&mut rig.far, &format!("{number}")).await;
    }
    rig.echo(&mut other).await;
    // Room for one is room for one.
    assert_eq!(slow.link.source.recv().await.unwrap().unwrap(), "0");
    slow.send(&mut rig.far, "128").await;
    rig.echo(&mut other).await;
    slow.send(&mut rig.far, "129").await;
    rig.far.expect_reset("slow").await;
    rig.echo(&mut other).await;
    for number in 1..129 {
        let message = slow.link.source.recv().await.unwrap().unwrap();
        assert_eq!(message, format!("{number}"));
    }
    let end = slow.link.source.recv().await.unwrap_err();
    assert!(matches!(end, LinkError::Reset), "{end}");
}

/// A burst is no reason for a reset while somebody reads.
#[tokio::test]
async fn a_burst_of_messages_reaches_a_reader_that_keeps_up() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    let mut source = stream.link.source;
    let reading = tokio::spawn(async move {
        for number in 0..2000 {
            assert_eq!(source.recv().await.unwrap().unwrap(), format!("{number}"));
        }
    });
    for number in 0..2000 {
        stream.sealer.push(format!("{number}")).unwrap();
        let next = stream.sealer.upcoming().unwrap();
        let mut record = Vec::new();
        stream.sealer.seal(&mut record).unwrap();
        let (seq, payload) = (next.seq, record.into());
        let frame = RelayFrame::new("s", Body::Data { seq, payload }).encode();
        rig.far.socket.sink.feed(frame).await.unwrap();
    }
    rig.far.socket.sink.flush().await.unwrap();
    reading.await.unwrap();
}

#[tokio::test]
async fn undelivered_messages_are_bounded_in_bytes() {
    let mut rig = Rig::new().await;
    let mut slow = rig.open("slow").await;
    let large = "x".repeat(44 << 20);
    // 88 MiB wait; 132 MiB would be above 128. What was read does not count.
    slow.send(&mut rig.far, &large).await;
    slow.send(&mut rig.far, &large).await;
    assert!(slow.link.source.recv().await.unwrap().unwrap() == large);
    slow.send(&mut rig.far, &large).await;
    rig.expect_silence().await;
    let records = slow.seal(&large);
    for (seq, record) in records {
        rig.far.data("slow", seq, record).await;
    }
    rig.far.expect_reset("slow").await;
}

#[test]
fn n6_3_eight_failures_refuse_new_handshakes_for_ten_seconds() {
    frozen(async {
        let mut rig = Rig::new().await;
        let mut active = rig.open("active").await;
        for number in 0..8 {
            let stream = format!("stream-{number}");
            match number {
                // Bad message 1, refused, rejected, duplicate, data on pending: each counts.
                0 => rig.far.handshake(&stream, vec![1; 4000]).await,
                1 => rig.call(&stream).await.1.send(Verdict::Refused).unwrap(),
                2 => {
                    let (_, answer) = rig.call(&stream).await;
                    answer.send(Verdict::CredentialsRejected).unwrap();
                    rig.far.expect_handshake(&stream).await;
                    continue;
                }
                3 => {
                    let (_, _answer) = rig.call(&stream).await;
                    let (_, message_1) = rig.start(&stream);
                    rig.far.handshake(&stream, message_1).await;
                    rig.far.expect_reset(&stream).await;
                    continue;
                }
                4 => {
                    let (_, _answer) = rig.call(&stream).await;
                    rig.far.data(&stream, 0, vec![0; 16]).await;
                    rig.far.expect_reset(&stream).await;
                    continue;
                }
                _ => rig.far.handshake(&stream, vec![1]).await,
            }
            rig.far.expect_reset(&stream).await;
        }
        for after in [0, 9_990] {
            advance(Duration::from_millis(after)).await;
            let (_, message_1) = rig.start("refused");
            rig.far.handshake("refused", message_1).await;
            rig.far.expect_reset("refused").await;
            assert!(rig.claims.try_recv().is_err());
        }
        rig.echo(&mut active).await;
        advance(Duration::from_millis(20)).await;
        let mut stream = rig.open("accepted again").await;
        rig.echo(&mut stream).await;
    });
}

#[test]
fn n6_3_a_panicking_or_vanished_validator_is_a_failure_like_any_other() {
    frozen(async {
        let mut rig = Rig::new().await;
        for _ in 0..8 {
            drop(rig.call("s").await);
            rig.far.expect_reset("s").await;
        }
        let (_, message_1) = rig.start("refused");
        rig.far.handshake("refused", message_1).await;
        rig.far.expect_reset("refused").await;
    });
}

#[tokio::test]
async fn a_stream_that_nobody_accepts_is_reset() {
    let mut rig = Rig::accepting(1).await;
    let (_, first) = rig.call("first").await;
    first.send(Verdict::Valid).unwrap();
    rig.far.expect_handshake("first").await;
    let (_, second) = rig.call("second").await;
    second.send(Verdict::Valid).unwrap();
    rig.far.expect_handshake("second").await;
    rig.far.expect_reset("second").await;
    assert_eq!(rig.accepted.recv().await.unwrap().stream_id, "first");
}

/// The router takes nothing, and resets a stream that waits for its turn to write.
#[tokio::test]
async fn a_reset_releases_a_sender_that_waits() {
    let mut rig = Rig::new().await;
    let stream = rig.open("s").await;
    let mut sink = stream.link.sink;
    let flooding = tokio::spawn(async move {
        loop {
            sink.send("x".repeat(1 << 20)).await?;
        }
        #[allow(unreachable_code)]
        Ok::<(), LinkError>(())
    });
    // The first bytes are here: the flood has begun.
    rig.far.next().await;
    let reason = "gone".to_owned();
    rig.far.send("s", Body::Reset { reason }).await;
    let end = flooding.await.unwrap().unwrap_err();
    assert!(matches!(end, LinkError::Reset), "{end}");
}

#[test]
fn n3_a_router_that_answers_no_ping_is_left_after_90_seconds() {
    frozen(async {
        let mut rig = Rig::new().await;
        let mut stream = rig.open("s").await;
        advance(Duration::from_millis(30_010)).await;
        tokio::task::yield_now().await;
        advance(Duration::from_millis(60_010)).await;
        // Not read until now, so no pong was sent.
        let end = rig.task.await.unwrap().unwrap_err();
        assert!(matches!(end, LinkError::PongTimeout(_)), "{end}");
        stream.link.source.recv().await.unwrap_err();
    });
}

/// The router takes nothing: what one stream has to say must hold up neither the other streams' turn nor what comes in.
#[tokio::test]
async fn a_flooding_stream_leaves_the_others_their_turn() {
    let mut rig = Rig::new().await;
    let mut flood = rig.open("flood").await;
    let mut quiet = rig.open("quiet").await;
    let mut sink = flood.link.sink;
    let flooding = tokio::spawn(async move {
        for _ in 0..8 {
            sink.send("x".repeat(8 << 20)).await?;
        }
        sink.flush().await
    });
    // The flood stands: socket and share are full. Inbound goes on.
    quiet.send(&mut rig.far, "heard").await;
    assert_eq!(quiet.link.source.recv().await.unwrap().unwrap(), "heard");
    quiet.link.sink.send("turn".to_owned()).await.unwrap();
    quiet.link.sink.flush().await.unwrap();
    let mut ahead = 0;
    loop {
        let (id, body) = rig.far.next().await;
        if id == "quiet" {
            assert_eq!(quiet.take(body).unwrap(), "turn");
            break;
        }
        if let Body::Data { seq, payload } = body {
            ahead += payload.len();
            flood.opener.accept(seq, payload).unwrap();
        }
    }
    // Its share, and what socket buffers hold; far from the 64 MiB it has to say.
    assert!(ahead < 24 << 20, "{ahead} bytes went first");
    assert!(!flooding.is_finished());
    let mut messages = 0;
    while messages < 8 {
        match flood.opener.message().unwrap() {
            Some(message) => {
                assert_eq!(message.len(), 8 << 20);
                messages += 1;
            }
            None => {
                let (_, body) = rig.far.next().await;
                if let Body::Data { seq, payload } = body {
                    flood.opener.accept(seq, payload).unwrap();
                }
            }
        }
    }
    flooding.await.unwrap().unwrap();
}
