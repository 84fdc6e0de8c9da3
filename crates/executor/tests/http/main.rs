//! `http/request`, row by row of protocol.md 10.
#![allow(missing_docs)]

mod buffered;
mod streamed;

use mainstay_executor::http::{Exchange, Exchanges, HttpClient};
use mainstay_executor::lane::Lane;
use mainstay_executor::notice_sink::NoticeSink;
use mainstay_testkit::http_server::HttpServer;
use mainstay_wire::http::{BodyDelta, BodyDeltaParams, HttpAnswer};
use mainstay_wire::{RpcError, limits};
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Takes frames one by one.
#[derive(Clone)]
pub(crate) struct Peer(mpsc::Sender<String>);

impl NoticeSink for Peer {
    async fn send_notice(&self, frame: String) -> bool {
        self.0.send(frame).await.is_ok()
    }
}

/// One connection of an executor, without the connection.
pub(crate) struct Connection {
    pub(crate) client: HttpClient,
    pub(crate) exchanges: Exchanges,
    pub(crate) bodies: Lane,
    pub(crate) server: HttpServer,
    pub(crate) peer: Peer,
    pub(crate) frames: mpsc::Receiver<String>,
}

impl Connection {
    pub(crate) async fn new() -> Self {
        let (sender, frames) = mpsc::channel(1);
        Self {
            client: HttpClient::new(),
            exchanges: Exchanges::default(),
            bodies: Lane::new((2, 1)),
            server: HttpServer::start().await.unwrap(),
            peer: Peer(sender),
            frames,
        }
    }

    pub(crate) fn begin(
        &mut self,
        params: Value,
    ) -> impl Future<Output = Result<Exchange, RpcError>> + Send + use<> {
        self.exchanges.request(
            &self.client,
            self.bodies.clone(),
            serde_json::from_value(params).unwrap(),
        )
    }

    /// A request for `path`, with further members.
    pub(crate) fn get(
        &mut self,
        path: &str,
        members: Value,
    ) -> impl Future<Output = Result<Exchange, RpcError>> + Send + use<> {
        let mut params = json!({ "method": "GET", "url": self.server.url(path), "requestId": "r" });
        params
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        self.begin(params)
    }

    pub(crate) async fn answer(&mut self, path: &str, members: Value) -> HttpAnswer {
        let exchange = self.get(path, members).await.unwrap();
        assert!(exchange.body.is_none());
        exchange.answer
    }

    pub(crate) async fn failure(&mut self, params: Value) -> (i64, String) {
        let error = self.begin(params).await.unwrap_err();
        (error.code, error.message)
    }

    pub(crate) async fn stream(&mut self, path: &str, members: Value) -> HttpAnswer {
        let exchange = self.get(path, members).await.unwrap();
        assert!(exchange.held.is_none());
        tokio::spawn(exchange.body.unwrap().run(self.peer.clone()));
        exchange.answer
    }

    pub(crate) async fn delta(&mut self) -> BodyDeltaParams {
        let frame = self.frames.recv().await.unwrap();
        let message: Value = serde_json::from_str(&frame).unwrap();
        assert_eq!(
            message["method"],
            <BodyDelta as mainstay_wire::Notice>::METHOD
        );
        assert!(
            message["params"].get("error").is_some(),
            "error is there, be it null"
        );
        serde_json::from_value(message["params"].clone()).unwrap()
    }

    /// The rest of a body, and what it ended with.
    pub(crate) async fn rest(&mut self, first_seq: u64) -> (Vec<u8>, Option<String>) {
        let mut body = Vec::new();
        let mut seq = first_seq;
        loop {
            let delta = self.delta().await;
            assert_eq!(delta.seq, seq);
            seq += 1;
            assert!(delta.delta_base64.len() <= limits::HTTP_DELTA);
            if delta.done {
                assert!(delta.delta_base64.is_empty());
                return (body, delta.error);
            }
            assert!(!delta.delta_base64.is_empty() && delta.error.is_none());
            body.extend_from_slice(&delta.delta_base64);
        }
    }
}

/// As pairs.
pub(crate) fn headers(answer: &HttpAnswer) -> Vec<(&str, &str)> {
    answer
        .headers
        .iter()
        .map(|header| (header.name.as_str(), header.value.as_str()))
        .collect()
}
