//! The same task shape without Mainstay: bounded queue → writer task → WebSocket → echo → reader task → oneshot, in the same
//! runtime. What a round trip costs before anything of ours is in it.

use std::collections::HashMap;

use anyhow::{Context, Result};
use futures_util::{SinkExt, StreamExt};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
};
use tokio_tungstenite::{accept_async, client_async, tungstenite::Message};

/// Asks and waits for the echo.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    queue: mpsc::Sender<(u64, oneshot::Sender<()>)>,
}

impl Shape {
    /// Starts the tasks and the echo.
    pub(crate) async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let addr = listener.local_addr()?;
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let mut socket = accept_async(stream).await?;
            while let Some(Ok(message)) = socket.next().await {
                socket.send(message).await?;
            }
            anyhow::Ok(())
        });
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let (socket, _) = client_async(format!("ws://{addr}/"), stream).await?;
        let (mut sink, mut source) = socket.split();
        let (queue, mut queued) = mpsc::channel::<(u64, oneshot::Sender<()>)>(128);
        let (register, mut registered) = mpsc::channel::<(u64, oneshot::Sender<()>)>(128);
        tokio::spawn(async move {
            while let Some((id, answer)) = queued.recv().await {
                // The text of our own smallest request, so that the bytes are the same.
                let text = format!(r#"{{"id":{id},"method":"environment/status","params":{{}}}}"#);
                register.send((id, answer)).await?;
                sink.send(Message::text(text)).await?;
            }
            anyhow::Ok(())
        });
        tokio::spawn(async move {
            let mut pending = HashMap::new();
            while let Some(Ok(message)) = source.next().await {
                while let Ok((id, answer)) = registered.try_recv() {
                    pending.insert(id, answer);
                }
                let message: serde_json::Value = serde_json::from_str(message.to_text()?)?;
                if let Some(answer) = message["id"].as_u64().and_then(|id| pending.remove(&id)) {
                    let _: Result<(), ()> = answer.send(());
                }
            }
            anyhow::Ok(())
        });
        Ok(Self { queue })
    }

    /// One round trip.
    pub(crate) async fn round_trip(&self, id: u64) -> Result<()> {
        let (answer, answered) = oneshot::channel();
        self.queue
            .send((id, answer))
            .await
            .ok()
            .context("the writer is gone")?;
        answered.await.context("the reader is gone")
    }
}
