//! Both ends of ours, with a small router between them: it forwards by stream id and has no key.

use std::collections::HashMap;

use mainstay_link::relay::{Accepted, Bundle, Station, Verdict, dial, executor, harness};
use mainstay_link::{Close, DialOptions, Frame, Link, RawSink, RawSocket, Sink, Source};
use mainstay_noise::{Identity, Suite};
use mainstay_wire::relay::Frame as RelayFrame;
use tokio::sync::mpsc;

use crate::far::{ENVIRONMENT, REGISTRATION, listen, sockets};

/// Forwards frames between an executor's socket and harnesses' sockets, each direction in order.
async fn route(station: RawSocket, mut harnesses: mpsc::Receiver<RawSocket>) {
    let (claim, mut claims) = mpsc::unbounded_channel::<(String, RawSink)>();
    let (forward, mut forwards) = mpsc::channel(64);
    tokio::spawn(async move {
        while let Some(mut socket) = harnesses.recv().await {
            let (claim, forward) = (claim.clone(), forward.clone());
            tokio::spawn(async move {
                let mut claimed = None;
                let mut sink = Some(socket.sink);
                while let Ok(Some(Frame::Binary(bytes))) = socket.source.recv().await {
                    let id = RelayFrame::decode(bytes.clone()).unwrap().stream_id;
                    if let Some(sink) = sink.take() {
                        claim.send((id.clone(), sink)).unwrap();
                        claimed = Some(id);
                    }
                    let _ = forward.send(bytes).await;
                }
                if let Some(id) = claimed {
                    let _ = forward.send(RelayFrame::reset(id).encode()).await;
                }
            });
        }
    });
    let RawSocket {
        mut sink,
        mut source,
    } = station;
    tokio::spawn(async move {
        while let Some(bytes) = forwards.recv().await {
            sink.feed(bytes).await.unwrap();
            if forwards.is_empty() {
                sink.flush().await.unwrap();
            }
        }
    });
    let mut sinks = HashMap::new();
    while let Ok(Some(Frame::Binary(bytes))) = source.recv().await {
        let id = RelayFrame::decode(bytes.clone()).unwrap().stream_id;
        // A stream is claimed before its first frame is forwarded, so before its first answer.
        while let Ok((id, sink)) = claims.try_recv() {
            sinks.insert(id, sink);
        }
        if let Some(sink) = sinks.get_mut(&id) {
            let _ = sink.feed(bytes).await;
            let _ = sink.flush().await;
        }
    }
}

struct Relay {
    give: mpsc::Sender<RawSocket>,
    accepted: mpsc::Receiver<Accepted>,
    executor: Identity,
}

impl Relay {
    async fn new() -> Relay {
        let (near, far) = sockets().await;
        let (give, harnesses) = mpsc::channel(8);
        tokio::spawn(route(far, harnesses));
        let identity = Identity::generate().unwrap();
        let station = Station {
            identity: identity.clone(),
            environment: ENVIRONMENT.to_owned(),
            registration: REGISTRATION.to_owned(),
            suites: Suite::ALL.to_vec(),
        };
        let (accept, accepted) = mpsc::channel(128);
        tokio::spawn(executor(
            near,
            station,
            |_| async { Verdict::Valid },
            accept,
            std::future::pending::<Close>(),
        ));
        Relay {
            give,
            accepted,
            executor: identity,
        }
    }

    async fn connect(&mut self, suite: Suite) -> (Link, Link) {
        let (url, socket) = listen().await;
        let bundle = Bundle {
            url,
            environment: ENVIRONMENT.to_owned(),
            registration: REGISTRATION.to_owned(),
            executor_key: self.executor.public(suite),
            authorization: String::new(),
        };
        let give = self.give.clone();
        tokio::spawn(async move { give.send(socket.await).await });
        let identity = Identity::generate().unwrap();
        let options = DialOptions::default();
        let socket = dial(&bundle, &options).await.unwrap();
        let link = harness(socket, &identity, &bundle).await.unwrap();
        let accepted = self.accepted.recv().await.unwrap();
        assert_eq!(accepted.harness_key, identity.public(suite));
        (link, accepted.link)
    }
}

#[tokio::test]
async fn many_links_carry_large_and_small_messages_both_ways_at_once() {
    let mut relay = Relay::new().await;
    let mut running = Vec::new();
    for number in 0..6 {
        let suite = Suite::ALL[number % 2];
        let (near, far) = relay.connect(suite).await;
        for (from, to) in [(near.sink, far.source), (far.sink, near.source)] {
            running.push(tokio::spawn(stream_through(from, to)));
        }
    }
    // A link lives as long as its sink: none is dropped before all are done.
    let mut done = Vec::new();
    for run in running {
        done.push(run.await.unwrap());
    }
}

async fn stream_through(mut from: Sink, mut to: Source) -> (Sink, Source) {
    let sizes = [1, 100, 61_436, 61_437, 3_000_000, 70_000, 2];
    let message = |size: usize| -> String {
        (0..size)
            .map(|at| char::from(b'a' + (at % 19) as u8))
            .collect()
    };
    let sending = tokio::spawn(async move {
        for size in sizes {
            from.send(message(size)).await.unwrap();
        }
        from.flush().await.unwrap();
        from
    });
    for size in sizes {
        let received = to.recv().await.unwrap().unwrap();
        assert!(received == message(size), "{size} bytes changed on the way");
    }
    (sending.await.unwrap(), to)
}

#[tokio::test]
async fn a_harness_that_leaves_ends_its_link_and_no_other() {
    let mut relay = Relay::new().await;
    let (mut leaving, mut left) = relay.connect(Suite::HybridIk).await;
    let (mut staying, mut stayed) = relay.connect(Suite::HybridIk).await;
    leaving.sink.send("goodbye".to_owned()).await.unwrap();
    leaving.sink.close(Close::normal()).await.unwrap();
    assert_eq!(left.source.recv().await.unwrap().unwrap(), "goodbye");
    left.source.recv().await.unwrap_err();
    staying.sink.send("here".to_owned()).await.unwrap();
    staying.sink.flush().await.unwrap();
    assert_eq!(stayed.source.recv().await.unwrap().unwrap(), "here");
    drop(stayed);
    let end = staying.source.recv().await.unwrap_err();
    assert_eq!(end.to_string(), "Noise relay stream reset");
}
