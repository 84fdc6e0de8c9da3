//! An executor's socket: what it receives goes to the harness of each frame's stream.

use std::sync::Arc;

use mainstay_link::{Close, Frame, LinkError, RawSocket, RawSource};
use tokio::{sync::watch, time::timeout};

use super::{
    LINGER,
    hub::Hub,
    outbox::{Queue, write},
    peek::peek,
};

/// Serves the socket until it ends; afterwards the hub is gone, and with it the sockets of its harnesses.
pub(super) async fn serve(
    hub: &Arc<Hub>,
    socket: RawSocket,
    queue: Queue,
    closing: watch::Receiver<Option<Close>>,
) {
    let mut source = socket.source;
    // Its own task, so that both directions can use a processor each.
    let mut writer = tokio::spawn(write(socket.sink, queue, closing));
    tokio::select! {
        ended = forward(hub, &mut source) => {
            tracing::debug!(?ended, "executor socket ended");
        }
        // Broken, or closed because the registry shuts down: then the executor answers.
        written = &mut writer => {
            hub.gone.cancel();
            if let Ok(Ok(())) = written {
                let _ = timeout(LINGER, drain(&mut source)).await;
            }
            return;
        }
        () = hub.gone.cancelled() => {
            let goodbye = async {
                let _ = (&mut writer).await;
                drain(&mut source).await;
            };
            let _ = timeout(LINGER, goodbye).await;
        }
    }
    hub.gone.cancel();
    writer.abort();
}

/// Ends with the socket.
async fn forward(hub: &Hub, source: &mut RawSource) -> Result<(), LinkError> {
    while let Some(message) = source.recv().await? {
        // Text carries no protocol here (noise-relay.md 3), and what is no frame has no stream.
        let Frame::Binary(frame) = message else {
            continue;
        };
        let Some(seen) = peek(&frame) else { continue };
        // The harness is gone; the executor was told when it went.
        let Some(stream) = hub.stream(seen.stream_id) else {
            continue;
        };
        let reset = seen.reset;
        if reset {
            hub.forget(&stream);
        }
        if !stream.harness.deliver(frame, reset).await {
            tracing::debug!("harness does not read: its socket is cut off");
            stream.harness.cut();
        }
    }
    Ok(())
}

/// Reads and discards until the peer has closed.
pub(super) async fn drain(source: &mut RawSource) {
    while let Ok(Some(_)) = source.recv().await {}
}
