//! A link: one JSON-RPC message per send and receive, whatever carries it.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use crate::{
    Close, Frame, LinkError, RawSink, RawSocket, RawSource,
    lines::{LineSink, LineSource},
    pair::{PairSink, PairSource},
    relay::{HarnessSink, HarnessSource, StreamSink, StreamSource},
};

/// One physical connection that carries JSON-RPC messages.
#[derive(Debug)]
pub struct Link {
    /// The sending half.
    pub sink: Sink,
    /// The receiving half.
    pub source: Source,
}

/// The sending half of a [`Link`].
#[derive(Debug)]
pub struct Sink(SinkKind);

/// The receiving half of a [`Link`].
#[derive(Debug)]
pub struct Source(SourceKind);

#[derive(Debug)]
pub(crate) enum SinkKind {
    WebSocket(RawSink),
    Lines(LineSink),
    Pair(PairSink),
    Harness(Box<HarnessSink>),
    Stream(Box<StreamSink>),
}

#[derive(Debug)]
pub(crate) enum SourceKind {
    WebSocket(RawSource),
    Lines(LineSource),
    Pair(PairSource),
    Harness(Box<HarnessSource>),
    Stream(StreamSource),
}

impl Link {
    pub(crate) fn new(sink: SinkKind, source: SourceKind) -> Self {
        Self {
            sink: Sink(sink),
            source: Source(source),
        }
    }

    /// Sends a close frame where the transport has one, and waits at most `linger` for the peer's, discarding
    /// what still arrives, so that the peer can read what was sent before.
    pub async fn close(mut self, close: Close, linger: Duration) {
        let goodbye = async {
            self.sink.close(close).await?;
            while self.source.recv().await?.is_some() {}
            Ok::<_, LinkError>(())
        };
        // The link is dropped either way; a peer that does not answer has lost its chance.
        let _ = timeout(linger, goodbye).await;
    }
}

impl From<RawSocket> for Link {
    /// JSON-RPC over a WebSocket: sent as text; received binary messages are taken like text
    /// (protocol.md 1.1).
    fn from(socket: RawSocket) -> Self {
        Self::new(
            SinkKind::WebSocket(socket.sink),
            SourceKind::WebSocket(socket.source),
        )
    }
}

impl Sink {
    /// Queues one message and writes when enough has gathered; follow with [`Sink::flush`]. Every write has its
    /// deadline. [`LinkError::TooLong`] leaves the link intact, every other error ends it.
    ///
    /// Not cancel-safe: after a dropped call the link must not be used again.
    pub async fn send(&mut self, message: String) -> Result<(), LinkError> {
        match &mut self.0 {
            SinkKind::WebSocket(sink) => sink.feed_text(message).await,
            SinkKind::Lines(sink) => sink.send(message).await,
            SinkKind::Pair(sink) => sink.send(message).await,
            SinkKind::Harness(sink) => sink.send(message).await,
            SinkKind::Stream(sink) => sink.send(message).await,
        }
    }

    /// Writes everything queued.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        match &mut self.0 {
            SinkKind::WebSocket(sink) => sink.flush().await,
            SinkKind::Lines(sink) => sink.flush().await,
            SinkKind::Pair(_) => Ok(()),
            SinkKind::Harness(sink) => sink.flush().await,
            SinkKind::Stream(sink) => sink.flush().await,
        }
    }

    /// Sleeps until a ping is due and sends it. Call it again and again beside the queue of messages;
    /// it never ends on transports without pings. Cancel-safe.
    pub async fn keepalive(&mut self) -> Result<(), LinkError> {
        match &mut self.0 {
            SinkKind::WebSocket(sink) => sink.keepalive().await,
            SinkKind::Harness(sink) => sink.keepalive().await,
            // The executor's rendezvous socket keeps itself alive, for all its streams.
            SinkKind::Lines(_) | SinkKind::Pair(_) | SinkKind::Stream(_) => {
                std::future::pending().await
            }
        }
    }

    /// Tells the peer why the link ends, where the transport can. Nothing can be sent afterwards.
    pub async fn close(&mut self, close: Close) -> Result<(), LinkError> {
        match &mut self.0 {
            SinkKind::WebSocket(sink) => sink.close(close).await,
            SinkKind::Lines(sink) => sink.close().await,
            SinkKind::Pair(sink) => {
                sink.close(close);
                Ok(())
            }
            SinkKind::Harness(sink) => sink.close(close).await,
            SinkKind::Stream(sink) => sink.close().await,
        }
    }
}

impl Source {
    /// The next message; `None` at an orderly end ([`Source::closed`] tells the peer's reason, if it gave one).
    /// The bytes are JSON as far as the peer is honest, and UTF-8 unless they came in a binary frame.
    /// Answers pings and watches their deadline. Cancel-safe.
    pub async fn recv(&mut self) -> Result<Option<Bytes>, LinkError> {
        match &mut self.0 {
            SourceKind::WebSocket(source) => Ok(source.recv().await?.map(|frame| match frame {
                Frame::Text(bytes) => bytes,
                Frame::Binary(bytes) => bytes,
            })),
            SourceKind::Lines(source) => source.recv().await,
            SourceKind::Pair(source) => Ok(source.recv().await),
            SourceKind::Harness(source) => source.recv().await,
            SourceKind::Stream(source) => source.recv().await,
        }
    }

    /// The close code and reason that the peer sent, once they arrived.
    pub fn closed(&self) -> Option<&Close> {
        match &self.0 {
            SourceKind::WebSocket(source) => source.closed(),
            SourceKind::Lines(_) => None,
            SourceKind::Pair(source) => source.closed(),
            SourceKind::Harness(source) => source.closed(),
            SourceKind::Stream(_) => None,
        }
    }
}
