//! The harness's end: one socket, one stream, one link (noise-relay.md 7).

use bytes::Bytes;
use mainstay_noise::{Channel, Identity, Initiator, Opener, Prologue};
use mainstay_wire::relay::{Body, Frame as RelayFrame};
use uuid::Uuid;

use super::records::{Outgoing, message, refused};
use super::{Bundle, HandshakeFault, RelayError};
use crate::link::{SinkKind, SourceKind};
use crate::{
    Close, DialError, DialOptions, Frame, Limits, Link, LinkError, RawSink, RawSocket, RawSource,
    dial_raw,
};

/// Opens the harness's rendezvous socket, with its limits in place of the options'.
///
/// # Errors
/// As [`dial_raw`].
pub async fn dial(bundle: &Bundle, options: &DialOptions) -> Result<RawSocket, DialError> {
    let options = DialOptions {
        limits: Limits::rendezvous(),
        ..options.clone()
    };
    dial_raw(&bundle.url, &options).await
}

/// Makes an open rendezvous socket a link: claims a fresh stream and shakes hands with the executor of the bundle.
/// Without a timer of its own: the caller has one budget for this and `initialize` (session.md 3.4).
///
/// # Errors
/// [`RelayError`]; the socket is dropped then.
pub async fn harness(
    mut socket: RawSocket,
    identity: &Identity,
    bundle: &Bundle,
) -> Result<Link, RelayError> {
    let stream_id = Uuid::new_v4().to_string();
    let prologue = Prologue::new(
        bundle.executor_key.suite(),
        &bundle.environment,
        &bundle.registration,
        &stream_id,
    );
    let (mut initiator, message_1) = Initiator::start(
        identity,
        &bundle.executor_key,
        &prologue,
        &bundle.authorization,
    )?;
    for body in [
        Body::Resume { next_seq: 0 },
        Body::Handshake {
            payload: message_1.into(),
        },
    ] {
        let frame = RelayFrame::new(stream_id.as_str(), body);
        socket.sink.feed(frame.encode()).await?;
    }
    socket.sink.flush().await?;
    let message_2 = answer(&mut socket.source, &stream_id).await?;
    let channel = initiator.finish(&message_2)?;
    Ok(link(socket, stream_id, channel))
}

/// Waits for message 2 and lets pass what may come before it.
async fn answer(source: &mut RawSource, stream_id: &str) -> Result<Bytes, RelayError> {
    loop {
        match receive(source, stream_id).await? {
            Some(Body::Handshake { payload }) => return Ok(payload),
            Some(Body::Data { .. }) => return Err(HandshakeFault::DataFirst.into()),
            Some(Body::Reset { .. }) => return Err(HandshakeFault::Reset.into()),
            Some(Body::Ack | Body::Resume { .. } | Body::Heartbeat) => {}
            None => return Err(LinkError::Closed.into()),
        }
    }
}

/// The next frame of our stream; `None` at an orderly end of the socket. Cancel-safe.
async fn receive(source: &mut RawSource, stream_id: &str) -> Result<Option<Body>, LinkError> {
    loop {
        let bytes = match source.recv().await? {
            Some(Frame::Binary(bytes)) => bytes,
            Some(Frame::Text(_)) => {
                return Err(LinkError::Protocol("text on a relay socket".to_owned()));
            }
            None => return Ok(None),
        };
        let frame =
            RelayFrame::decode(bytes).map_err(|error| LinkError::Protocol(error.to_string()))?;
        if frame.stream_id == stream_id {
            return Ok(Some(frame.body));
        }
    }
}

fn link(socket: RawSocket, stream_id: String, channel: Channel) -> Link {
    let (sealer, opener) = channel.split();
    let sink = HarnessSink {
        socket: socket.sink,
        records: Outgoing::new(stream_id.clone(), sealer),
    };
    let source = HarnessSource {
        socket: socket.source,
        stream_id,
        opener,
    };
    Link::new(
        SinkKind::Harness(Box::new(sink)),
        SourceKind::Harness(Box::new(source)),
    )
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct HarnessSink {
    socket: RawSink,
    records: Outgoing,
}

impl HarnessSink {
    pub(crate) async fn send(&mut self, message: String) -> Result<(), LinkError> {
        self.records.push(message)?;
        while let Some(frame) = self.records.full_frame()? {
            self.socket.feed(frame).await?;
        }
        Ok(())
    }

    pub(crate) async fn flush(&mut self) -> Result<(), LinkError> {
        self.feed_rest().await?;
        self.socket.flush().await
    }

    pub(crate) async fn keepalive(&mut self) -> Result<(), LinkError> {
        self.socket.keepalive().await
    }

    /// The reset tells the executor at once what it would otherwise hear from a router that cares; the close frame
    /// is for the router.
    pub(crate) async fn close(&mut self, close: Close) -> Result<(), LinkError> {
        self.feed_rest().await?;
        let reset = RelayFrame::reset(self.records.stream_id());
        self.socket.feed(reset.encode()).await?;
        self.socket.close(close).await
    }

    async fn feed_rest(&mut self) -> Result<(), LinkError> {
        while let Some(frame) = self.records.frame()? {
            self.socket.feed(frame).await?;
        }
        Ok(())
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct HarnessSource {
    socket: RawSource,
    stream_id: String,
    opener: Opener,
}

impl HarnessSource {
    pub(crate) async fn recv(&mut self) -> Result<Option<Bytes>, LinkError> {
        loop {
            if let Some(message) = message(&mut self.opener)? {
                return Ok(Some(message));
            }
            match receive(&mut self.socket, &self.stream_id).await? {
                Some(Body::Data { seq, payload }) => {
                    self.opener.accept(seq, payload).map_err(refused)?;
                }
                Some(Body::Reset { .. }) => return Err(LinkError::Reset),
                Some(Body::Handshake { .. }) => {
                    return Err(LinkError::Protocol("second Noise handshake".to_owned()));
                }
                Some(Body::Ack | Body::Resume { .. } | Body::Heartbeat) => {}
                None => return Ok(None),
            }
        }
    }

    pub(crate) fn closed(&self) -> Option<&Close> {
        self.socket.closed()
    }
}
