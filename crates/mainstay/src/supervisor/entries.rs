//! What the supervisor keeps per link and per session.

use mainstay_session::ids::{Child, Epoch, Gen};
use mainstay_wire::environment::EnvironmentInfo;
use ractor::{ActorCell, ActorId};
use tokio::sync::{mpsc, watch};

use crate::body_table::ToBodies;
use crate::handshake::{LinkGuard, Ready};
use crate::line::Slot;
use crate::link::{CloseRequest, LinkRef};
use crate::marks::GateKeeper;
use crate::ports::{PortEnds, Ports};
use crate::process_table::ToTable;
use crate::session::Session;

/// Queues of a new session whose link is still being made.
#[derive(Debug)]
pub(super) struct Sessionless {
    pub(super) ports: Ports,
    pub(super) ends: PortEnds,
}

/// One link, from `LinkReady` until both halves have ended. Dropping it closes the link.
#[derive(Debug)]
pub(super) struct LinkEntry {
    pub(super) guard: LinkGuard,
    /// What `initialize` told; taken by the session that is installed with it.
    pub(super) info: Option<Option<EnvironmentInfo>>,
    reading: bool,
    writing: bool,
}

impl LinkEntry {
    pub(super) fn new(ready: Ready) -> Self {
        Self {
            guard: ready.guard,
            info: Some(ready.info),
            reading: true,
            writing: true,
        }
    }

    pub(super) fn link(&self) -> &LinkRef {
        &self.guard.link
    }

    pub(super) fn close(&self) {
        self.link().closed().set();
        self.link().close(CloseRequest::Unneeded);
    }

    pub(super) fn child(&self, epoch: Epoch, actor: ActorId) -> Option<Child> {
        if self.guard.reader.get_id() == actor {
            Some(Child::Reader(epoch))
        } else if self.guard.writer.get_id() == actor {
            Some(Child::Writer(epoch))
        } else {
            None
        }
    }

    pub(super) fn ended(&mut self, child: Child) {
        match child {
            Child::Reader(_) => self.reading = false,
            Child::Writer(_) => self.writing = false,
            _ => {}
        }
    }

    pub(super) fn is_over(&self) -> bool {
        !self.reading && !self.writing
    }
}

/// One session, as long as anybody holds it.
#[derive(Debug)]
pub(super) struct SessionEntry {
    pub(super) keeper: GateKeeper,
    pub(super) slot: watch::Sender<Slot>,
    pub(super) session: Session,
    pub(super) ports: Ports,
    pub(super) table: mpsc::UnboundedSender<ToTable>,
    pub(super) table_cell: ActorCell,
    pub(super) bodies: mpsc::UnboundedSender<ToBodies>,
    pub(super) bodies_cell: ActorCell,
}

impl SessionEntry {
    pub(super) fn child(&self, generation: Gen, actor: ActorId) -> Option<Child> {
        if self.table_cell.get_id() == actor {
            Some(Child::ProcessTable(generation))
        } else if self.bodies_cell.get_id() == actor {
            Some(Child::BodyTable(generation))
        } else {
            None
        }
    }
}
