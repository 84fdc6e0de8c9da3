//! An executor's socket: streams come, carry, and go.

use mainstay_link::relay::Verdict;
use mainstay_link::{Close, LinkError};
use mainstay_noise::{HandshakeError, Identity, Initiator, Prologue, Suite};
use mainstay_wire::relay::Body;

use crate::far::{ENVIRONMENT, REGISTRATION, Rig, Stream};

#[tokio::test]
async fn n5_4_a_valid_harness_gets_a_link_in_either_suite() {
    let mut rig = Rig::new().await;
    for suite in Suite::ALL {
        // Long enough that its length alone does not tell the suite.
        let authorization = "a".repeat(3500);
        let stream = "6F1D3F0A2C574A539A401F5A3F9D2B10";
        let (mut initiator, message_1) = rig.start_with(stream, suite, &authorization);
        rig.far.handshake(stream, message_1).await;
        let (claim, answer) = rig.claims.recv().await.unwrap();
        assert_eq!(claim.authorization, authorization);
        assert!(!format!("{claim:?}").contains("aaaa"), "{claim:?}");
        assert_eq!(claim.harness_key, rig.harness.public(suite));
        assert_eq!(
            claim.stream_uuid().unwrap(),
            "6f1d3f0a-2c57-4a53-9a40-1f5a3f9d2b10"
        );
        answer.send(Verdict::Valid).unwrap();
        let message_2 = rig.far.expect_handshake(stream).await;
        let channel = initiator.finish(&message_2).unwrap();
        let accepted = rig.accepted.recv().await.unwrap();
        assert_eq!(accepted.harness_key, rig.harness.public(suite));
        let mut stream = Stream::new(stream, channel, accepted.link);
        rig.echo(&mut stream).await;
        drop(stream.link);
        rig.far.expect_reset(&stream.id).await;
    }
}

#[tokio::test]
async fn n5_4_rejected_credentials_are_told_end_to_end_and_keep_no_stream() {
    let mut rig = Rig::new().await;
    let (mut initiator, answer) = rig.call("s").await;
    answer.send(Verdict::CredentialsRejected).unwrap();
    let message_2 = rig.far.expect_handshake("s").await;
    let refused = initiator.finish(&message_2).unwrap_err();
    assert_eq!(refused, HandshakeError::CredentialsRejected);
    rig.far.data("s", 0, vec![0; 16]).await;
    rig.far.expect_reset("s").await;
    assert!(rig.accepted.try_recv().is_err());
}

#[tokio::test]
async fn n2_3_a_refused_harness_gets_a_reset() {
    let mut rig = Rig::new().await;
    let (_, answer) = rig.call("s").await;
    answer.send(Verdict::Refused).unwrap();
    rig.far.expect_reset("s").await;
    let mut stream = rig.open("s").await;
    rig.echo(&mut stream).await;
}

#[tokio::test]
async fn n5_2_message_1_for_another_context_is_reset_without_asking() {
    let mut rig = Rig::new().await;
    let key = rig.identity.public(Suite::HybridIk);
    let stranger = Identity::generate().unwrap().public(Suite::HybridIk);
    for (key, environment, registration, stream) in [
        (&key, "other", REGISTRATION, "s"),
        (&key, ENVIRONMENT, "other", "s"),
        (&key, ENVIRONMENT, REGISTRATION, "other"),
        (&stranger, ENVIRONMENT, REGISTRATION, "s"),
    ] {
        let prologue = Prologue::new(Suite::HybridIk, environment, registration, stream);
        let (_, message_1) = Initiator::start(&rig.harness, key, &prologue, "").unwrap();
        rig.far.handshake("s", message_1).await;
        rig.far.expect_reset("s").await;
    }
    assert!(rig.claims.try_recv().is_err());
    rig.open("s").await;
}

