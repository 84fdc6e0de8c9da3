//! What the supervisor's children report. Each report becomes one event; what the machine cannot hold goes to the shelf.

use std::time::Duration;

use mainstay_link::relay::Bundle;
use mainstay_session::event::{Event, Fault, Stage};
use mainstay_session::ids::{Child, Epoch, LookupTag, Op, RecoveryId, RefreshId, Timer};
use ractor::ActorRef;

use super::entries::LinkEntry;
use super::requests::Port;
use super::{Msg, State};
use crate::error::Error;
use crate::handshake::Ready;

impl State {
    pub(super) async fn lookup_done(
        &mut self,
        myself: &ActorRef<Msg>,
        lookup: LookupTag,
        result: Result<Box<Bundle>, Error>,
    ) {
        self.children.remove(&Child::Lookup(lookup));
        let result = match result {
            Ok(bundle) => Ok(self.shelf.bundle(bundle)),
            Err(error) => Err(self.shelf.failure(error)),
        };
        self.feed(myself, Event::LookupDone { lookup, result })
            .await;
    }

    pub(super) async fn link_ready(
        &mut self,
        myself: &ActorRef<Msg>,
        op: Op,
        epoch: Epoch,
        ready: Ready,
    ) {
        self.children.remove(&Child::Connector(op, epoch));
        let session = self.shelf.session(&ready.session_id);
        self.links.insert(epoch, LinkEntry::new(ready));
        self.feed(myself, Event::LinkReady { op, epoch, session })
            .await;
    }

    pub(super) async fn connect_failed(
        &mut self,
        myself: &ActorRef<Msg>,
        op: Op,
        epoch: Epoch,
        stage: Stage,
        error: Error,
    ) {
        self.children.remove(&Child::Connector(op, epoch));
        self.sessionless.remove(&epoch);
        let event = Event::ConnectFailed {
            op,
            epoch,
            stage,
            failure: self.shelf.failure(error),
        };
        self.feed(myself, event).await;
    }

    pub(super) async fn link_down(
        &mut self,
        myself: &ActorRef<Msg>,
        epoch: Epoch,
        error: Error,
        restart: Option<Duration>,
    ) {
        tracing::info!(epoch = epoch.0, %error, "link down");
        let event = Event::LinkDown {
            epoch,
            cause: self.shelf.cause(error, restart),
            restart: restart.is_some(),
        };
        self.feed(myself, event).await;
    }

    pub(super) async fn link_fault(
        &mut self,
        myself: &ActorRef<Msg>,
        epoch: Epoch,
        fault: Fault,
        error: Error,
    ) {
        tracing::warn!(epoch = epoch.0, %error, "link misbehaves");
        let event = Event::LinkFault {
            epoch,
            fault,
            cause: self.shelf.cause(error, None),
        };
        self.feed(myself, event).await;
    }

    pub(super) async fn replay_done(
        &mut self,
        myself: &ActorRef<Msg>,
        recovery: RecoveryId,
        epoch: Epoch,
        result: Result<(), Error>,
    ) {
        self.children.remove(&Child::Replay(recovery, epoch));
        let event = Event::ReplayDone {
            recovery,
            epoch,
            result: result.map_err(|error| self.shelf.failure(error)),
        };
        self.feed(myself, event).await;
    }

    pub(super) async fn probe_done(
        &mut self,
        myself: &ActorRef<Msg>,
        refresh: RefreshId,
        epoch: Epoch,
        result: Result<(), Error>,
    ) {
        self.children.remove(&Child::Probe(refresh));
        let event = Event::ProbeDone {
            refresh,
            epoch,
            result: result.map_err(|error| self.shelf.failure(error)),
        };
        self.feed(myself, event).await;
    }

    pub(super) async fn due(&mut self, myself: &ActorRef<Msg>, timer: Timer) {
        self.timers.remove(&timer);
        self.feed(myself, Event::Due(timer)).await;
    }

    /// Another executor is registered: follow it, unless a recovery has meanwhile (6).
    pub(super) async fn announced(&mut self, myself: &ActorRef<Msg>, registration: &str) {
        if self.registration.borrow().as_deref() == Some(registration) {
            return;
        }
        let waiter = self.own_waiter();
        self.waiters.insert(waiter, Port::Own);
        self.feed(myself, Event::Refresh { waiter }).await;
    }
}
