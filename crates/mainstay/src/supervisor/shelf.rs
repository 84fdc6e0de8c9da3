//! What the machine only knows by number: errors, registry answers, sockets, and interned texts.

use std::collections::HashMap;
use std::time::Duration;

use mainstay_link::Link;
use mainstay_link::relay::Bundle;
use mainstay_session::ids::{BundleId, CauseId, ExecutorKey, Registration, SessionId, SocketId};
use mainstay_session::{Failure, Kept};

use crate::error::Error;

/// An error the machine may name again.
#[derive(Clone, Debug)]
pub(crate) struct KeptError {
    pub(crate) error: Error,
    /// The window of an announced restart, for a link's end.
    pub(crate) restart: Option<Duration>,
}

/// Numbers in, objects out.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    last: u32,
    causes: HashMap<CauseId, KeptError>,
    bundles: HashMap<BundleId, Box<Bundle>>,
    sockets: HashMap<SocketId, Link>,
    registrations: Interned<String>,
    keys: Interned<mainstay_noise::PublicKey>,
    sessions: Interned<String>,
}

impl Shelf {
    fn number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// Keeps an error until the machine names it no more.
    pub(crate) fn cause(&mut self, error: Error, restart: Option<Duration>) -> CauseId {
        let id = CauseId(self.number());
        self.causes.insert(id, KeptError { error, restart });
        id
    }

    /// Keeps an error together with what it means.
    pub(crate) fn failure(&mut self, error: Error) -> Failure {
        let class = mainstay_session::classify::classify(error.kind());
        Failure {
            cause: self.cause(error, None),
            class,
        }
    }

    pub(crate) fn error(&self, id: CauseId) -> Error {
        // Never missing: the machine names only what `Kept` told to keep.
        self.causes.get(&id).map_or_else(
            || Error::protocol("cause forgotten"),
            |kept| kept.error.clone(),
        )
    }

    pub(crate) fn restart_window(&self, id: CauseId) -> Option<Duration> {
        self.causes.get(&id).and_then(|kept| kept.restart)
    }

    /// Keeps a registry answer until it is dialled.
    pub(crate) fn bundle(&mut self, bundle: Box<Bundle>) -> mainstay_session::Bundle {
        let id = BundleId(self.number());
        let registration = Registration(self.registrations.number(&bundle.registration));
        let key = ExecutorKey(self.keys.number(&bundle.executor_key));
        self.bundles.insert(id, bundle);
        mainstay_session::Bundle {
            id,
            registration,
            key,
        }
    }

    pub(crate) fn take_bundle(&mut self, id: BundleId) -> Option<Box<Bundle>> {
        self.bundles.remove(&id)
    }

    /// Keeps a socket from the host until its turn.
    pub(crate) fn socket(&mut self, link: Link) -> SocketId {
        let id = SocketId(self.number());
        self.sockets.insert(id, link);
        id
    }

    pub(crate) fn take_socket(&mut self, id: SocketId) -> Option<Link> {
        self.sockets.remove(&id)
    }

    pub(crate) fn session(&mut self, id: &str) -> SessionId {
        SessionId(self.sessions.number(&id.to_owned()))
    }

    pub(crate) fn session_text(&self, id: SessionId) -> Option<&String> {
        self.sessions.value(id.0)
    }

    pub(crate) fn registration_text(&self, id: Registration) -> Option<&String> {
        self.registrations.value(id.0)
    }

    /// Forgets what the machine will not name again.
    pub(crate) fn keep(&mut self, kept: &Kept) {
        self.causes.retain(|id, _| kept.causes.contains(id));
        self.bundles.retain(|id, _| kept.bundle == Some(*id));
        self.sockets.retain(|id, _| kept.socket == Some(*id));
    }
}

/// Equal values, equal numbers.
#[derive(Debug)]
struct Interned<T>(Vec<T>);

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone + Eq> Interned<T> {
    fn number(&mut self, value: &T) -> u32 {
        // Executors change seldom: a search is cheaper than a second table.
        let at = self
            .0
            .iter()
            .position(|known| known == value)
            .unwrap_or_else(|| {
                self.0.push(value.clone());
                self.0.len() - 1
            });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    fn value(&self, number: u32) -> Option<&T> {
        self.0.get(number as usize)
    }
}
