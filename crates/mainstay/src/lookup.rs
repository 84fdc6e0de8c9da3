//! Lookup: one registry request series, under the rules of its operation (`session.md` 3.4, 5.3, 6.2).
//!
//! A [worker](crate::worker) of the supervisor's; ends with one `LookupDone`.

use std::sync::Arc;
use std::time::Duration;

use mainstay_link::relay::Bundle;
use mainstay_session::delay::{self, Circumstances};
use mainstay_session::ids::{CauseId, LookupTag, Op};
use mainstay_session::lookup::{Elapsed, Lookup as Rules, LookupKind, Next};
use mainstay_session::{Failure, Transport, Wait, classify};
use ractor::ActorRef;
use tokio::time::{Instant, sleep, timeout};

use crate::error::Error;
use crate::registry::Registry;
use crate::setup::{Destination, Setup};
use crate::supervisor;
use crate::worker::Work;

#[derive(Debug)]
pub(crate) struct Lookup {
    pub(crate) lookup: LookupTag,
    /// When its operation began: the time an executor may be offline goes on over the attempt's second lookup.
    pub(crate) began: Instant,
    pub(crate) setup: Arc<Setup>,
    pub(crate) supervisor: ActorRef<supervisor::Msg>,
}

impl Work for Lookup {
    async fn run(self) {
        let result = self.ask().await.map(Box::new);
        let _ = self.supervisor.send_message(supervisor::Msg::LookupDone {
            lookup: self.lookup,
            result,
        });
    }
}

impl Lookup {
    async fn ask(&self) -> Result<Bundle, Error> {
        let Destination::Registry(registry) = &self.setup.destination else {
            return Err(Error::protocol("there is no registry to ask"));
        };
        let kind = match self.lookup.op {
            Op::Attempt(_) if self.setup.rules().deferred => LookupKind::Provisioned,
            Op::Attempt(_) => LookupKind::Initial,
            Op::Recovery(_) => LookupKind::Resume,
            Op::Refresh(_) => LookupKind::Refresh,
        };
        self.series(registry, kind).await
    }

    async fn series(&self, registry: &Registry, kind: LookupKind) -> Result<Bundle, Error> {
        let config = &self.setup.config.session;
        let mut rules = Rules::new(kind);
        let began = Instant::now();
        // The reference's delays hash it; ours do not use it.
        let key = uuid::Uuid::new_v4().to_string();
        let mut result = registry.connect(rules.request_timeout(config)).await;
        loop {
            let error = match result {
                Ok(bundle) => return Ok(bundle),
                Err(error) => error,
            };
            let class = classify::classify(error.kind());
            let elapsed = Elapsed {
                lookup: began.elapsed(),
                ready: self.began.elapsed(),
            };
            let Next::Again { earlier, within } = rules.failed(class, elapsed, config) else {
                return Err(error);
            };
            let circumstances = Circumstances {
                key: &key,
                transport: Transport::Noise,
                retry_after: error.retry_after(),
                restart_window: None,
                retention: Duration::ZERO,
                remaining: None,
                random: crate::chance::random(),
            };
            let wait = Wait::Backoff {
                after: Failure {
                    cause: CauseId::default(),
                    class,
                },
                earlier,
            };
            let pause = delay::duration(wait, config, &circumstances);
            tracing::debug!(%error, ?pause, "registry asked again");
            let again = async {
                sleep(pause).await;
                registry.connect(rules.request_timeout(config)).await
            };
            result = match timeout(within, again).await {
                Ok(result) => result,
                // A wait and request that would cross the deadline: the error before stands.
                Err(_) => return Err(error),
            };
        }
    }
}
