//! A minimal JSON-RPC client over WebSocket, independent of the product's own link: it can also send what no client should.

use std::collections::VecDeque;

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, client_async_with_config,
    tungstenite::{
        Message, Utf8Bytes, client::IntoClientRequest, protocol::CloseFrame,
        protocol::WebSocketConfig,
    },
};

/// One connection. Messages that nobody asked for yet are kept in order.
#[derive(Debug)]
pub struct RpcClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next_id: i64,
    kept: VecDeque<Value>,
}

impl RpcClient {
    /// Opens a WebSocket to `url` (plain `ws://` only) and sends nothing.
    ///
    /// # Errors
    /// When the connection or the upgrade fails.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, &[]).await
    }

    /// The same, with headers in the upgrade.
    ///
    /// # Errors
    /// When the connection or the upgrade fails.
    pub async fn connect_with(url: &str, headers: &[(&'static str, &str)]) -> Result<Self> {
        let mut request = url.into_client_request()?;
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse()?);
        }
        let host = request
            .uri()
            .host()
            .context("URL without a host")?
            .to_owned();
        let port = request.uri().port_u16().context("URL without a port")?;
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let config = WebSocketConfig::default()
            .max_frame_size(None)
            .max_message_size(None);
        let (socket, _) =
            client_async_with_config(request, MaybeTlsStream::Plain(stream), Some(config)).await?;
        Ok(Self {
            socket,
            next_id: 1,
            kept: VecDeque::new(),
        })
    }

    /// `initialize` and `initialized`; returns the result of the former.
    ///
    /// # Errors
    /// When the server answers with an error, or ends the connection.
    pub async fn initialize(&mut self, resume: Option<&str>) -> Result<Value> {
        let params = json!({"clientName": "testkit", "resumeSessionId": resume});
        let result = self
            .call("initialize", params)
            .await?
            .map_err(|error| anyhow::anyhow!("initialize: {error}"))?;
        self.notify("initialized", json!({})).await?;
        Ok(result)
    }

    /// Sends a request and returns its id without waiting for the answer.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn send(&mut self, method: &str, params: Value) -> Result<i64> {
        let id = self.next_id;
        self.next_id += 1;
        self.send_text(json!({"id": id, "method": method, "params": params}).to_string())
            .await?;
        Ok(id)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn notify(&mut self, method: &str, params: Value) -> Result<()> {
        self.send_text(json!({"method": method, "params": params}).to_string())
            .await
    }

    /// Sends exactly this text.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn send_text(&mut self, text: String) -> Result<()> {
        self.socket.send(Message::text(text)).await.context("send")
    }

    /// Sends exactly these bytes as a binary message.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn send_binary(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.socket
            .send(Message::binary(bytes))
            .await
            .context("send")
    }

    /// Sends a request and waits for its answer: the result, or the error object.
    ///
    /// # Errors
    /// When the connection ends first.
    pub async fn call(&mut self, method: &str, params: Value) -> Result<Result<Value, Value>> {
        let id = self.send(method, params).await?;
        self.answer(id).await
    }

    /// Waits for the answer to request `id`; other messages are kept.
    ///
    /// # Errors
    /// When the connection ends first.
    pub async fn answer(&mut self, id: i64) -> Result<Result<Value, Value>> {
        let answer = self
            .until(|message| message.get("method").is_none() && message["id"] == id)
            .await?;
        Ok(match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        })
    }

    /// Waits for a notification or request of this method; other messages are kept.
    ///
    /// # Errors
    /// When the connection ends first.
    pub async fn wait_for(&mut self, method: &str) -> Result<Value> {
        self.until(|message| message["method"] == method).await
    }

    /// The first message, kept or new, that satisfies `wanted`.
    ///
    /// # Errors
    /// When the connection ends first.
    pub async fn until(&mut self, mut wanted: impl FnMut(&Value) -> bool) -> Result<Value> {
        if let Some(place) = self.kept.iter().position(&mut wanted) {
            return self.kept.remove(place).context("just found");
        }
        loop {
            let message = self.next_new().await?;
            if wanted(&message) {
                return Ok(message);
            }
            self.kept.push_back(message);
        }
    }

    /// The next message, kept ones first.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn next(&mut self) -> Result<Value> {
        match self.kept.pop_front() {
            Some(message) => Ok(message),
            None => self.next_new().await,
        }
    }

    /// The first kept message that satisfies `wanted`, left where it is.
    pub fn peek(&self, mut wanted: impl FnMut(&Value) -> bool) -> Option<&Value> {
        self.kept.iter().find(|message| wanted(message))
    }

    /// Forgets kept messages.
    pub fn forget(&mut self, mut unwanted: impl FnMut(&Value) -> bool) {
        self.kept.retain(|message| !unwanted(message));
    }

    /// The next new message as it is, unparsed.
    ///
    /// # Errors
    /// When the connection ends.
    pub async fn next_text(&mut self) -> Result<Utf8Bytes> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(text),
                Some(Ok(Message::Close(frame))) => bail!("closed: {frame:?}"),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error).context("connection ended"),
                None => bail!("connection ended"),
            }
        }
    }

    /// Waits for the end of the connection; returns the Close frame, if there was one. Messages until then are kept.
    pub async fn ended(&mut self) -> Option<CloseFrame> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Close(frame))) => return frame,
                Some(Ok(Message::Text(text))) => {
                    self.kept.extend(serde_json::from_str::<Value>(&text))
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Ends the connection without a Close frame (RST).
    pub fn abort(self) {
        if let MaybeTlsStream::Plain(stream) = self.socket.get_ref() {
            let _ = stream.set_zero_linger();
        }
    }

    /// Ends the connection with a Close frame.
    ///
    /// # Errors
    /// When it is gone already.
    pub async fn close(mut self) -> Result<()> {
        self.socket.close(None).await.context("close")
    }

    async fn next_new(&mut self) -> Result<Value> {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text)?),
                Some(Ok(Message::Binary(bytes))) => return Ok(serde_json::from_slice(&bytes)?),
                Some(Ok(Message::Close(frame))) => bail!("closed: {frame:?}"),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error).context("connection ended"),
                None => bail!("connection ended"),
            }
        }
    }
}
