//! What passes over a link, and what is too much.

use std::time::Duration;

use mainstay_link::{Close, DialOptions, Frame, Limits, LinkError, dial_raw};
use mainstay_wire::limits::MIB;

use crate::support::{
    BINARY, CONTINUE, PING, PONG, Peer, TEXT, WireFrame, accepted_from_peer, linked, serve,
};

#[tokio::test]
async fn messages_pass_both_ways_in_order() {
    let (mut near, mut far) = linked(Limits::direct()).await;
    for id in 0..100 {
        near.sink.send(format!("{{\"id\":{id}}}")).await.unwrap();
        far.sink.send(format!("[{id}]")).await.unwrap();
    }
    near.sink.flush().await.unwrap();
    far.sink.flush().await.unwrap();
    for id in 0..100 {
        let (left, right) = (near.source.recv().await, far.source.recv().await);
        assert_eq!(left.unwrap().unwrap(), format!("[{id}]"));
        assert_eq!(right.unwrap().unwrap(), format!("{{\"id\":{id}}}"));
    }
}

#[tokio::test]
async fn a_close_reaches_the_peer_with_code_and_reason_and_what_was_sent_before() {
    let window = Duration::from_millis(1500);
    let (mut near, mut far) = linked(Limits::direct()).await;
    far.sink.send("last".into()).await.unwrap();
    tokio::time::pause();
    let started = tokio::time::Instant::now();
    let closing = tokio::spawn(far.close(Close::restart(window), Duration::from_secs(5)));
    assert_eq!(near.source.recv().await.unwrap().unwrap(), "last");
    assert_eq!(near.source.recv().await.unwrap(), None);
    let close = near.source.closed().unwrap();
    assert_eq!(
        (close.code, close.reason.as_str()),
        (1012, "window-ms=1500")
    );
    assert_eq!(close.restart_window(), Some(window));
    assert_eq!(near.source.recv().await.unwrap(), None);
    // The answer to the close was written, so the other end does not sit out its five seconds.
    closing.await.unwrap();
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert!(matches!(
        near.sink.send("late".into()).await,
        Err(LinkError::Closed)
    ));
}

#[tokio::test]
async fn an_end_without_close_frame_is_an_end_of_file() {
    let (near, mut far) = linked(Limits::direct()).await;
    drop(near);
    match far.source.recv().await {
        Err(LinkError::Io(error)) => assert!(matches!(
            error.kind(),
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset
        )),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn binary_json_is_taken_like_text_and_the_raw_socket_tells_them_apart() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    peer.send(true, BINARY, b"{\"id\":7}").await;
    assert_eq!(link.source.recv().await.unwrap().unwrap(), "{\"id\":7}");

    let (address, mut sockets) = serve(Limits::rendezvous(), Default::default()).await;
    let url = format!("ws://{address}");
    let mut near = dial_raw(&url, &DialOptions::rendezvous()).await.unwrap();
    let mut far = sockets.recv().await.unwrap();
    near.sink.feed("\u{0}frame".into()).await.unwrap();
    near.sink.feed_text("text".into()).await.unwrap();
    near.sink.flush().await.unwrap();
    let frames = [far.source.recv().await, far.source.recv().await];
    let [binary, text] = frames.map(|frame| frame.unwrap().unwrap());
    assert_eq!(binary, Frame::Binary("\u{0}frame".into()));
    assert_eq!(text, Frame::Text("text".into()));
}

#[tokio::test]
async fn fragments_with_a_ping_between_them_are_one_message_and_the_ping_is_answered() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    peer.send(false, TEXT, b"{\"a\":\"\xc3").await;
    peer.send(true, PING, b"who?").await;
    peer.send(false, CONTINUE, b"").await;
    peer.send(true, CONTINUE, b"\xa4\"}").await;
    assert_eq!(link.source.recv().await.unwrap().unwrap(), "{\"a\":\"ä\"}");
    let pong = WireFrame {
        fin: true,
        opcode: PONG,
        payload: b"who?".to_vec(),
    };
    assert_eq!(peer.receive().await, pong);
}

#[tokio::test]
async fn text_that_is_no_utf8_ends_the_link() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    peer.send(true, TEXT, b"\xff\xfe").await;
    assert!(matches!(
        link.source.recv().await,
        Err(LinkError::Protocol(_))
    ));
}

#[tokio::test]
async fn a_frame_of_16_mib_passes_and_one_byte_more_does_not() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    let payload = vec![b'x'; 16 * MIB + 1];
    let sending = tokio::spawn(async move {
        peer.send(true, TEXT, &payload[1..]).await;
        // The head alone is enough to be refused, so the rest may find the socket closed.
        let head = [0x81, 0xff, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0];
        tokio::io::AsyncWriteExt::write_all(&mut peer.tcp, &head)
            .await
            .unwrap();
        peer
    });
    assert_eq!(link.source.recv().await.unwrap().unwrap().len(), 16 * MIB);
    match link.source.recv().await {
        Err(LinkError::TooLong { size, limit }) => {
            assert_eq!((size, limit), (16 * MIB + 1, 16 * MIB));
        }
        other => panic!("{other:?}"),
    }
    sending.await.unwrap();
}

