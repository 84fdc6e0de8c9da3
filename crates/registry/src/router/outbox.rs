//! The way out to one socket: a queue, and the task that empties it.

use bytes::Bytes;
use mainstay_link::{Close, LinkError, RawSink};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

/// Messages taken from the queue at once.
const BATCH: usize = 32;

/// Queues what one socket shall send. The queue itself has no bound: what is in it holds a permit of its sender's
/// budget, or is one of the few resets that the router makes itself.
#[derive(Clone, Debug)]
pub(crate) struct Outbox(mpsc::UnboundedSender<Outgoing>);

pub(crate) type Queue = mpsc::UnboundedReceiver<Outgoing>;

#[derive(Debug)]
pub(crate) enum Outgoing {
    Frame(Bytes, Option<OwnedSemaphorePermit>),
    Close(Close),
}

pub(crate) fn outbox() -> (Outbox, Queue) {
    let (queue, out) = mpsc::unbounded_channel();
    (Outbox(queue), out)
}

impl Outbox {
    /// Queues a frame that holds its share of a budget until it is written.
    pub(crate) fn send(&self, frame: Bytes, share: OwnedSemaphorePermit) {
        // A socket that is gone takes nothing more; its end is noticed elsewhere.
        let _ = self.0.send(Outgoing::Frame(frame, Some(share)));
    }

    /// Queues a frame of the router's own, outside of any budget.
    pub(crate) fn send_free(&self, frame: Bytes) {
        let _ = self.0.send(Outgoing::Frame(frame, None));
    }

    /// Closes the socket once everything queued before has left.
    pub(crate) fn close(&self, close: Close) {
        let _ = self.0.send(Outgoing::Close(close));
    }
}

/// Writes what is queued, many messages to one flush, and pings in between. `Ok` once the close frame has left.
pub(crate) async fn write(
    mut sink: RawSink,
    mut queue: Queue,
    mut closing: watch::Receiver<Option<Close>>,
) -> Result<(), LinkError> {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            biased;
            close = announced(&mut closing) => {
                queue.close();
                while let Ok(item) = queue.try_recv() {
                    if let Outgoing::Frame(frame, _share) = item {
                        sink.feed(frame).await?;
                    }
                }
                return sink.close(close).await;
            }
            // Before the queue: one that is never empty must not keep the ping from leaving.
            kept = sink.keepalive() => kept?,
            taken = queue.recv_many(&mut batch, BATCH) => {
                if taken == 0 {
                    return Ok(());
                }
                for item in batch.drain(..) {
                    match item {
                        Outgoing::Frame(frame, _share) => sink.feed(frame).await?,
                        Outgoing::Close(close) => return sink.close(close).await,
                    }
                }
                if queue.is_empty() {
                    sink.flush().await?;
                }
            }
        }
    }
}

async fn announced(closing: &mut watch::Receiver<Option<Close>>) -> Close {
    match closing.wait_for(Option::is_some).await {
        Ok(close) => close.clone().unwrap_or_else(Close::going_away),
        // The router is gone without having announced anything.
        Err(_) => Close::going_away(),
    }
}

#[cfg(test)]
mod tests {
    use mainstay_link::{DialOptions, Frame, Limits, accept, dial_raw};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn what_was_queued_before_the_end_leaves_before_the_close_frame() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let (upgraded, mut sockets) = mpsc::channel(1);
        let service = move |mut request: hyper::Request<hyper::body::Incoming>, _peer| {
            let upgraded = upgraded.clone();
            async move {
                match accept::upgrade(&mut request, Limits::rendezvous()) {
                    Ok((answer, socket)) => {
                        tokio::spawn(async move { upgraded.send(socket.await.unwrap()).await });
                        answer
                    }
                    Err(refusal) => refusal,
                }
            }
        };
        let stop = std::future::pending();
        tokio::spawn(accept::serve(listener, Default::default(), service, stop));
        let near = dial_raw(&url, &DialOptions::rendezvous()).await.unwrap();
        let mut far = sockets.recv().await.unwrap();

        let (outbox, queue) = outbox();
        let frames = ["one", "two", "three"];
        for frame in frames {
            outbox.send_free(frame.into());
        }
        let announced = watch::Sender::new(Some(Close::new(1012, "window-ms=7")));
        write(near.sink, queue, announced.subscribe())
            .await
            .unwrap();
        for frame in frames {
            let received = far.source.recv().await.unwrap();
            assert_eq!(received, Some(Frame::Binary(frame.into())));
        }
        assert_eq!(far.source.recv().await.unwrap(), None);
        assert_eq!(far.source.closed().unwrap().reason, "window-ms=7");
    }
}
