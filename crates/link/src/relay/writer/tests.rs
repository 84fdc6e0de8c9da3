use std::sync::mpsc as parking;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_tungstenite::tungstenite::Message;

use super::*;
use crate::{DialOptions, RawSocket, dial_raw};

/// A ping that is due leaves soon, however much is queued.
#[tokio::test(start_paused = true)]
async fn a_full_queue_does_not_hold_up_the_ping() {
    // A parked blocking task keeps the clock from jumping while the sockets work.
    let (park, parked) = parking::channel::<()>();
    tokio::task::spawn_blocking(move || parked.recv());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let options = DialOptions::rendezvous();
    let accept = async {
        let (stream, _) = listener.accept().await.unwrap();
        tokio_tungstenite::accept_async(stream).await.unwrap()
    };
    let (near, mut far) = tokio::join!(dial_raw(&url, &options), accept);

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
    let RawSocket { sink, source } = near.unwrap();
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