#[tokio::test]
async fn n5_5_messages_of_several_mib_pass_both_ways() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    let there: String = (0..5_000_000)
        .map(|at| char::from(b'a' + (at % 23) as u8))
        .collect();
    let back: String = there.chars().rev().collect();

    let records = stream.seal(&there);
    assert_eq!(records.len(), 82);
    for (seq, record) in records {
        rig.far.data("s", seq, record).await;
    }
    let received = stream.link.source.recv().await.unwrap().unwrap();
    assert!(received == there, "changed on the way");

    let mut sink = stream.link.sink;
    let expected = back.clone();
    let sending = tokio::spawn(async move {
        sink.send(back).await.unwrap();
        sink.flush().await.unwrap();
        sink
    });
    let received = loop {
        let (_, body) = rig.far.next().await;
        match body {
            Body::Data { seq, payload } => stream.opener.accept(seq, payload).unwrap(),
            other => panic!("not data: {other:?}"),
        }
        if let Some(message) = stream.opener.message().unwrap() {
            break message;
        }
    };
    assert!(received == expected, "changed on the way");
    sending.await.unwrap();
}

#[tokio::test]
async fn n5_5_a_message_above_64_mib_is_refused_and_the_link_goes_on() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    let length = 64 * 1024 * 1024 + 1;
    let refused = stream.link.sink.send("x".repeat(length)).await.unwrap_err();
    assert!(
        matches!(refused, LinkError::TooLong { size, limit } if size == length && limit == length - 1)
    );
    rig.echo(&mut stream).await;
}

#[tokio::test]
async fn n4_3_the_reset_of_an_ended_link_follows_what_it_sent() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    for number in 0..100 {
        stream.link.sink.send(format!("{number}")).await.unwrap();
    }
    stream.link.sink.close(Close::normal()).await.unwrap();
    stream.link.sink.send("more".to_owned()).await.unwrap_err();
    for number in 0..100 {
        let message = match stream.opener.message().unwrap() {
            Some(message) => message,
            None => {
                let (_, body) = rig.far.next().await;
                stream.take(body).unwrap()
            }
        };
        assert_eq!(message, format!("{number}"));
    }
    rig.far.expect_reset("s").await;
    drop(stream);
    rig.expect_silence().await;
    let mut again = rig.open("s").await;
    rig.echo(&mut again).await;
}

#[tokio::test]
async fn n6_4_the_end_of_the_socket_ends_every_stream() {
    let mut rig = Rig::new().await;
    let mut first = rig.open("one").await;
    let mut second = rig.open("two").await;
    first.send(&mut rig.far, "last words").await;
    drop(rig.far);
    assert_eq!(
        first.link.source.recv().await.unwrap().unwrap(),
        "last words"
    );
    for stream in [&mut first, &mut second] {
        let end = stream.link.source.recv().await.unwrap_err();
        assert!(matches!(end, LinkError::Closed), "{end}");
        let end = stream.link.sink.send("x".to_owned()).await.unwrap_err();
        assert!(matches!(end, LinkError::Closed), "{end}");
    }
    rig.task.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn n6_4_the_routers_close_frame_is_told() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    let restart = Close::restart(std::time::Duration::from_millis(700));
    rig.far.socket.sink.close(restart.clone()).await.unwrap();
    assert_eq!(rig.task.await.unwrap().unwrap(), Some(restart));
    stream.link.source.recv().await.unwrap_err();
}

#[tokio::test]
async fn our_close_frame_follows_what_was_sent() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    stream.link.sink.send("last".to_owned()).await.unwrap();
    stream.link.sink.flush().await.unwrap();
    rig.close.take().unwrap().send(Close::going_away()).unwrap();
    let (_, body) = rig.far.next().await;
    assert_eq!(stream.take(body).unwrap(), "last");
    assert_eq!(rig.far.socket.source.recv().await.unwrap(), None);
    assert_eq!(rig.far.socket.source.closed().unwrap().code, 1001);
    rig.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn short_messages_share_a_record_until_a_flush_or_the_32nd() {
    let mut rig = Rig::new().await;
    let mut stream = rig.open("s").await;
    for number in 0..70 {
        stream.link.sink.send(format!("{number}")).await.unwrap();
    }
    stream.link.sink.flush().await.unwrap();
    let mut all = Vec::new();
    for expected in [32, 32, 6] {
        let (_, body) = rig.far.next().await;
        let before = all.len();
        all.extend(stream.take(body));
        while let Some(message) = stream.opener.message().unwrap() {
            all.push(message);
        }
        assert_eq!(all.len() - before, expected);
    }
    for (number, message) in all.iter().enumerate() {
        assert_eq!(message, &number.to_string());
    }
}
