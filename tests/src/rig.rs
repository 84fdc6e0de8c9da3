//! A registry behind a scripted front, executors behind its relay, and environments that use them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mainstay::{Builder, Environment, RegistryConfig};
use mainstay_executor::{Executor, RegisterConfig, Registration};
use mainstay_noise::Identity;
use mainstay_registry::tokens::{Role, Tokens};
use mainstay_registry::{Config, Registry, TokenSource};
use mainstay_testkit::registry_front::RegistryFront;
use secrecy::SecretString;

/// The rig.
pub struct Rig {
    /// Behind the front.
    pub registry: Registry,
    /// What clients and executors talk to.
    pub front: RegistryFront,
    executor_token: SecretString,
    harness_token: SecretString,
}

/// A registered executor.
pub struct Far {
    /// The executor.
    pub executor: Executor,
    /// Its registration.
    pub registration: Registration,
    /// Its keys.
    pub identity: Identity,
}

const ENVIRONMENT: &str = "env-1";

impl Rig {
    /// A registry that knows nobody yet.
    ///
    /// # Panics
    /// Without a free loopback port.
    pub async fn start() -> Self {
        let mut tokens = Tokens::new();
        let executor_token = tokens.issue(ENVIRONMENT, Role::Executor).unwrap();
        let harness_token = tokens.issue(ENVIRONMENT, Role::Harness).unwrap();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let registry = Registry::bind(Config::new(listen, TokenSource::Memory(Arc::new(tokens))))
            .await
            .unwrap();
        let front = RegistryFront::start(registry.local_addr()).await.unwrap();
        Self {
            registry,
            front,
            executor_token,
            harness_token,
        }
    }

    /// A new executor, registered and connected.
    ///
    /// # Panics
    /// When it cannot be.
    pub async fn executor(&self) -> Far {
        self.executor_with(mainstay_executor::Config::default())
            .await
    }

    /// A new executor with this configuration, registered and connected.
    ///
    /// # Panics
    /// When it cannot be.
    pub async fn executor_with(&self, config: mainstay_executor::Config) -> Far {
        let executor = Executor::start(config).await.unwrap();
        let identity = Identity::generate().unwrap();
        let registration = self.register(&executor, &identity).await;
        Far {
            executor,
            registration,
            identity,
        }
    }

    /// Registers an executor with these keys, which may have been registered before.
    ///
    /// # Panics
    /// When the registry refuses.
    pub async fn register(&self, executor: &Executor, identity: &Identity) -> Registration {
        let config = RegisterConfig {
            identity: Some(identity.clone()),
            ..RegisterConfig::new(self.front.url(), ENVIRONMENT, self.executor_token.clone())
        };
        executor.register(config).await.unwrap()
    }

    /// Registers the same executor again: another registration, the same keys and sessions.
    ///
    /// # Panics
    /// When the registry refuses.
    pub async fn renew(&self, far: &Far) -> Registration {
        self.register(&far.executor, &far.identity).await
    }

    /// The token of this registry's harnesses.
    pub fn harness_token(&self) -> SecretString {
        self.harness_token.clone()
    }

    /// An environment on this registry, not started yet.
    pub fn builder(&self) -> Builder {
        Environment::builder().registry(RegistryConfig {
            url: self.front.url(),
            environment: ENVIRONMENT.into(),
            token: self.harness_token.clone(),
            account: None,
        })
    }

    /// An environment on this registry.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn environment(&self) -> Environment {
        self.builder().spawn().await.unwrap()
    }
}
