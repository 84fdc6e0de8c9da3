//! Who is registered: the registry's one piece of state, behind a trait so that several nodes can share it.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures_util::future::BoxFuture;
use mainstay_wire::registry::{EnvironmentId, PublicKey};
use tokio::sync::watch;

use crate::authorization::fingerprint;

/// Keys remembered as replaced, per environment. A forgotten one could register again, which is what it could do anyway
/// with a new key.
const REPLACED: usize = 256;

/// What an executor offers when it registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The security profile of the first key.
    pub security_profile: String,
    /// One key per suite that the executor speaks; the first is the one it prefers, and never missing.
    pub key: PublicKey,
    /// Keys of further suites.
    pub further_keys: Vec<PublicKey>,
}

/// The registration that serves an environment now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// Its id.
    pub registration: String,
    /// What its executor offered.
    pub offer: Offer,
    /// Whether its executor is connected to the rendezvous.
    pub online: bool,
}

/// What became of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the current one now.
    Current {
        /// Its id; that of before if the current executor registered again.
        registration: String,
        /// The one it replaced.
        replaced: Option<String>,
    },
    /// This key was replaced in this environment before, and stays so.
    Superseded,
}

/// Why a store has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// It cannot be reached.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// Another registration of this environment is in progress: try again.
    #[error("registration conflict")]
    Conflict,
}

/// Remembers the current registration of each environment, and which keys were replaced there.
pub trait Store: Send + Sync + 'static {
    /// Makes `offer` the current registration of `environment`, in one step. The same key as the current one keeps its
    /// registration.
    fn register<'a>(
        &'a self,
        environment: &'a EnvironmentId,
        offer: Offer,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>>;

    /// The current registration.
    fn current<'a>(
        &'a self,
        environment: &'a EnvironmentId,
    ) -> BoxFuture<'a, Result<Option<Current>, StoreError>>;

    /// Notes that the executor of `registration` is connected, or no longer is. False if it is not the current one.
    fn set_online<'a>(
        &'a self,
        environment: &'a EnvironmentId,
        registration: &'a str,
        online: bool,
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Waits until a registration other than `after` is current and its executor connected, and returns its id.
    fn announced<'a>(
        &'a self,
        environment: &'a EnvironmentId,
        after: &'a str,
    ) -> BoxFuture<'a, Result<String, StoreError>>;
}

/// Keeps everything in memory: after a restart nobody is registered.
#[derive(Debug, Default)]
pub struct MemoryStore {
    environments: Mutex<HashMap<EnvironmentId, watch::Sender<State>>>,
}

#[derive(Debug, Default)]
struct State {
    current: Option<Current>,
    replaced: VecDeque<[u8; 32]>,
}

impl MemoryStore {
    /// Nobody is registered.
    pub fn new() -> Self {
        Self::default()
    }

    fn environment(&self, environment: &EnvironmentId) -> watch::Sender<State> {
        let mut environments = self.lock();
        match environments.get(environment) {
            Some(state) => state.clone(),
            None => environments.entry(environment.clone()).or_default().clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<EnvironmentId, watch::Sender<State>>> {
        // Nothing panics while it is held.
        self.environments
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn register(&mut self, offer: Offer) -> Outcome {
        let key = fingerprint(&offer.key);
        if self.replaced.contains(&key) {
            return Outcome::Superseded;
        }
        let before = self.current.take();
        if let Some(current) = before {
            let old = fingerprint(&current.offer.key);
            if old == key {
                let registration = current.registration.clone();
                self.current = Some(Current { offer, ..current });
                return Outcome::Current {
                    registration,
                    replaced: None,
                };
            }
            if self.replaced.len() == REPLACED {
                self.replaced.pop_front();
            }
            self.replaced.push_back(old);
            return self.install(offer, Some(current.registration));
        }
        self.install(offer, None)
    }

    fn install(&mut self, offer: Offer, replaced: Option<String>) -> Outcome {
        let registration = uuid::Uuid::new_v4().to_string();
        self.current = Some(Current {
            registration: registration.clone(),
            offer,
            online: false,
        });
        Outcome::Current {
            registration,
            replaced,
        }
    }
}

impl Store for MemoryStore {
    fn register<'a>(
        &'a self,
        environment: &'a EnvironmentId,
        offer: Offer,
    ) -> BoxFuture<'a, Result<Outcome, StoreError>> {
        Box::pin(async move {
            let mut outcome = Outcome::Superseded;
            self.environment(environment)
                .send_modify(|state| outcome = state.register(offer));
            Ok(outcome)
        })
    }

    fn current<'a>(
        &'a self,
        environment: &'a EnvironmentId,
    ) -> BoxFuture<'a, Result<Option<Current>, StoreError>> {
        Box::pin(async move { Ok(self.environment(environment).borrow().current.clone()) })
    }

    fn set_online<'a>(
        &'a self,
        environment: &'a EnvironmentId,
        registration: &'a str,
        online: bool,
    ) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let mut is_current = false;
            self.environment(environment).send_modify(|state| {
                if let Some(current) = &mut state.current
                    && current.registration == registration
                {
                    current.online = online;
                    is_current = true;
                }
            });
            Ok(is_current)
        })
    }

    fn announced<'a>(
        &'a self,
        environment: &'a EnvironmentId,
        after: &'a str,
    ) -> BoxFuture<'a, Result<String, StoreError>> {
        Box::pin(async move {
            let mut states = self.environment(environment).subscribe();
            let state = states
                .wait_for(|state| state.announces(after).is_some())
                .await
                .map_err(|_| StoreError::Unavailable("closed".into()))?;
            Ok(state.announces(after).unwrap_or_default().to_owned())
        })
    }
}

impl State {
    fn announces(&self, after: &str) -> Option<&str> {
        self.current
            .as_ref()
            .filter(|current| current.online && current.registration != after)
            .map(|current| current.registration.as_str())
    }
}
