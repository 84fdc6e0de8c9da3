//! What the tests hold in their hands: sockets without network, an executor without registry, a harness without link.

use std::convert::Infallible;
use std::future::Future;

use bytes::Bytes;
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use mainstay_link::relay::{Accepted, Claim, Station, Verdict, executor};
use mainstay_link::{Close, Frame, Limits, LinkError, RawSocket, accept, dial_raw};
use mainstay_link::{DialOptions, Link};
use mainstay_noise::{Channel, Identity, Initiator, Opener, Prologue, PublicKey, Sealer, Suite};
use mainstay_wire::relay::{Body, Frame as RelayFrame, RESET_REASON};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub(crate) const ENVIRONMENT: &str = "env-1";
pub(crate) const REGISTRATION: &str = "reg-1";

/// Runs `body` on a runtime whose time moves only by `tokio::time::advance`: one parked blocking task keeps a paused
/// runtime from jumping to its next timer while a real socket is at work.
pub(crate) fn frozen<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let (park, parked) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async move {
        tokio::task::spawn_blocking(move || parked.recv());
        let result = body.await;
        drop(park);
        result
    })
}

/// The two ends of one WebSocket with the limits of the rendezvous: dialled, then accepted. The URL serves for one.
pub(crate) async fn listen() -> (String, impl Future<Output = RawSocket>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/?role=x&sig=y", listener.local_addr().unwrap());
    let (give, mut take) = mpsc::channel(1);
    let accepted = async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = service_fn(move |mut request: Request<Incoming>| {
            let give = give.clone();
            async move {
                let (answer, socket) = accept::upgrade(&mut request, Limits::rendezvous()).unwrap();
                tokio::spawn(async move { give.send(socket.await.unwrap()).await });
                Ok::<_, Infallible>(answer)
            }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::spawn(serving);
        take.recv().await.unwrap()
    };
    (url, accepted)
}

pub(crate) async fn sockets() -> (RawSocket, RawSocket) {
    let (url, accepted) = listen().await;
    let options = DialOptions::rendezvous();
    let (near, far) = tokio::join!(dial_raw(&url, &options), accepted);
    (near.unwrap(), far)
}

/// The other end of somebody's rendezvous socket.
pub(crate) struct Far {
    pub(crate) socket: RawSocket,
}

impl Far {
    pub(crate) async fn send(&mut self, stream: &str, body: Body) {
        let frame = RelayFrame::new(stream, body);
        self.send_bytes(frame.encode()).await;
    }

    pub(crate) async fn send_bytes(&mut self, message: Bytes) {
        self.socket.sink.feed(message).await.unwrap();
        self.socket.sink.flush().await.unwrap();
    }

    pub(crate) async fn data(&mut self, stream: &str, seq: u32, payload: impl Into<Bytes>) {
        let payload = payload.into();
        self.send(stream, Body::Data { seq, payload }).await;
    }

    pub(crate) async fn handshake(&mut self, stream: &str, payload: impl Into<Bytes>) {
        let payload = payload.into();
        self.send(stream, Body::Handshake { payload }).await;
    }

    pub(crate) async fn next(&mut self) -> (String, Body) {
        match self.socket.source.recv().await.unwrap().unwrap() {
            Frame::Binary(bytes) => {
                let frame = RelayFrame::decode(bytes).unwrap();
                (frame.stream_id, frame.body)
            }
            Frame::Text(text) => panic!("text on a relay socket: {text:?}"),
        }
    }

    pub(crate) async fn expect_reset(&mut self, stream: &str) {
        let reason = RESET_REASON.to_owned();
        let expected = (stream.to_owned(), Body::Reset { reason });
        assert_eq!(self.next().await, expected);
    }

    pub(crate) async fn expect_handshake(&mut self, stream: &str) -> Bytes {
        match self.next().await {
            (id, Body::Handshake { payload }) if id == stream => payload,
            other => panic!("not message 2 of {stream}: {other:?}"),
        }
    }
}

/// An executor's socket with the test as everything else: router, harness and registry.
pub(crate) struct Rig {
    pub(crate) far: Far,
    pub(crate) accepted: mpsc::Receiver<Accepted>,
    /// What the executor would ask a registry.
    pub(crate) claims: mpsc::UnboundedReceiver<(Claim, oneshot::Sender<Verdict>)>,
    pub(crate) close: Option<oneshot::Sender<Close>>,
    pub(crate) task: JoinHandle<Result<Option<Close>, LinkError>>,
    pub(crate) identity: Identity,
    pub(crate) harness: Identity,
}

/// One stream of the test's own.
pub(crate) struct Stream {
    pub(crate) id: String,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    /// The executor's end.
    pub(crate) link: Link,
}

impl Rig {
    pub(crate) async fn new() -> Rig {
        Rig::accepting(256).await
    }

    /// With room for so many accepted links.
    pub(crate) async fn accepting(room: usize) -> Rig {
        let (near, far) = sockets().await;
        let identity = Identity::generate().unwrap();
        let station = Station {
            identity: identity.clone(),
            environment: ENVIRONMENT.to_owned(),
            registration: REGISTRATION.to_owned(),
            suites: Suite::ALL.to_vec(),
        };
        let (asked, claims) = mpsc::unbounded_channel();
        let validate = move |claim| {
            let (answer, verdict) = oneshot::channel();
            let _ = asked.send((claim, answer));
            async move { verdict.await.unwrap_or(Verdict::Refused) }
        };
        let (give, accepted) = mpsc::channel(room);
        let (close, closing) = oneshot::channel();
        let closing = async move {
            match closing.await {
                Ok(close) => close,
                Err(_) => std::future::pending().await,
            }
        };
        let task = tokio::spawn(executor(near, station, validate, give, closing));
        Rig {
            far: Far { socket: far },
            accepted,
            claims,
            close: Some(close),
            task,
            identity,
            harness: Identity::generate().unwrap(),
        }
    }

    /// Message 1 in the cheaper suite; tests of the handshake itself name theirs.
    pub(crate) fn start(&self, stream: &str) -> (Initiator, Vec<u8>) {
        self.start_with(stream, Suite::Ik, "authorization")
    }

    pub(crate) fn start_with(
        &self,
        stream: &str,
        suite: Suite,
        authorization: &str,
    ) -> (Initiator, Vec<u8>) {
        let prologue = Prologue::new(suite, ENVIRONMENT, REGISTRATION, stream);
        let remote: PublicKey = self.identity.public(suite);
        Initiator::start(&self.harness, &remote, &prologue, authorization).unwrap()
    }

    /// Sends message 1 and waits until the executor asks for a verdict.
    pub(crate) async fn call(&mut self, stream: &str) -> (Initiator, oneshot::Sender<Verdict>) {
        let (initiator, message_1) = self.start(stream);
        self.far.handshake(stream, message_1).await;
        let (claim, answer) = self.claims.recv().await.unwrap();
        assert_eq!(claim.stream_id, stream);
        (initiator, answer)
    }

    /// A stream that works.
    pub(crate) async fn open(&mut self, stream: &str) -> Stream {
        let (mut initiator, answer) = self.call(stream).await;
        answer.send(Verdict::Valid).unwrap();
        let message_2 = self.far.expect_handshake(stream).await;
        let channel = initiator.finish(&message_2).unwrap();
        let accepted = self.accepted.recv().await.unwrap();
        assert_eq!(accepted.stream_id, stream);
        Stream::new(stream, channel, accepted.link)
    }

    /// Whether a stream still works, both ways.
    pub(crate) async fn echo(&mut self, stream: &mut Stream) {
        stream.send(&mut self.far, "there").await;
        assert_eq!(stream.link.source.recv().await.unwrap().unwrap(), "there");
        stream.link.sink.send("back".to_owned()).await.unwrap();
        stream.link.sink.flush().await.unwrap();
        let (id, body) = self.far.next().await;
        assert_eq!(id, stream.id);
        assert_eq!(stream.take(body).unwrap(), "back");
    }

    /// Nothing is on its way to the router: a frame that is answered at once is answered first.
    pub(crate) async fn expect_silence(&mut self) {
        self.far.data("marker", 0, vec![0; 16]).await;
        self.far.expect_reset("marker").await;
    }
}

impl Stream {
    pub(crate) fn new(id: &str, channel: Channel, link: Link) -> Stream {
        let (sealer, opener) = channel.split();
        let id = id.to_owned();
        Stream {
            id,
            sealer,
            opener,
            link,
        }
    }

    /// The records of a message, with their numbers.
    pub(crate) fn seal(&mut self, message: &str) -> Vec<(u32, Bytes)> {
        self.sealer.push(message.to_owned()).unwrap();
        let mut records = Vec::new();
        while let Some(next) = self.sealer.upcoming() {
            let mut record = Vec::new();
            self.sealer.seal(&mut record).unwrap();
            records.push((next.seq, record.into()));
        }
        records
    }

    pub(crate) async fn send(&mut self, far: &mut Far, message: &str) {
        for (seq, record) in self.seal(message) {
            far.data(&self.id, seq, record).await;
        }
    }

    /// The message that a record completes, if it does.
    pub(crate) fn take(&mut self, body: Body) -> Option<Bytes> {
        match body {
            Body::Data { seq, payload } => self.opener.accept(seq, payload).unwrap(),
            other => panic!("not data: {other:?}"),
        }
        self.opener.message().unwrap()
    }
}
