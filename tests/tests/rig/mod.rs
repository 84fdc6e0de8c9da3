//! A registry behind a scripted front, executors behind its relay, and environments that use them.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mainstay::{Builder, Environment, RegistryConfig};
use mainstay_executor::{Executor, RegisterConfig, Registration};
use mainstay_registry::tokens::{Role, Tokens};
use mainstay_registry::{Config, Registry, TokenSource};
use mainstay_testkit::registry_front::RegistryFront;
use secrecy::SecretString;

pub struct Rig {
    pub registry: Registry,
    pub front: RegistryFront,
    executor_token: SecretString,
    harness_token: SecretString,
}

/// A registered executor.
pub struct Far {
    pub executor: Executor,
    pub registration: Registration,
}

const ENVIRONMENT: &str = "env-1";

impl Rig {
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
    pub async fn executor(&self) -> Far {
        let executor = Executor::start(mainstay_executor::Config::default())
            .await
            .unwrap();
        let registration = self.register(&executor).await;
        Far {
            executor,
            registration,
        }
    }

    pub async fn register(&self, executor: &Executor) -> Registration {
        let config =
            RegisterConfig::new(self.front.url(), ENVIRONMENT, self.executor_token.clone());
        executor.register(config).await.unwrap()
    }

    pub fn builder(&self) -> Builder {
        Environment::builder().registry(RegistryConfig {
            url: self.front.url(),
            environment: ENVIRONMENT.into(),
            token: self.harness_token.clone(),
            account: None,
        })
    }

    pub async fn environment(&self) -> Environment {
        self.builder().spawn().await.unwrap()
    }
}
