//! Children as actors: spawning them, finding out which one is gone, crashing one for a test.

use mainstay_session::event::{Event, How};
use mainstay_session::ids::Child;
use ractor::{ActorId, ActorRef};
use tracing::Span;

use super::{Msg, State};
use crate::worker::{self, Work};

impl State {
    /// Spawns a child and sets it to work. If it cannot be spawned, the supervisor itself is ending.
    pub(super) async fn spawn(
        &mut self,
        myself: &ActorRef<Msg>,
        child: Child,
        work: impl Work,
        span: Span,
    ) {
        if let Ok(cell) = worker::spawn(work, span, myself.get_cell()).await {
            self.children.insert(child, cell);
        }
    }

    /// Finds out which child an actor was: it may have been registered after it died.
    pub(super) async fn gone(&mut self, myself: &ActorRef<Msg>, actor: ActorId, how: How) {
        let known = self
            .children
            .iter()
            .find_map(|(child, cell)| (cell.get_id() == actor).then_some(*child));
        let of_link = self
            .links
            .iter()
            .find_map(|(epoch, link)| link.child(*epoch, actor));
        let of_session = self
            .sessions
            .iter()
            .find_map(|(generation, entry)| entry.child(*generation, actor));
        let child = known.or(of_link).or(of_session).unwrap_or(Child::Operation);
        self.children.remove(&child);
        // It starts again with the next session.
        self.announcements.take_if(|cell| cell.get_id() == actor);
        match (child, how) {
            // An operation that ended is its own business; a Writer that stopped by itself has told its Reader.
            (Child::Operation, How::Stopped | How::Killed) | (Child::Writer(_), How::Stopped) => {}
            (child, how) => self.feed(myself, Event::ChildGone { child, how }).await,
        }
        if let Child::Reader(epoch) | Child::Writer(epoch) = child
            && let Some(link) = self.links.get_mut(&epoch)
        {
            link.ended(child);
        }
        self.links.retain(|_, link| !link.is_over());
        if self.ending.is_some() && self.links.is_empty() {
            self.end(myself);
        }
    }

    pub(super) fn kill(&self, child: Child) {
        let of_link = |epoch| self.links.get(&epoch).map(|link| &link.guard);
        let of_session = |generation| self.sessions.get(&generation);
        let cell = match child {
            Child::Reader(epoch) => of_link(epoch).map(|guard| &guard.reader),
            Child::Writer(epoch) => of_link(epoch).map(|guard| &guard.writer),
            Child::ProcessTable(generation) => {
                of_session(generation).map(|entry| &entry.table_cell)
            }
            Child::BodyTable(generation) => of_session(generation).map(|entry| &entry.bodies_cell),
            other => self.children.get(&other),
        };
        if let Some(cell) = cell {
            cell.kill();
        }
    }
}
