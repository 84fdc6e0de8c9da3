//! Two links joined in memory.

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::{
    Close, Link, LinkError,
    link::{SinkKind, SourceKind},
};

/// Messages in flight each way (the queue length of protocol.md 15).
const QUEUE: usize = 128;

#[derive(Debug)]
enum Item {
    Message(Bytes),
    Close(Close),
}

#[derive(Debug)]
pub(crate) struct PairSink {
    queue: Option<mpsc::Sender<Item>>,
}

#[derive(Debug)]
pub(crate) struct PairSource {
    queue: mpsc::Receiver<Item>,
    close: Option<Close>,
}

/// Two ends of one link in memory; what one sends, the other receives. For tests, and for parts in one process.
pub fn pair() -> (Link, Link) {
    let (left_tx, left_rx) = mpsc::channel(QUEUE);
    let (right_tx, right_rx) = mpsc::channel(QUEUE);
    let end = |tx, rx| {
        Link::new(
            SinkKind::Pair(PairSink { queue: Some(tx) }),
            SourceKind::Pair(PairSource {
                queue: rx,
                close: None,
            }),
        )
    };
    (end(left_tx, right_rx), end(right_tx, left_rx))
}

impl PairSink {
    pub(crate) async fn send(&mut self, message: String) -> Result<(), LinkError> {
        let queue = self.queue.as_ref().ok_or(LinkError::Closed)?;
        let item = Item::Message(message.into());
        queue.send(item).await.map_err(|_| LinkError::Closed)
    }

    pub(crate) fn close(&mut self, close: Close) {
        if let Some(queue) = self.queue.take() {
            // A full queue loses the reason, not the end.
            let _ = queue.try_send(Item::Close(close));
        }
    }
}

impl PairSource {
    pub(crate) async fn recv(&mut self) -> Option<Bytes> {
        match self.queue.recv().await {
            Some(Item::Message(bytes)) => Some(bytes),
            Some(Item::Close(close)) => {
                self.close = Some(close);
                None
            }
            None => None,
        }
    }

    pub(crate) fn closed(&self) -> Option<&Close> {
        self.close.as_ref()
    }
}
