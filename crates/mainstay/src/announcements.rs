//! Announcements: asks the registry for the registration that follows the known one, so that the environment can
//! refresh by itself. Only where the host asked for it, and only while the registry offers it.
//!
//! Spawned by the supervisor with its first session; its work is one cancellable future, ended by kill.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | `Run` | supervisor | ask, again and again, and report `Announced` |

use std::sync::Arc;
use std::time::Duration;

use mainstay_session::delay;
use mainstay_session::{Class, classify};
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::error::ErrorKind;
use crate::registry::Registry;
use crate::supervisor;

/// Between an announcement and the next question: a refresh that failed must not become a hot loop.
const PAUSE: Duration = Duration::from_secs(1);

/// One message: the work.
#[derive(Debug)]
pub(crate) enum Msg {
    Run,
}

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) registry: Arc<Registry>,
    /// The registration of the current session.
    pub(crate) known: watch::Receiver<Option<String>>,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
}

#[derive(Debug)]
pub(crate) struct Announcements;

impl Actor for Announcements {
    type Msg = Msg;
    type State = Arguments;
    type Arguments = Arguments;

    async fn pre_start(
        &self,
        _: ActorRef<Msg>,
        work: Arguments,
    ) -> Result<Arguments, ActorProcessingErr> {
        Ok(work)
    }

    async fn handle(
        &self,
        myself: ActorRef<Msg>,
        message: Msg,
        work: &mut Arguments,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Msg::Run => {
                work.follow().await;
                crate::lifecycle::done(&myself);
            }
        }
        Ok(())
    }
}

impl Arguments {
    async fn follow(&mut self) {
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
                    let retry_after = crate::lookup::retry_after(error.kind());
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
