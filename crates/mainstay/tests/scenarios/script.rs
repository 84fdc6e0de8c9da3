//! The executor's side of one link, played by a test.

use mainstay::{Builder, Command, Config, Environment, Error, Link, Process, Session};
use mainstay_link::accept::{self, ServeLimits};
use mainstay_link::{DialOptions, Limits, Sink, Source};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The far end of a link.
pub(crate) struct Peer {
    sink: Sink,
    source: Source,
}

/// A request as it arrived.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) id: Value,
    pub(crate) params: Value,
}

impl Peer {
    /// A link over a WebSocket on loopback, and its far end.
    pub(crate) async fn pair() -> (Link, Self) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let (accepted, mut sockets) = mpsc::channel(1);
        let server = tokio::spawn(accept::serve(
            listener,
            ServeLimits::default(),
            move |mut request, _| {
                let (answer, socket) = accept::upgrade(&mut request, Limits::direct()).unwrap();
                let accepted = accepted.clone();
                tokio::spawn(async move { accepted.send(socket.await.unwrap()).await });
                std::future::ready(answer)
            },
            std::future::pending(),
        ));
        let near = mainstay_link::dial(&url, &DialOptions::default())
            .await
            .unwrap();
        let far = Link::from(sockets.recv().await.unwrap());
        server.abort();
        (near, Self::at(far))
    }

    /// A link in memory and its far end, for tests whose time stands still.
    pub(crate) fn in_memory() -> (Link, Self) {
        let (near, far) = mainstay_link::pair();
        (near, Self::at(far))
    }

    fn at(Link { sink, source }: Link) -> Self {
        Self { sink, source }
    }

    /// An environment on a scripted link.
    pub(crate) async fn environment() -> (Environment, Self) {
        let (near, peer) = Self::pair().await;
        (
            Environment::builder().socket(near).spawn().await.unwrap(),
            peer,
        )
    }

    /// A connected session on a scripted link.
    pub(crate) async fn session(capabilities: Value) -> (Environment, Session, Self) {
        Self::session_with(Config::default(), capabilities).await
    }

    pub(crate) async fn session_with(
        config: Config,
        capabilities: Value,
    ) -> (Environment, Session, Self) {
        let builder = Environment::builder().config(config);
        Self::session_on(Self::pair().await, builder, capabilities).await
    }

    /// A connected session on this link.
    pub(crate) async fn session_on(
        (near, mut peer): (Link, Self),
        builder: Builder,
        capabilities: Value,
    ) -> (Environment, Session, Self) {
        let environment = builder.socket(near).spawn().await.unwrap();
        let connecting = tokio::spawn({
            let environment = environment.clone();
            async move { environment.session().await }
        });
        peer.initialize("session-1", capabilities).await;
        let session = connecting.await.unwrap().unwrap();
        (environment, session, peer)
    }

    /// The far end of the link that replaces the environment's.
    pub(crate) async fn replacement(environment: &Environment) -> Self {
        let (near, peer) = Self::pair().await;
        let claim = environment.claim_replacement().await.unwrap();
        claim.replace(near).await.unwrap();
        peer
    }

    /// Replaces the link, and answers `initialize` on the new one.
    pub(crate) async fn resume(environment: &Environment) -> Self {
        let mut peer = Self::replacement(environment).await;
        assert_eq!(peer.initialize("session-1", json!({})).await, "session-1");
        peer
    }

    /// The next message; `None` when the client has closed the link.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let message = self.source.recv().await.ok()??;
        Some(serde_json::from_slice(&message).unwrap())
    }

    /// The next message, which must be this request.
    pub(crate) async fn expect(&mut self, method: &str) -> Asked {
        let mut message = self
            .next()
            .await
            .unwrap_or_else(|| panic!("link closed instead of {method}"));
        assert_eq!(message["method"], method, "{message}");
        assert!(message["id"].is_i64(), "{message}");
        Asked {
            id: message["id"].take(),
            params: message["params"].take(),
        }
    }

    /// The next message, which must be this notification.
    pub(crate) async fn expect_notice(&mut self, method: &str) -> Value {
        let mut message = self
            .next()
            .await
            .unwrap_or_else(|| panic!("link closed instead of {method}"));
        assert_eq!(message["method"], method, "{message}");
        assert!(message.get("id").is_none(), "{message}");
        message["params"].take()
    }

    /// The next message, which must be the answer to a request of ours.
    pub(crate) async fn expect_answer(&mut self, id: i64) -> Value {
        let message = self.next().await.expect("link closed instead of an answer");
        assert_eq!(message["id"], id, "{message}");
        message
    }

    pub(crate) async fn send(&mut self, message: Value) {
        // A client that has closed the link does not hear it.
        let _ = self.sink.send(message.to_string()).await;
        let _ = self.sink.flush().await;
    }

    pub(crate) async fn answer(&mut self, id: &Value, result: Value) {
        self.send(json!({"id": id, "result": result})).await;
    }

    pub(crate) async fn fail(&mut self, id: &Value, code: i64, message: &str) {
        self.send(json!({"error": {"code": code, "message": message}, "id": id}))
            .await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"method": method, "params": params})).await;
    }

    pub(crate) async fn request(&mut self, id: Value, method: &str, params: Value) {
        self.send(json!({"id": id, "method": method, "params": params}))
            .await;
    }

    /// Answers `initialize` and takes `initialized`. Returns the session id that was to be resumed.
    pub(crate) async fn initialize(&mut self, session_id: &str, capabilities: Value) -> Value {
        let mut asked = self.expect("initialize").await;
        self.welcome(&asked, session_id, capabilities).await;
        asked.params["resumeSessionId"].take()
    }

    pub(crate) async fn welcome(&mut self, asked: &Asked, session_id: &str, capabilities: Value) {
        let info = json!({
            "shell": {"name": "sh", "path": "/bin/sh"},
            "executorVersion": "0.171.0",
            "cwd": "file:///home",
            "capabilities": capabilities,
        });
        self.answer(
            &asked.id,
            json!({"sessionId": session_id, "environmentInfo": info}),
        )
        .await;
        self.expect_notice("initialized").await;
    }

    /// Answers a live probe: everything sent before has been handled by the link's reader then.
    pub(crate) async fn settle(&mut self, session: &Session) {
        // A probe does not wait for a link.
        session.link_for_test().await.unwrap();
        let session = session.clone();
        let status = tokio::spawn(async move { session.status().await });
        let asked = self.expect("environment/status").await;
        self.answer(&asked.id, json!({"status": "ready"})).await;
        status.await.unwrap().unwrap();
    }

    /// Answers `process/start`, of process `id`.
    pub(crate) async fn start(&mut self, environment: &Environment, id: &str) -> Process {
        self.start_with(environment, Command::new("x").process_id(id))
            .await
    }

    pub(crate) async fn start_with(
        &mut self,
        environment: &Environment,
        command: Command,
    ) -> Process {
        let starting = exec(environment, command);
        let asked = self.expect("process/start").await;
        let id = &asked.params["processId"];
        self.answer(&asked.id, json!({"processId": id})).await;
        starting.await.unwrap().unwrap()
    }

    pub(crate) async fn output(&mut self, process: &str, seq: u64, chunk: &str) {
        let params =
            json!({"processId": process, "seq": seq, "stream": "stdout", "chunk": base64(chunk)});
        self.notify("process/output", params).await;
    }

    pub(crate) async fn exited(&mut self, process: &str, seq: u64, code: i32) {
        let params =
            json!({"processId": process, "seq": seq, "exitCode": code, "sandboxDenied": false});
        self.notify("process/exited", params).await;
    }

    pub(crate) async fn closed(&mut self, process: &str, seq: u64) {
        self.notify("process/closed", json!({"processId": process, "seq": seq}))
            .await;
    }
}

/// Starts a process in a task of its own.
pub(crate) fn exec(
    environment: &Environment,
    command: Command,
) -> JoinHandle<Result<Process, Error>> {
    let environment = environment.clone();
    tokio::spawn(async move { environment.exec(command).await })
}

/// Standard base64 of a text.
pub(crate) fn base64(text: &str) -> String {
    let mut encoded = String::new();
    mainstay_wire::base64::encode_into(text.as_bytes(), &mut encoded);
    encoded
}

/// The text of standard base64.
pub(crate) fn text(base64: &Value) -> String {
    String::from_utf8(mainstay_wire::base64::decode(base64.as_str().unwrap().as_bytes()).unwrap())
        .unwrap()
}
