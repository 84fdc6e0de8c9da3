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
    /// Those before it, whose executors are still connected to them.
    earlier: Vec<Registry>,
    tokens: Arc<Tokens>,
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
        let tokens = Arc::new(tokens);
        let registry = registry(&tokens).await;
        let front = RegistryFront::start(registry.local_addr()).await.unwrap();
        Self {
            registry,
            front,
            earlier: Vec::new(),
            tokens,
            executor_token,
            harness_token,
        }
    }

    /// Puts another registry behind the front, which knows nobody: whoever registers from now on gets another
    /// registration, with whatever keys. Sockets of the one before stay open.
    ///
    /// # Panics
    /// Without a free loopback port.
    pub async fn another_registry(&mut self) {
        let another = registry(&self.tokens).await;
        self.front.set_upstream(another.local_addr());
        self.earlier
            .push(std::mem::replace(&mut self.registry, another));
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

    /// Registers the same executor again, with another registry: another registration, the same keys and sessions.
    ///
    /// # Panics
    /// When the registry refuses.
    pub async fn renew(&mut self, far: &Far) -> Registration {
        self.another_registry().await;
        self.register(&far.executor, &far.identity).await
    }

    /// A new executor with the keys of another, registered with another registry: it has none of the sessions.
    ///
    /// # Panics
    /// When it cannot be.
    pub async fn namesake(&mut self, far: &Far) -> Far {
        self.another_registry().await;
        let executor = Executor::start(mainstay_executor::Config::default())
            .await
            .unwrap();
        let registration = self.register(&executor, &far.identity).await;
        Far {
            executor,
            registration,
            identity: far.identity.clone(),
        }
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

async fn registry(tokens: &Arc<Tokens>) -> Registry {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let config = Config::new(listen, TokenSource::Memory(tokens.clone()));
    Registry::bind(config).await.unwrap()
}
