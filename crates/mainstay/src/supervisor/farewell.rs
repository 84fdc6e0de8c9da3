//! The end of the supervisor: the links say goodbye first, but not for long.

use std::time::Duration;

use ractor::ActorRef;

use super::{Msg, State};

/// How long the links may take to say goodbye at the end.
const FAREWELL: Duration = Duration::from_millis(1500);

impl State {
    /// After the machine was shut down: the links say goodbye, then the supervisor ends.
    pub(super) fn say_farewell(&mut self, myself: &ActorRef<Msg>) {
        if self.links.is_empty() {
            self.end(myself);
        } else {
            for link in self.links.values() {
                link.close();
            }
            let _detached = myself.send_after(FAREWELL, || Msg::FarewellOver);
        }
    }

    pub(super) fn end(&mut self, myself: &ActorRef<Msg>) {
        for reply in self.ending.take().unwrap_or_default() {
            let _ = reply.send(());
        }
        crate::lifecycle::done(myself);
    }
}
