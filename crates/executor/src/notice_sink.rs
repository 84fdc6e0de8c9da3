//! How a family of methods reaches the peer besides answering it.

use std::future::Future;

/// Where the notifications of one connection go.
pub trait NoticeSink: Clone + Send + Sync + 'static {
    /// Queues one frame as soon as there is room for it; false when the connection is gone.
    fn send_notice(&self, frame: String) -> impl Future<Output = bool> + Send;
}
