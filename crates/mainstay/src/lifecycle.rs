//! The one place that stops actors.

use ractor::{ActorRef, Message};

/// Ends an actor whose work is done, from its own handler: it awaits nothing any more, so the stop is heard.
#[allow(
    clippy::disallowed_methods,
    reason = "the wrapper: an actor that stops itself after its last await"
)]
pub(crate) fn done<M: Message>(myself: &ActorRef<M>) {
    myself.get_cell().stop(None);
}
