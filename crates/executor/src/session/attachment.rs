//! Who has a session: the connection that is attached, and what happens while there is none (protocol.md 4).

use std::sync::Arc;

use mainstay_link::Close;
use mainstay_wire::RpcError;
use mainstay_wire::environment::EnvironmentInfo;
use mainstay_wire::initialize::InitializeAnswer;
use ractor::ActorRef;
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::{Message, State};
use crate::connection::{Connection, ConnectionId};
use crate::outbox::Reply;
use crate::peer::Peer;
use crate::process::{Attachment, Letter};

/// Close code for a connection whose session was taken over: our own, from the range for applications.
const TAKEN_OVER: u16 = 4010;

/// A connection that wants the session.
#[derive(Debug)]
pub(crate) struct Attach {
    /// The connection.
    pub(crate) connection: Connection,
    /// Where its events go.
    pub(crate) attachment: Attachment,
    /// Who it is.
    pub(crate) peer: Peer,
    /// Whether to take the session from another connection.
    pub(crate) take_over: bool,
    /// Part of the answer.
    pub(crate) environment: Arc<EnvironmentInfo>,
    /// Owed the answer to `initialize`.
    pub(crate) reply: Reply,
    /// Told when attached; dropped if not.
    pub(crate) attached: oneshot::Sender<Attached>,
}

/// A connection's hold on a session; dropping it detaches.
#[derive(Debug)]
pub(crate) struct Attached {
    session: ActorRef<Message>,
    connection: ConnectionId,
}

/// The connection that has it.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) connection: Connection,
    pub(super) attachment: Attachment,
    peer: Peer,
}

impl Attached {
    /// Sends a message to the session.
    pub(crate) fn send(&self, message: impl FnOnce(ConnectionId) -> Message) {
        // A session that is gone: the reply in the message says so when it is dropped.
        let _ = self.session.cast(message(self.connection));
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.session.cast(Message::Detach(self.connection));
    }
}

impl State {
    pub(super) fn is_held_by(&self, connection: ConnectionId) -> bool {
        self.holder
            .as_ref()
            .is_some_and(|holder| holder.connection.id() == connection)
    }

    pub(super) fn on_attach(&mut self, myself: &ActorRef<Message>, attach: Attach) {
        if self.ended {
            attach.reply.err(RpcError::unknown_session(&self.id));
            return;
        }
        if let Some(holder) = &self.holder {
            if !(attach.take_over && holder.peer.is_same_party(&attach.peer)) {
                attach.reply.err(RpcError::already_attached(&self.id));
                return;
            }
            holder.connection.close(Close::new(
                TAKEN_OVER,
                "session taken over by another connection",
            ));
            self.tell_all(|| Letter::Detach);
        }
        let connection = attach.connection.id();
        self.epoch += 1;
        self.expiry = None;
        self.holder = Some(Holder {
            connection: attach.connection,
            attachment: attach.attachment.clone(),
            peer: attach.peer,
        });
        attach.reply.ok(InitializeAnswer {
            session_id: self.id.clone(),
            environment_info: Some(EnvironmentInfo::clone(&attach.environment)),
        });
        self.tell_all(|| Letter::Attach(attach.attachment.clone()));
        // A connection that is gone already drops it, and that detaches.
        let _ = attach.attached.send(Attached {
            session: myself.clone(),
            connection,
        });
    }

    pub(super) fn on_detach(&mut self, myself: &ActorRef<Message>, connection: ConnectionId) {
        if !self.is_held_by(connection) {
            return;
        }
        self.holder = None;
        self.epoch += 1;
        self.tell_all(|| Letter::Detach);
        let epoch = self.epoch;
        let expire = move || Message::Expire(epoch);
        let timer = myself.send_after(self.shared.config.session_retention, expire);
        self.expiry = Some(AbortOnDropHandle::new(timer));
    }

    pub(super) fn on_expire(&mut self, epoch: u64) {
        if epoch == self.epoch && self.holder.is_none() {
            tracing::debug!(session = self.id, "retention is over");
            self.end();
        }
    }
}
