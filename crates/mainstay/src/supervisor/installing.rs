//! Installing a session with its first link: its tables, its handle, and what becomes of the sessions before it.

use mainstay_session::ids::{Epoch, Gen, SessionId};
use ractor::ActorRef;
use tokio::sync::{OnceCell, mpsc, watch};
use tracing::Span;

use super::entries::{SessionEntry, Sessionless};
use super::{Msg, State};
use crate::announcements::Announcements;
use crate::body_table::BodyTable;
use crate::features::Features;
use crate::line::{Line, Slot};
use crate::marks;
use crate::process_table::{ProcessTable, ToTable};
use crate::session::{Session, Shared};
use crate::setup::Destination;
use crate::worker;

impl State {
    pub(super) async fn install(
        &mut self,
        myself: &ActorRef<Msg>,
        generation: Gen,
        epoch: Epoch,
        id: SessionId,
    ) {
        let (Some(link), Some(Sessionless { ports, ends })) =
            (self.links.get_mut(&epoch), self.sessionless.remove(&epoch))
        else {
            tracing::error!(epoch = epoch.0, "installed a link that is not there");
            return;
        };
        let info = link.info.take().flatten();
        let features = Features::of(info.as_ref());
        let (keeper, gate) = marks::gate();
        let (slot, slot_rx) = watch::channel(Slot::Recovering);
        let line = Line::new(generation, gate, slot_rx);
        let (table, table_rx) = mpsc::unbounded_channel();
        let processes = ProcessTable::new(
            table_rx,
            table.downgrade(),
            ends.events,
            features.clone(),
            self.setup.clone(),
            myself.clone(),
        );
        let (bodies, bodies_rx) = mpsc::unbounded_channel();
        let streams = BodyTable::new(
            bodies_rx,
            ends.bodies,
            line.clone(),
            features.http_cancel,
            &self.setup.config.session,
        );
        let table_cell = worker::spawn(processes, Span::none(), myself.get_cell()).await;
        let bodies_cell = worker::spawn(streams, Span::none(), myself.get_cell()).await;
        // If they cannot be spawned, the supervisor itself is ending.
        let (Ok(table_cell), Ok(bodies_cell)) = (table_cell, bodies_cell) else {
            return;
        };
        let session = Session::new(Shared {
            line,
            id: self.shelf.session_text(id).cloned().unwrap_or_default(),
            table: table.clone(),
            bodies: bodies.clone(),
            info: OnceCell::new_with(info),
            features,
            setup: self.setup.clone(),
        });
        self.sessions.insert(
            generation,
            SessionEntry {
                keeper,
                slot,
                session: session.clone(),
                ports,
                table,
                table_cell,
                bodies,
                bodies_cell,
            },
        );
        self.relink(generation, epoch);
        self.current.send_replace(Some(session));
        self.forget_sessions(generation);
        self.follow_announcements(myself).await;
    }

    async fn follow_announcements(&mut self, myself: &ActorRef<Msg>) {
        if let Destination::Registry(registry) = &self.setup.destination
            && self.setup.config.automatic_refresh
            && self.announcements.is_none()
        {
            let work = Announcements {
                registry: registry.clone(),
                known: self.registration.subscribe(),
                supervisor: myself.clone(),
            };
            self.announcements = worker::spawn(work, Span::none(), myself.get_cell())
                .await
                .ok();
        }
    }

    pub(super) fn relink(&self, generation: Gen, epoch: Epoch) {
        if let (Some(entry), Some(link)) = (self.sessions.get(&generation), self.links.get(&epoch))
        {
            let _ = entry.table.send(ToTable::LinkUp(link.link().clone()));
        }
    }

    /// Earlier sessions stay only while somebody holds them: their handles read why they ended.
    fn forget_sessions(&mut self, current: Gen) {
        self.sessions
            .retain(|generation, entry| *generation == current || entry.session.is_held());
    }

    /// The current session, or the last one.
    pub(super) fn newest(&self) -> Option<&SessionEntry> {
        self.sessions
            .values()
            .max_by_key(|entry| entry.session.generation())
    }
}
