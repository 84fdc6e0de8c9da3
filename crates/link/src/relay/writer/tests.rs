use std::sync::mpsc as parking;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::*;
use crate::{DialOptions, RawSocket, dial_raw};

/// The far end sees pings and frames as they come.
async fn sockets() -> (RawSocket, WebSocketStream<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let options = DialOptions::rendezvous();
    let accept = async {
        let (stream, _) = listener.accept().await.unwrap();
        tokio_tungstenite::accept_async(stream).await.unwrap()
    };
    let (near, far) = tokio::join!(dial_raw(&url, &options), accept);
    (near.unwrap(), far)
}

/// The id of a stream that was reset may be another stream's by the time its frames would be written.
#[tokio::test]
async fn what_a_reset_stream_had_queued_is_not_written() {
    let (near, mut far) = sockets().await;
    let (sender, queue) = mpsc::unbounded_channel();
    let permits = Arc::new(Semaphore::new(3));
    let room = || Arc::clone(&permits).try_acquire_owned().unwrap();
    let (live, reset) = (Life::new(), Life::new());
    reset.reset();
    for (life, text) in [(&reset, "stale"), (&live, "live")] {
        let frames = vec![Bytes::from_static(text.as_bytes())];
        let (life, room) = (Arc::clone(life), room());
        sender
            .send(Outbound::Batch(Batch { frames, life, room }))
            .unwrap();
    }
    // An end of another kind takes nothing back.
    live.close();
    let (frame, room) = (Bytes::from_static(b"control"), room());
    sender
        .send(Outbound::Control(Control { frame, room }))
        .unwrap();
    drop(sender);
    write(near.sink, queue).await.unwrap();
    for expected in ["live", "control"] {
        assert_eq!(
            far.next().await.unwrap().unwrap(),
            Message::binary(expected)
        );
    }
    assert_eq!(permits.available_permits(), 3);
}

/// A ping that is due leaves soon, however much is queued.
#[tokio::test(start_paused = true)]
async fn a_full_queue_does_not_hold_up_the_ping() {
    // A parked blocking task keeps the clock from jumping while the sockets work.
    let (park, parked) = parking::channel::<()>();
    tokio::task::spawn_blocking(move || parked.recv());
    let (near, mut far) = sockets().await;

    const FRAMES: usize = 100_000;
    let (sender, queue) = mpsc::unbounded_channel();
    let permits = Arc::new(Semaphore::new(FRAMES));
    let frame = Bytes::from(vec![0; 1000]);
    for _ in 0..FRAMES {
        let room = Arc::clone(&permits).try_acquire_owned().unwrap();
        let frame = frame.clone();
        let control = Control { frame, room };
        sender.send(Outbound::Control(control)).unwrap();
    }
    let RawSocket { sink, source } = near;
    tokio::spawn(write(sink, queue));
    far.next().await.unwrap().unwrap();
    tokio::time::advance(Duration::from_secs(31)).await;
    let mut before = 0;
    while let Message::Binary(_) = far.next().await.unwrap().unwrap() {
        before += 1;
    }
    // What the sockets hold, and one round of the writer.
    assert!(before < FRAMES / 2, "{before} frames went first");
    drop((park, source));
}
