//! How a family of methods reaches the peer besides answering it.

use std::future::Future;

/// Where the notifications of one connection go.
pub trait Notify: Clone + Send + Sync + 'static {
    /// Queues one frame as soon as there is room for it; false when the connection is gone.
    fn notify(&self, frame: String) -> impl Future<Output = bool> + Send;
}
