//! A running registry with tokens, and peers that speak HTTP and relay frames by hand.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use mainstay_link::{DialError, DialOptions, Frame, RawSocket, Refusal, dial_raw};
use mainstay_registry::{
    Config, Limits, Registry, TokenSource,
    tokens::{Role, Tokens},
};
use mainstay_wire::{
    base64::Base64,
    registry::{PROFILE_HYBRID, PROFILE_IK, PublicKey, SUITE_HYBRID, SUITE_IK},
    relay::{self, Body},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) const ENVIRONMENT: &str = "build";

/// A registry with one environment and a token for each role.
pub(crate) struct Rig {
    pub(crate) registry: Registry,
    pub(crate) address: SocketAddr,
    pub(crate) executor: SecretString,
    pub(crate) harness: SecretString,
    /// A token of another environment.
    pub(crate) stranger: SecretString,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Status and error code.
    pub(crate) fn refusal(&self) -> (u16, String) {
        let body = self.json();
        assert!(body["error"]["message"].is_string(), "{body}");
        (self.status, body["error"]["code"].as_str().unwrap().into())
    }
}

pub(crate) async fn rig() -> Rig {
    rig_with(Limits::default()).await
}

pub(crate) async fn rig_with(limits: Limits) -> Rig {
    let mut tokens = Tokens::new();
    let executor = tokens.issue(ENVIRONMENT, Role::Executor).unwrap();
    let harness = tokens.issue(ENVIRONMENT, Role::Harness).unwrap();
    let stranger = tokens.issue("other", Role::Executor).unwrap();
    let tokens = TokenSource::Memory(Arc::new(tokens));
    let config = Config {
        limits,
        ..Config::new("127.0.0.1:0".parse().unwrap(), tokens)
    };
    let registry = Registry::bind(config).await.unwrap();
    let address = registry.local_addr();
    Rig {
        registry,
        address,
        executor,
        harness,
        stranger,
    }
}

/// One request on a connection of its own.
pub(crate) async fn http(address: SocketAddr, request: &str, body: &[u8]) -> Answer {
    let mut tcp = TcpStream::connect(address).await.unwrap();
    let mut message = format!(
        "{request}Host: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    message.extend_from_slice(body);
    tcp.write_all(&message).await.unwrap();
    let mut answer = Vec::new();
    tcp.read_to_end(&mut answer).await.unwrap();
    let split = answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..split].to_vec())
        .unwrap()
        .to_lowercase();
    Answer {
        status: head[9..12].parse().unwrap(),
        head,
        body: answer[split + 4..].to_vec(),
    }
}

impl Rig {
    pub(crate) async fn post(&self, call: &str, token: &SecretString, body: &Value) -> Answer {
        self.post_to(ENVIRONMENT, call, token.expose_secret(), body)
            .await
    }

    pub(crate) async fn post_to(
        &self,
        environment: &str,
        call: &str,
        token: &str,
        body: &Value,
    ) -> Answer {
        let request = format!(
            "POST /cloud/environment/{environment}/{call} HTTP/1.1\r\n\
             Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        );
        http(self.address, &request, body.to_string().as_bytes()).await
    }

    pub(crate) async fn register(&self, key: &PublicKey) -> Value {
        let answer = self
            .post("register", &self.executor, &registration(key))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.head);
        answer.json()
    }

    pub(crate) async fn connect(&self, key: &PublicKey) -> Value {
        let body = json!({ "harness_public_key": key });
        let answer = self.post("connect", &self.harness, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.head);
        answer.json()
    }

    pub(crate) async fn validate(&self, registration: &str, key: &PublicKey, text: &str) -> Value {
        let body = json!({
            "executor_registration_id": registration,
            "harness_public_key": key,
            "harness_key_authorization": text,
        });
        let answer = self.post("validate", &self.executor, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.head);
        answer.json()
    }

    /// Waits for the announcement of another registration than `after`.
    pub(crate) async fn announcement(&self, after: &str) -> Answer {
        let request = format!(
            "GET /mainstay/environment/{ENVIRONMENT}/registration?after={after} HTTP/1.1\r\n\
             Authorization: Bearer {}\r\n",
            self.harness.expose_secret()
        );
        http(self.address, &request, b"").await
    }

