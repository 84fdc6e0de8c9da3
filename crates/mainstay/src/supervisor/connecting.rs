//! Sending Handshake out: where to, for whom, and whose tables its link feeds.

use mainstay_session::Route;
use mainstay_session::ids::{Child, Epoch, Op, SessionId};
use ractor::ActorRef;

use super::entries::Sessionless;
use super::{Msg, State};
use crate::handshake::{Handshake, Resume, Target};
use crate::ports::Ports;
use crate::process_table::ToTable;
use crate::setup::Destination;

impl State {
    pub(super) async fn spawn_connector(
        &mut self,
        myself: &ActorRef<Msg>,
        op: Op,
        epoch: Epoch,
        route: Route,
        resume: Option<SessionId>,
    ) {
        let Some(target) = self.target(route) else {
            // The machine names each bundle and socket once.
            tracing::error!(epoch = epoch.0, "nothing to dial");
            return;
        };
        let take_over = self
            .newest()
            .is_some_and(|entry| entry.session.features().take_over);
        let resume = resume
            .and_then(|id| self.shelf.session_text(id).cloned())
            .map(|id| Resume { id, take_over });
        let ports = match &resume {
            Some(resume) => self.resuming(&resume.id, epoch),
            None => None,
        };
        let ports = match ports {
            Some(ports) => ports,
            None => {
                let (ports, ends) = Ports::new();
                self.sessionless.insert(
                    epoch,
                    Sessionless {
                        ports: ports.clone(),
                        ends,
                    },
                );
                ports
            }
        };
        let work = Handshake {
            op,
            epoch,
            target,
            resume,
            ports,
            setup: self.setup.clone(),
            supervisor: myself.clone(),
        };
        let span = self.operations.step(op);
        self.spawn(myself, Child::Connector(op, epoch), work, span)
            .await;
    }

    fn target(&mut self, route: Route) -> Option<Target> {
        match route {
            Route::Bundle(bundle) => self.shelf.take_bundle(bundle.id).map(Target::Relay),
            Route::Configured => match &self.setup.destination {
                Destination::Direct(direct) => Some(Target::Direct(direct.clone())),
                Destination::Program(program) => Some(Target::Program(program.clone())),
                Destination::Registry(_) | Destination::Accepted => {
                    self.first.take().map(Target::Handed)
                }
            },
            Route::Socket(socket) => self
                .shelf
                .take_socket(socket)
                .map(|link| Target::Handed(Box::new(link))),
        }
    }

    /// A resume's link feeds the tables of the session it resumes; its process events count from now on.
    fn resuming(&self, id: &str, epoch: Epoch) -> Option<Ports> {
        let entry = self.newest().filter(|entry| entry.session.id() == id)?;
        let _ = entry.table.send(ToTable::Candidate(epoch));
        Some(entry.ports.clone())
    }
}
