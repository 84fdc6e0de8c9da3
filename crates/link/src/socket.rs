//! A WebSocket in two halves, with deadlines, keepalive and bounds.

use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    Sink as _, SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{
            Role, WebSocketConfig,
            frame::{
                Frame as WsFrame,
                coding::{Data, OpCode},
            },
        },
    },
};

use crate::{Close, Limits, LinkError, beat::Beat, stream::Stream};

type Inner = WebSocketStream<Stream>;

/// Both halves of a WebSocket, before anybody decided what its messages mean.
#[derive(Debug)]
pub struct RawSocket {
    /// The sending half.
    pub sink: RawSink,
    /// The receiving half.
    pub source: RawSource,
}

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A binary message.
    Binary(Bytes),
    /// A text message; its bytes are UTF-8.
    Text(Bytes),
}

/// The sending half of a [`RawSocket`].
#[derive(Debug)]
pub struct RawSink {
    inner: SplitSink<Inner, Message>,
    beat: Arc<Beat>,
    limits: Limits,
    /// Fires when the next ping is due; kept so that a `select!` that polls it again costs nothing.
    due: Pin<Box<Sleep>>,
    /// A ping waits to be written: [`RawSink::keepalive`] was dropped while it did so.
    unflushed_ping: bool,
}

/// The receiving half of a [`RawSocket`].
#[derive(Debug)]
pub struct RawSource {
    inner: SplitStream<Inner>,
    beat: Arc<Beat>,
    limits: Limits,
    /// Fires when an unanswered ping may be over its time.
    check: Pin<Box<Sleep>>,
    /// When nobody listened any more; a peer is not blamed for what we did not read.
    left: Instant,
    /// How long nobody listened since the unanswered ping of that time was first seen.
    away: Option<(Instant, Duration)>,
    close: Option<Close>,
}

impl RawSocket {
    pub(crate) async fn new(
        stream: Stream,
        read_already: Vec<u8>,
        role: Role,
        limits: Limits,
    ) -> Self {
        let config = config(&limits);
        let inner =
            WebSocketStream::from_partially_read(stream, read_already, role, Some(config)).await;
        Self::from_inner(inner, limits)
    }

    pub(crate) fn from_inner(inner: Inner, limits: Limits) -> Self {
        let (sink, source) = inner.split();
        let beat = Arc::new(Beat::new());
        let epoch = beat.epoch();
        Self {
            sink: RawSink {
                inner: sink,
                beat: beat.clone(),
                limits,
                due: Box::pin(sleep_until(epoch + limits.ping_every)),
                unflushed_ping: false,
            },
            source: RawSource {
                inner: source,
                beat,
                limits,
                check: Box::pin(sleep_until(epoch + limits.pong_within)),
                left: epoch,
                away: None,
                close: None,
            },
        }
    }

    /// Sends a close frame and waits at most `linger` for the peer's, discarding what still arrives, so that
    /// the peer can read what was sent before.
    pub async fn close(mut self, close: Close, linger: Duration) {
        let goodbye = async {
            self.sink.close(close).await?;
            while self.source.recv().await?.is_some() {}
            Ok::<_, LinkError>(())
        };
        // The socket is dropped either way; a peer that does not answer has lost its chance.
        let _ = timeout(linger, goodbye).await;
    }
}

pub(crate) fn config(limits: &Limits) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(limits.read_buffer)
        .write_buffer_size(limits.write_buffer)
        .max_message_size(Some(limits.message))
        .max_frame_size(Some(limits.frame))
}

impl RawSink {
    /// Queues one binary message, and writes when enough has gathered. Follow with [`RawSink::flush`].
    ///
    /// Not cancel-safe: after a dropped call the socket must not be used again.
    pub async fn feed(&mut self, message: Bytes) -> Result<(), LinkError> {
        self.feed_data(Data::Binary, message).await
    }

    /// Queues one text message, like [`RawSink::feed`].
    pub async fn feed_text(&mut self, message: String) -> Result<(), LinkError> {
        self.feed_data(Data::Text, message.into()).await
    }