    /// Registers, dials, and waits until the registry knows.
    pub(crate) async fn executor(&self, key: &PublicKey) -> (Peer, String) {
        let answer = self.register(key).await;
        let peer = Peer::dial(text(&answer, "url")).await;
        let registration = text(&answer, "executor_registration_id").to_owned();
        loop {
            let announced = self.announcement("").await.json();
            if announced["executor_registration_id"] == registration {
                return (peer, registration);
            }
        }
    }

    /// Looks up and dials.
    pub(crate) async fn harness(&self) -> Peer {
        let answer = self.connect(&hybrid_key(9)).await;
        Peer::dial(text(&answer, "url")).await
    }
}

pub(crate) fn text<'a>(answer: &'a Value, name: &str) -> &'a str {
    answer[name].as_str().unwrap()
}

pub(crate) fn registration(key: &PublicKey) -> Value {
    let profile = if key.suite == SUITE_HYBRID {
        PROFILE_HYBRID
    } else {
        PROFILE_IK
    };
    json!({ "security_profile": profile, "executor_public_key": key })
}

pub(crate) fn hybrid_key(byte: u8) -> PublicKey {
    PublicKey {
        suite: SUITE_HYBRID.into(),
        x25519_public_key: Base64(vec![byte; 32].into()),
        mlkem768_public_key: Some(Base64(vec![byte; 1184].into())),
    }
}

pub(crate) fn ik_key(byte: u8) -> PublicKey {
    PublicKey {
        suite: SUITE_IK.into(),
        x25519_public_key: Base64(vec![byte; 32].into()),
        mlkem768_public_key: None,
    }
}

/// How an upgrade is refused.
pub(crate) async fn refused(url: &str) -> Refusal {
    match dial_raw(url, &DialOptions::rendezvous()).await {
        Err(DialError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// One end of a rendezvous socket.
#[derive(Debug)]
pub(crate) struct Peer(pub(crate) RawSocket);

impl Peer {
    pub(crate) async fn dial(url: &str) -> Self {
        Self(dial_raw(url, &DialOptions::rendezvous()).await.unwrap())
    }

    pub(crate) async fn send(&mut self, stream: &str, body: Body) {
        self.send_bytes(relay::Frame::new(stream, body).encode())
            .await;
    }

    pub(crate) async fn send_bytes(&mut self, frame: Bytes) {
        self.0.sink.feed(frame).await.unwrap();
        self.0.sink.flush().await.unwrap();
    }

    pub(crate) async fn receive_bytes(&mut self) -> Bytes {
        match self.0.source.recv().await.unwrap().unwrap() {
            Frame::Binary(bytes) => bytes,
            Frame::Text(text) => panic!("{text:?}"),
        }
    }

    pub(crate) async fn receive(&mut self) -> (String, Body) {
        let frame = relay::Frame::decode(self.receive_bytes().await).unwrap();
        (frame.stream_id, frame.body)
    }

    pub(crate) async fn expect(&mut self, stream: &str, body: Body) {
        assert_eq!(self.receive().await, (stream.to_owned(), body));
    }

    pub(crate) async fn expect_reset(&mut self, stream: &str) {
        let (id, body) = self.receive().await;
        assert!(matches!(body, Body::Reset { .. }), "{body:?}");
        assert_eq!(id, stream);
    }

    /// Waits for the end and tells the close code.
    pub(crate) async fn end(&mut self) -> Option<u16> {
        while let Ok(Some(_)) = self.0.source.recv().await {}
        self.0.source.closed().map(|close| close.code)
    }
}

pub(crate) fn data(seq: u32, payload: &'static [u8]) -> Body {
    Body::Data {
        seq,
        payload: payload.into(),
    }
}

pub(crate) fn bulk(seq: u32) -> Body {
    Body::Data {
        seq,
        payload: vec![7; 61_456].into(),
    }
}