#[tokio::test]
async fn a_message_of_64_mib_in_frames_passes_and_one_byte_more_does_not() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    let sending = tokio::spawn(async move {
        let frame = vec![b'x'; 16 * MIB];
        for last in [16 * MIB, 16 * MIB - 1] {
            if last < 16 * MIB {
                peer.send(false, TEXT, b"xx").await;
            } else {
                peer.send(false, TEXT, b"").await;
            }
            for _ in 0..3 {
                peer.send(false, CONTINUE, &frame).await;
            }
            peer.send(true, CONTINUE, &frame[..last]).await;
        }
        peer
    });
    assert_eq!(link.source.recv().await.unwrap().unwrap().len(), 64 * MIB);
    match link.source.recv().await {
        Err(LinkError::TooLong { size, limit }) => {
            assert_eq!((size, limit), (64 * MIB + 1, 64 * MIB));
        }
        other => panic!("{other:?}"),
    }
    sending.await.unwrap();
}

#[tokio::test]
async fn a_relay_message_above_262144_bytes_is_refused_at_both_ends() {
    let (address, mut sockets) = serve(Limits::rendezvous(), Default::default()).await;
    let mut peer = Peer::connect(address).await;
    let mut far = sockets.recv().await.unwrap();
    peer.send(true, BINARY, &vec![0; 262_144]).await;
    assert!(
        matches!(far.source.recv().await, Ok(Some(Frame::Binary(frame))) if frame.len() == 262_144)
    );
    peer.send(true, BINARY, &vec![0; 262_145]).await;
    assert!(matches!(
        far.source.recv().await,
        Err(LinkError::TooLong {
            size: 262_145,
            limit: 262_144
        })
    ));
    assert!(matches!(
        far.sink.feed(vec![0; 262_145].into()).await,
        Err(LinkError::TooLong {
            size: 262_145,
            limit: 262_144
        })
    ));
}

#[tokio::test]
async fn a_message_above_8_mib_leaves_in_pieces_and_arrives_whole() {
    let (mut peer, mut link) = accepted_from_peer(Limits::direct()).await;
    let sending = tokio::spawn(async move {
        link.sink.send("x".repeat(8 * MIB)).await.unwrap();
        link.sink.send("y".repeat(8 * MIB + 1)).await.unwrap();
        link.sink.flush().await.unwrap();
        link
    });
    let whole = peer.receive().await;
    assert_eq!(
        (whole.fin, whole.opcode, whole.payload.len()),
        (true, TEXT, 8 * MIB)
    );
    let mut sizes = Vec::new();
    loop {
        let frame = peer.receive().await;
        assert_eq!(frame.opcode, if sizes.is_empty() { TEXT } else { CONTINUE });
        sizes.push(frame.payload.len());
        if frame.fin {
            break;
        }
    }
    assert_eq!(sizes, [vec![MIB; 8], vec![1]].concat());
    sending.await.unwrap();
}

#[tokio::test]
async fn a_message_above_64_mib_is_refused_before_its_first_byte_and_the_link_lives_on() {
    let (mut near, mut far) = linked(Limits::direct()).await;
    let error = near.sink.send("x".repeat(64 * MIB + 1)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "message of 67108865 bytes is above the limit of 67108864 bytes"
    );
    near.sink.send("small".into()).await.unwrap();
    near.sink.flush().await.unwrap();
    assert_eq!(far.source.recv().await.unwrap().unwrap(), "small");
}

#[tokio::test]
async fn a_pair_in_memory_behaves_like_a_socket() {
    let (mut near, mut far) = mainstay_link::pair();
    near.sink.send("one".into()).await.unwrap();
    near.sink.close(Close::new(1001, "gone")).await.unwrap();
    assert!(matches!(
        near.sink.send("late".into()).await,
        Err(LinkError::Closed)
    ));
    assert_eq!(far.source.recv().await.unwrap().unwrap(), "one");
    assert_eq!(far.source.recv().await.unwrap(), None);
    assert_eq!(far.source.closed(), Some(&Close::new(1001, "gone")));
}

#[test]
fn restart_windows() {
    let window = |code, reason| Close::new(code, reason).restart_window();
    assert_eq!(
        window(1012, "window-ms=250"),
        Some(Duration::from_millis(250))
    );
    assert_eq!(window(1012, ""), Some(Duration::from_secs(5)));
    assert_eq!(window(1013, "busy"), Some(Duration::from_secs(5)));
    assert_eq!(window(1001, "window-ms=250"), None);
    assert_eq!(Close::new(1000, "ä".repeat(100)).reason.len(), 122);
}
