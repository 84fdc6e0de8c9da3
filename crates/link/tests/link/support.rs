//! A server that accepts links, and a peer that speaks WebSocket by hand.

use std::net::SocketAddr;

use hyper::{Request, body::Incoming};
use mainstay_link::{
    DialOptions, Limits, Link, RawSocket,
    accept::{self, ServeLimits},
    dial,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// Serves upgrades on every path, and hands the sockets over.
pub(crate) async fn serve(
    limits: Limits,
    serve_limits: ServeLimits,
) -> (SocketAddr, mpsc::Receiver<RawSocket>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (accepted, sockets) = mpsc::channel(8);
    let service = move |mut request: Request<Incoming>, _peer| {
        let accepted = accepted.clone();
        async move {
            if let Some(refusal) = accept::refuse_origin(request.headers()) {
                return refusal;
            }
            match accept::upgrade(&mut request, limits) {
                Ok((answer, socket)) => {
                    tokio::spawn(async move {
                        if let Ok(socket) = socket.await {
                            let _ = accepted.send(socket).await;
                        }
                    });
                    answer
                }
                Err(refusal) => refusal,
            }
        }
    };
    tokio::spawn(accept::serve(
        listener,
        serve_limits,
        service,
        std::future::pending(),
    ));
    (address, sockets)
}

/// Two ends of one link over a socket: dialled, accepted.
pub(crate) async fn linked(limits: Limits) -> (Link, Link) {
    let (address, mut sockets) = serve(limits, ServeLimits::default()).await;
    let options = DialOptions {
        limits,
        ..DialOptions::default()
    };
    let near = dial(&format!("ws://{address}/"), &options).await.unwrap();
    (near, Link::from(sockets.recv().await.unwrap()))
}

/// The dialling end of a WebSocket, frame by frame.
pub(crate) struct Peer {
    pub(crate) tcp: TcpStream,
}

/// A frame as it is on the wire; the mask is already taken off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WireFrame {
    pub(crate) fin: bool,
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

pub(crate) const CONTINUE: u8 = 0;
pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

impl Peer {
    /// Upgrades to a WebSocket and does nothing more.
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let (head, tcp) = exchange(address, &upgrade_request("")).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        Self { tcp }
    }

    pub(crate) async fn send(&mut self, fin: bool, opcode: u8, payload: &[u8]) {
        let mut frame = vec![u8::from(fin) << 7 | opcode];
        match payload.len() {
            short @ 0..126 => frame.push(0x80 | short as u8),
            long => {
                frame.push(0x80 | 127);
                frame.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        // A mask of zeros leaves the payload as it is.
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.tcp.write_all(&frame).await.unwrap();
    }

    pub(crate) async fn receive(&mut self) -> WireFrame {
        let first = self.tcp.read_u8().await.unwrap();
        let second = self.tcp.read_u8().await.unwrap();
        let length = match second & 0x7f {
            126 => usize::from(self.tcp.read_u16().await.unwrap()),
            127 => self.tcp.read_u64().await.unwrap() as usize,
            short => usize::from(short),
        };
        let mut mask = [0; 4];
        if second & 0x80 != 0 {
            self.tcp.read_exact(&mut mask).await.unwrap();
        }
        let mut payload = vec![0; length];
        self.tcp.read_exact(&mut payload).await.unwrap();
        for (at, byte) in payload.iter_mut().enumerate() {
            *byte ^= mask[at % 4];
        }
        WireFrame {
            fin: first & 0x80 != 0,
            opcode: first & 0x0f,
            payload,
        }
    }
}

/// A hand-written accepted end that one dialled link belongs to, with a [`Peer`] that plays the far end.
pub(crate) async fn accepted_from_peer(limits: Limits) -> (Peer, Link) {
    let (address, mut sockets) = serve(limits, ServeLimits::default()).await;
    let peer = Peer::connect(address).await;
    (peer, Link::from(sockets.recv().await.unwrap()))
}

pub(crate) fn upgrade_request(extra: &str) -> String {
    format!(
        "GET /?a=b HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extra}\r\n"
    )
}

/// Sends a request and reads the head of the answer.
pub(crate) async fn exchange(address: SocketAddr, request: &str) -> (String, TcpStream) {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    tcp.set_nodelay(true).unwrap();
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.unwrap());
    }
    (String::from_utf8(head).unwrap(), tcp)
}
