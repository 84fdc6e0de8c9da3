//! The way from holders of a session to its current link: calls that survive recoveries, and fail for ever once the
//! session does.

use std::sync::Arc;
use std::time::Duration;

use mainstay_session::event::Mode;
use mainstay_session::ids::Gen;
use mainstay_wire::Call;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::call;
use crate::error::{Delivery, Error, ErrorKind};
use crate::link::{CloseRequest, Lane, LinkRef};
use crate::marks::{Ended, Gate};

/// How long a clean-up call of a fail-fast view waits for a link: as long as a probe would.
const CLEAN_UP_WAIT: Duration = Duration::from_secs(10);

/// What the supervisor publishes about a session's link.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Up(LinkRef),
    Recovering,
    Failed(Error),
    Retired,
}

/// One session's calls. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Line(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    generation: Gen,
    gate: Gate,
    slot: watch::Receiver<Slot>,
}

impl Line {
    pub(crate) fn new(generation: Gen, gate: Gate, slot: watch::Receiver<Slot>) -> Self {
        Self(Arc::new(Shared {
            generation,
            gate,
            slot,
        }))
    }

    pub(crate) fn generation(&self) -> Gen {
        self.0.generation
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// Why the session can never carry a call again, if so.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &*self.0.slot.borrow() {
            Slot::Failed(error) => Some(error.clone()),
            Slot::Retired => Some(call::replaced(Ended::Replaced, Delivery::NotSent)),
            Slot::Up(_) | Slot::Recovering => self
                .gate()
                .ended()
                .map(|ended| call::replaced(ended, Delivery::NotSent)),
        }
    }

    /// Whether its executor was replaced.
    pub(crate) fn is_retired(&self) -> bool {
        matches!(&*self.0.slot.borrow(), Slot::Retired)
    }

    /// What a caller who found the gate shut is told: the gate does not say why, the slot does, in the same step.
    pub(crate) async fn ended(&self, ended: Ended, delivery: Delivery) -> Error {
        let mut slot = self.0.slot.clone();
        let last = slot
            .wait_for(|slot| matches!(slot, Slot::Failed(_) | Slot::Retired))
            .await;
        match last.as_deref() {
            Ok(Slot::Failed(error)) => match error.kind() {
                ErrorKind::Disconnected { text, .. } => Error::disconnected(text.clone(), delivery),
                _ => Error::disconnected(error.to_string(), delivery),
            },
            Ok(Slot::Up(_) | Slot::Recovering | Slot::Retired) => {
                call::replaced(Ended::Replaced, delivery)
            }
            Err(_) => call::replaced(ended, delivery),
        }
    }

    /// The link there is at this moment.
    pub(crate) fn link_now(&self) -> Result<LinkRef, Error> {
        let found = self.look(&self.0.slot.borrow(), Mode::FailFast);
        // Fail-fast never waits.
        found.unwrap_or_else(|| Err(recovering()))
    }

    /// The link to use now; in waiting mode the next one, if there is none. Also a failure at once lets others run first:
    /// a caller that insists in a loop must not keep a runtime of one thread from making the link.
    pub(crate) async fn link(&self, mode: Mode) -> Result<LinkRef, Error> {
        let found = self.look(&self.0.slot.borrow(), mode);
        if let Some(found) = found {
            if found.is_err() {
                tokio::task::yield_now().await;
            }
            return found;
        }
        let mut slot = self.0.slot.clone();
        loop {
            if let Some(found) = self.look(&slot.borrow_and_update(), mode) {
                return found;
            }
            if slot.changed().await.is_err() {
                let ended = self.gate().ended().unwrap_or(Ended::SupervisorGone);
                return Err(call::replaced(ended, Delivery::NotSent));
            }
        }
    }

    /// What the slot means for a caller; `None`: wait for its next value.
    fn look(&self, slot: &Slot, mode: Mode) -> Option<Result<LinkRef, Error>> {
        match (slot, mode, self.gate().ended()) {
            (Slot::Failed(error), _, _) => Some(Err(error.clone())),
            (Slot::Retired, _, _) => Some(Err(call::replaced(Ended::Replaced, Delivery::NotSent))),
            // Why follows in the same step.
            (Slot::Up(_) | Slot::Recovering, Mode::Wait, Some(_)) => None,
            (Slot::Up(_) | Slot::Recovering, Mode::FailFast, Some(ended)) => {
                Some(Err(call::replaced(ended, Delivery::NotSent)))
            }
            (Slot::Up(link), Mode::Wait | Mode::FailFast, None) if link.is_open() => {
                Some(Ok(link.clone()))
            }
            (Slot::Up(_) | Slot::Recovering, Mode::FailFast, None) => Some(Err(recovering())),
            (Slot::Up(_) | Slot::Recovering, Mode::Wait, None) => None,
        }
    }

    /// Closes the current link's transport.
    pub(crate) fn disconnect(&self) {
        if let Slot::Up(link) = &*self.0.slot.borrow() {
            link.closed().set();
            link.close(CloseRequest::Unneeded);
        }
    }

    /// One call on the current link.
    pub(crate) async fn call<C: Call>(
        &self,
        mode: Mode,
        params: &C::Params,
    ) -> Result<C::Answer, Error> {
        let link = self.link(mode).await?;
        self.call_on::<C>(&link, Lane::Regular, params).await
    }

    /// One call on a link that was looked up before.
    pub(crate) async fn call_on<C: Call>(
        &self,
        link: &LinkRef,
        lane: Lane,
        params: &C::Params,
    ) -> Result<C::Answer, Error> {
        let result = call::call::<C>(link, self.gate(), lane, params).await;
        self.in_session(result).await
    }

    /// One call whose exchange may take `limit`; the wait for the link does not count.
    pub(crate) async fn timed_on<C: Call>(
        &self,
        link: &LinkRef,
        lane: Lane,
        params: &C::Params,
        limit: Duration,
    ) -> Result<C::Answer, Error> {
        let result = call::timed::<C>(link, self.gate(), lane, params, limit).await;
        self.in_session(result).await
    }

    /// A clean-up call: it has its own slot and waits for a link whatever the caller's mode (4.9); in fail-fast mode
    /// not longer than [`CLEAN_UP_WAIT`] (W21).
    pub(crate) async fn clean_up<C: Call>(
        &self,
        mode: Mode,
        params: &C::Params,
    ) -> Result<C::Answer, Error> {
        let link = match mode {
            Mode::Wait => self.link(Mode::Wait).await?,
            Mode::FailFast => match timeout(CLEAN_UP_WAIT, self.link(Mode::Wait)).await {
                Ok(link) => link?,
                Err(_) => self.link(Mode::FailFast).await?,
            },
        };
        self.call_on::<C>(&link, Lane::Cleanup, params).await
    }

    /// A call that may be sent again when its link ends under it: only `process/read` and `process/write` (4, 8.5).
    /// Ends with the session's failure, never with a closed transport.
    pub(crate) async fn insist<C: Call>(
        &self,
        mode: Mode,
        params: &C::Params,
    ) -> Result<C::Answer, Error> {
        loop {
            match self.call::<C>(mode, params).await {
                Err(error)
                    if error.is_transport_closed()
                        && self.failure().is_none()
                        && mode == Mode::Wait => {}
                other => return other,
            }
        }
    }

    /// Callers of a session see a closed link as *disconnected* (4.8), and the session's end as what it was.
    async fn in_session<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let error = match result {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(delivery) = error.delivery() else {
            return Err(error);
        };
        Err(match self.gate().ended() {
            Some(ended) => self.ended(ended, delivery).await,
            None => Error::disconnected("exec-server transport disconnected", delivery),
        })
    }
}

fn recovering() -> Error {
    Error::disconnected("the session is being recovered", Delivery::NotSent)
}
