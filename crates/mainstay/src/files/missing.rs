//! Hearing that something missing may exist now (`protocol.md` 9.4).

use mainstay_wire::PathUri;
use mainstay_wire::fs;
use mainstay_wire::limits::WATCH_PATHS;

use crate::call;
use crate::error::{Delivery, Error};
use crate::link::{Lane, LinkRef};
use crate::session::Session;

/// A watch for paths that were missing. It fires at most once and ends with the link it was set on; dropping it leaves
/// it to the executor until then.
#[derive(Debug)]
pub struct MissingWatch {
    link: LinkRef,
    id: u64,
}

/// How a watch ended. Either way it is time to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// One of the missing paths may exist now, or the present one was changed or removed.
    Fired,
    /// A newer watch took its place: a link has one.
    Replaced,
}

impl MissingWatch {
    pub(crate) async fn set(
        session: &Session,
        missing: Vec<PathUri>,
        present: Option<PathUri>,
    ) -> Result<Option<Self>, Error> {
        if !session.features().watch_missing {
            return Err(Error::unsupported("a watch for missing paths"));
        }
        if missing.is_empty() || missing.len() > WATCH_PATHS {
            return Err(Error::protocol(format!(
                "a watch is for 1 to {WATCH_PATHS} missing paths, not {}",
                missing.len()
            )));
        }
        let link = session.line().link(session.mode()).await?;
        let id = link.next_watch();
        let params = fs::WatchMissingParams {
            watch_id: id,
            missing,
            present,
        };
        let answer = session
            .line()
            .call_on::<fs::WatchMissing>(&link, Lane::Regular, &params)
            .await?;
        Ok(answer.watching.then_some(Self { link, id }))
    }

    /// Waits for its end. Cancel-safe.
    ///
    /// # Errors
    /// Its link ended: what happened meanwhile is not known, so look again and set a new one.
    pub async fn ended(&mut self) -> Result<WatchEnd, Error> {
        let mut watches = self.link.watches();
        tokio::select! {
            biased;
            known = watches.wait_for(|known| known.fired >= self.id || known.taken > self.id) => match known {
                Ok(known) if known.fired == self.id => Ok(WatchEnd::Fired),
                Ok(_) => Ok(WatchEnd::Replaced),
                Err(_) => Err(call::closed(Delivery::Unknown)),
            },
            () = self.link.ended() => {
                Err(Error::disconnected("exec-server transport disconnected", Delivery::Unknown))
            }
        }
    }
}
