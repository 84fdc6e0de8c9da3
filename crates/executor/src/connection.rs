//! One connection: the actor that reads one JSON-RPC conversation (protocol.md 1 to 5).
//!
//! Child of the root. Reads messages and hands them to its [`Desk`], which answers or routes them; what leaves goes through
//! the outbox and its writer task, so that reading goes on while the peer does not take what is written. File handles,
//! HTTP streams and watches live in the desk and end with the connection; processes live in the session.
//!
//! | message | meaning |
//! |---|---|
//! | `Run` | converse until the end of the link; the mailbox is not used after that |

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mainstay_link::{Close, Link, LinkError, Source};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::dispatch::Desk;
use crate::outbox::{self, outbox};
use crate::peer::Peer;
use crate::root;
use crate::shared::Shared;

/// After our close frame, the time a peer has to answer with its own and so to have read everything before it; after
/// the peer's last message, the time it has to take its answers.
const LINGER: Duration = Duration::from_secs(1);

static IDS: AtomicU64 = AtomicU64::new(0);

/// Tells connections apart, for the life of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(u64);

/// A connection as others see it: something that can be closed.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    id: ConnectionId,
    closing: mpsc::UnboundedSender<Close>,
}

/// The actor.
#[derive(Debug)]
pub(crate) struct Conversation;

/// Its only message.
#[derive(Debug)]
pub(crate) enum Message {
    /// Converse.
    Run,
}

/// What a connection is started with.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) link: Link,
    pub(crate) peer: Peer,
    pub(crate) connection: Connection,
    pub(crate) closing: mpsc::UnboundedReceiver<Close>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) root: ActorRef<root::Message>,
}

impl Connection {
    /// A new connection and the inbox of its actor.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Close>) {
        let (closing, inbox) = mpsc::unbounded_channel();
        let id = ConnectionId(IDS.fetch_add(1, Ordering::Relaxed));
        (Self { id, closing }, inbox)
    }

    /// Its id.
    pub(crate) fn id(&self) -> ConnectionId {
        self.id
    }

    /// Closes it with a reason, after what was said so far.
    pub(crate) fn close(&self, close: Close) {
        // One that has ended is closed.
        let _ = self.closing.send(close);
    }
}

impl Actor for Conversation {
    type Msg = Message;
    type State = Option<Box<Arguments>>;
    type Arguments = Box<Arguments>;

    async fn pre_start(
        &self,
        _myself: ActorRef<Message>,
        arguments: Box<Arguments>,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Some(arguments))
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Message::Run => {
                if let Some(arguments) = state.take() {
                    converse(*arguments).await;
                }
                myself.drain()?;
            }
        }
        Ok(())
    }
}

async fn converse(arguments: Arguments) {
    let Arguments {
        link: Link {
            sink, mut source, ..
        },
        peer,
        connection,
        mut closing,
        shared,
        root,
    } = arguments;
    let (outbox, outgoings) = outbox();
    let mut writer = AbortOnDropHandle::new(tokio::spawn(outbox::write(sink, outgoings)));
    tracing::debug!(%peer, "connection open");
    let mut desk = Desk::new(peer, connection, outbox.clone(), shared, root);
    let close = loop {
        tokio::select! {
            biased;
            close = closing.recv() => break close,
            written = &mut writer => {
                tracing::debug!(?written, "connection cannot be written to");
                return;
            }
            () = desk.tidy() => {}
            message = source.recv() => match message {
                Ok(Some(message)) => {
                    if let ControlFlow::Break(close) = desk.on_message(&message).await {
                        break Some(close);
                    }
                }
                // A peer that has said everything may still listen: what was answered is written.
                Ok(None) => {
                    drop(desk);
                    outbox.close(Close::normal());
                    drop(outbox);
                    let _ = timeout(LINGER, writer).await;
                    return;
                }
                Err(LinkError::TooLong { size, limit }) => {
                    break Some(Close::new(1009, format!("message of {size} bytes, the limit is {limit}")));
                }
                Err(error) => {
                    tracing::debug!(%error, "connection lost");
                    return;
                }
            },
        }
    };
    let Some(close) = close else { return };
    tracing::debug!(
        code = close.code,
        reason = close.reason,
        "closing connection"
    );
    // The session is free from here on, whatever the peer does with the close.
    drop(desk);
    outbox.close(close);
    drop(outbox);
    if let Ok(Ok(())) = writer.await {
        let _ = timeout(LINGER, drain(&mut source)).await;
    }
}

async fn drain(source: &mut Source) {
    while let Ok(Some(_)) = source.recv().await {}
}