    /// Writes everything queued, at most [`Limits::write_within`].
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        within(self.limits.write_within, self.inner.flush()).await?;
        self.unflushed_ping = false;
        Ok(())
    }

    /// Sleeps until a ping is due and sends it, unless one is unanswered. Cancel-safe; call it again and again.
    pub async fn keepalive(&mut self) -> Result<(), LinkError> {
        if self.unflushed_ping {
            return self.flush().await;
        }
        self.due.as_mut().await;
        let now = Instant::now();
        self.due.as_mut().reset(now + self.limits.ping_every);
        if self.beat.outstanding().is_some() {
            return Ok(());
        }
        // Room first, then mark and queue in one step: a dropped call leaves either no ping or a marked one.
        self.ready().await?;
        self.unflushed_ping = true;
        self.beat.ping_sent(Instant::now());
        Pin::new(&mut self.inner).start_send(Message::Ping(Bytes::new()))?;
        self.flush().await
    }

    /// Sends a close frame; nothing can be sent afterwards. Drop both halves to end the connection, or use
    /// [`RawSocket::close`].
    pub async fn close(&mut self, close: Close) -> Result<(), LinkError> {
        let close = Message::Close(close.into_frame());
        within(self.limits.write_within, self.inner.send(close)).await
    }

    async fn feed_data(&mut self, kind: Data, mut message: Bytes) -> Result<(), LinkError> {
        if message.len() > self.limits.message {
            return Err(LinkError::TooLong {
                size: message.len(),
                limit: self.limits.message,
            });
        }
        let mut kind = kind;
        if message.len() > self.limits.split_above {
            while message.len() > self.limits.piece {
                let part = message.split_to(self.limits.piece);
                self.feed_frame(WsFrame::message(part, OpCode::Data(kind), false))
                    .await?;
                kind = Data::Continue;
            }
        }
        self.feed_frame(WsFrame::message(message, OpCode::Data(kind), true))
            .await
    }

    async fn feed_frame(&mut self, frame: WsFrame) -> Result<(), LinkError> {
        self.ready().await?;
        Pin::new(&mut self.inner).start_send(Message::Frame(frame))?;
        // The half has a slot of its own before the shared socket: empty it now, so that an error is
        // this message's and not the next one's.
        self.ready().await
    }

    async fn ready(&mut self) -> Result<(), LinkError> {
        let ready = poll_fn(|cx| Pin::new(&mut self.inner).poll_ready(cx));
        within(self.limits.write_within, ready).await
    }
}

impl RawSink {
    /// The bounds of this connection.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }
}

impl RawSource {
    /// The next message; `None` once the peer closed the connection in an orderly way ([`RawSource::closed`]
    /// tells why). Answers pings. Cancel-safe.
    pub async fn recv(&mut self) -> Result<Option<Frame>, LinkError> {
        let listening = Listening::enter(self);
        let this = &mut *listening.0;
        if this.close.is_some() {
            return Ok(None);
        }
        loop {
            tokio::select! {
                // In this order: what arrived is drained before the deadline is looked at.
                biased;
                message = this.inner.next() => match message {
                    Some(Ok(Message::Binary(bytes))) => return Ok(Some(Frame::Binary(bytes))),
                    Some(Ok(Message::Text(text))) => return Ok(Some(Frame::Text(text.into()))),
                    // tungstenite queued the answer and writes it with the next poll.
                    Some(Ok(Message::Ping(_))) => {}
                    Some(Ok(Message::Pong(_))) => this.beat.pong_received(),
                    Some(Ok(Message::Close(frame))) => {
                        this.close = Some(Close::from_frame(frame));
                        // One more poll writes the answer, if the socket takes it; nothing else can arrive.
                        let _ = futures_util::poll!(this.inner.next());
                        return Ok(None);
                    }
                    // Only ever sent.
                    Some(Ok(Message::Frame(_))) => {}
                    Some(Err(error)) => return Err(error.into()),
                    None => return Ok(None),
                },
                () = &mut this.check => {
                    let now = Instant::now();
                    match this.pong_deadline() {
                        Some(deadline) if deadline <= now => {
                            return Err(LinkError::PongTimeout(this.limits.pong_within));
                        }
                        Some(deadline) => this.check.as_mut().reset(deadline),
                        // A ping that leaves from now on has at least this long.
                        None => this.check.as_mut().reset(now + this.limits.pong_within),
                    }
                }
            }
        }
    }

    /// The close frame that the peer sent, once it arrived.
    pub fn closed(&self) -> Option<&Close> {
        self.close.as_ref()
    }

    fn pong_deadline(&self) -> Option<Instant> {
        let sent = self.beat.outstanding()?;
        let away = match self.away {
            Some((ping, away)) if ping == sent => away,
            _ => Duration::ZERO,
        };
        Some(sent + self.limits.pong_within + away)
    }
}

/// Somebody listens: from entry to drop. The time between is what a pong deadline must not count.
struct Listening<'a>(&'a mut RawSource);

impl<'a> Listening<'a> {
    fn enter(source: &'a mut RawSource) -> Self {
        if let Some(sent) = source.beat.outstanding() {
            let gap = Instant::now().duration_since(source.left.max(sent));
            let before = match source.away {
                Some((ping, away)) if ping == sent => away,
                _ => Duration::ZERO,
            };
            source.away = Some((sent, before + gap));
        }
        Self(source)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.left = Instant::now();
    }
}

async fn within<T, E: Into<LinkError>>(
    limit: Duration,
    write: impl Future<Output = Result<T, E>>,
) -> Result<T, LinkError> {
    let mut write = pin!(write);
    // Most writes are done at once: only the others need a clock.
    if let Poll::Ready(done) = futures_util::poll!(&mut write) {
        return done.map_err(Into::into);
    }
    match timeout(limit, write).await {
        Ok(done) => done.map_err(Into::into),
        Err(_) => Err(LinkError::WriteTimeout(limit)),
    }
}
