//! The rendezvous router: which executor socket serves which registration, and the tasks of all sockets.

mod executor;
mod harness;
mod hub;
mod outbox;
mod peek;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use mainstay_link::{Close, RawSocket};
use mainstay_wire::registry::EnvironmentId;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tokio_util::task::TaskTracker;

pub(crate) use hub::Hub;

use crate::{Limits, Store, store::StoreError};

/// How long a socket that we closed may take to answer, so that its peer reads what was sent before.
const LINGER: Duration = Duration::from_secs(5);

/// All rendezvous sockets of this node.
pub(crate) struct Router {
    store: Arc<dyn Store>,
    limits: Limits,
    hubs: Mutex<HashMap<Key, Arc<Hub>>>,
    /// Sockets that may still come.
    sockets: Arc<Semaphore>,
    tasks: TaskTracker,
    /// With what every socket is to be closed, once the registry shuts down.
    closing: watch::Sender<Option<Close>>,
}

type Key = (EnvironmentId, String);

/// A place for one socket; given back when it is dropped.
pub(crate) struct Place {
    _node: OwnedSemaphorePermit,
    _hub: Option<OwnedSemaphorePermit>,
}

impl Router {
    pub(crate) fn new(store: Arc<dyn Store>, limits: Limits) -> Self {
        Self {
            store,
            limits,
            hubs: Mutex::default(),
            sockets: Arc::new(Semaphore::new(limits.sockets as usize)),
            tasks: TaskTracker::new(),
            closing: watch::Sender::new(None),
        }
    }

    /// The executor socket that serves a registration.
    pub(crate) fn hub(&self, environment: &EnvironmentId, registration: &str) -> Option<Arc<Hub>> {
        let key = (environment.clone(), registration.to_owned());
        self.hubs().get(&key).cloned()
    }

    /// A replaced registration gets no new streams; those it has live on.
    pub(crate) fn retire(&self, environment: &EnvironmentId, registration: &str) {
        if let Some(hub) = self.hub(environment, registration) {
            hub.retire();
        }
    }

    /// Room for an executor's socket.
    pub(crate) fn place(&self) -> Option<Place> {
        Some(Place {
            _node: self.sockets.clone().try_acquire_owned().ok()?,
            _hub: None,
        })
    }

    /// Room for a harness's socket beside its executor's.
    pub(crate) fn place_at(&self, hub: &Hub) -> Option<Place> {
        Some(Place {
            _node: self.sockets.clone().try_acquire_owned().ok()?,
            _hub: Some(hub.place()?),
        })
    }

    /// Runs an accepted socket, and whatever comes before it is one, in a task that [`Router::shutdown`] waits for.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Serves an executor's socket until it ends.
    pub(crate) async fn serve_executor(
        self: Arc<Self>,
        environment: EnvironmentId,
        registration: String,
        socket: RawSocket,
    ) {
        let (hub, queue) = Hub::new(self.limits);
        let hub = Arc::new(hub);
        let key = (environment, registration);
        let before = self.hubs().insert(key.clone(), hub.clone());
        if let Some(before) = before {
            before.end(Close::new(1001, "replaced by a newer connection"));
        }
        match self.store.set_online(&key.0, &key.1, true).await {
            Ok(true) => {
                tracing::info!(environment = %key.0, registration = %key.1, "executor connected");
            }
            Ok(false) => hub.end(Close::new(1001, "registration replaced")),
            Err(error) => {
                tracing::warn!(%error, "executor refused: the store does not answer");
                hub.end(Close::new(1011, "registry trouble"));
            }
        }
        executor::serve(&hub, socket, queue, self.closing.subscribe()).await;
        if let Err(error) = self.detach(&key, &hub).await {
            tracing::warn!(%error, "executor not noted as gone: the store does not answer");
        }
        tracing::info!(environment = %key.0, registration = %key.1, "executor disconnected");
    }

    /// Serves a harness's socket until it ends.
    pub(crate) async fn serve_harness(self: Arc<Self>, hub: Arc<Hub>, socket: RawSocket) {
        harness::serve(&hub, socket, self.limits, self.closing.subscribe()).await;
    }

    /// Closes every socket with `close`, and waits at most `drain` for their ends.
    pub(crate) async fn shutdown(&self, close: Close, drain: Duration) {
        self.closing.send_replace(Some(close));
        self.tasks.close();
        // What has not ended by then is dropped with the runtime or the process.
        let _ = timeout(drain, self.tasks.wait()).await;
    }

    /// Ends every socket without waiting.
    pub(crate) fn abandon(&self) {
        self.closing.send_if_modified(|closing| {
            let first = closing.is_none();
            closing.get_or_insert_with(Close::going_away);
            first
        });
    }

    async fn detach(&self, key: &Key, hub: &Arc<Hub>) -> Result<(), StoreError> {
        let removed = {
            let mut hubs = self.hubs();
            let mine = hubs
                .get(key)
                .is_some_and(|current| Arc::ptr_eq(current, hub));
            mine && hubs.remove(key).is_some()
        };
        if removed {
            self.store.set_online(&key.0, &key.1, false).await?;
            // A new socket may have come between the two steps, and its note been overwritten.
            if self.hubs().contains_key(key) {
                self.store.set_online(&key.0, &key.1, true).await?;
            }
        }
        Ok(())
    }

    fn hubs(&self) -> MutexGuard<'_, HashMap<Key, Arc<Hub>>> {
        // Nothing panics while it is held.
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
