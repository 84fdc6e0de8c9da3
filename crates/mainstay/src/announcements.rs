//! Announcements: asks the registry for the registration that follows the known one, so that the environment can
//! refresh by itself. Only where the host asked for it, and only while the registry offers it.
//!
//! A [worker](crate::worker) of the supervisor's, spawned with its first session; reports `Announced`, again and again.

use std::sync::Arc;
use std::time::Duration;

use mainstay_session::delay;
use mainstay_session::{Class, classify};
use ractor::ActorRef;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::error::ErrorKind;
use crate::registry::Registry;
use crate::supervisor;
use crate::worker::Work;

/// Between an announcement and the next question: a refresh that failed must not become a hot loop.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Announcements {
    pub(crate) registry: Arc<Registry>,
    /// The registration of the current session.
    pub(crate) known: watch::Receiver<Option<String>>,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
}

impl Work for Announcements {
    async fn run(mut self) {
        let mut failures = 0;
        loop {
            let known = match self.known.wait_for(Option::is_some).await {
                Ok(known) => known.clone().unwrap_or_default(),
                Err(_) => return,
            };
            let announced = tokio::select! {
                announced = self.registry.announced(&known) => announced,
                // Somebody else was faster: ask about the new one.
                changed = self.known.changed() => match changed {
                    Ok(()) => continue,
                    Err(_) => return,
                },
            };
            match announced {
                Ok(Some(registration)) => {
                    failures = 0;
                    tracing::info!(registration, "another executor was announced");
                    let told = self
                        .supervisor
                        .send_message(supervisor::Msg::Announced { registration });
                    if told.is_err() {
                        return;
                    }
                    sleep(PAUSE).await;
                }
                Ok(None) => failures = 0,
                Err(error) if unavailable(error.kind()) => {
                    tracing::info!(%error, "the registry announces nothing");
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "announcement");
                    let retry_after = error.retry_after();
                    let random = crate::chance::random();
                    sleep(delay::backoff(
                        Class::Registry,
                        failures,
                        retry_after,
                        random,
                    ))
                    .await;
                    failures = failures.saturating_add(1);
                }
            }
        }
    }
}

/// Registries of the reference have no such thing.
fn unavailable(error: &ErrorKind) -> bool {
    classify::classify(error) == Class::Terminal
}
