//! The ways from the links of one session to what outlives them: its process table and its body table.

use std::sync::Arc;

use mainstay_session::ids::Epoch;
use mainstay_wire::envelope::RequestId;
use mainstay_wire::http::BodyDeltaParams;
use mainstay_wire::limits::POLICY_REQUESTS_IN_FLIGHT;
use mainstay_wire::network::{PolicyDecisionParams, PolicyRequestParams};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::inbound::ProcessNotice;
use crate::link::LinkRef;
use crate::telemetry::Served;

/// Events between a Reader and a table (`session.md` 1). A full queue holds the Reader, and so the link, up.
const EVENTS: usize = 128;

/// One thing a link has for the process table.
#[derive(Debug)]
pub(crate) struct FromLink {
    pub(crate) epoch: Epoch,
    pub(crate) event: LinkEvent,
}

/// What it is.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    Process(ProcessNotice),
    Policy(PolicyArrival),
    Audit(PolicyDecisionParams),
}

/// An admitted `network/policyRequest`.
#[derive(Debug)]
pub(crate) struct PolicyArrival {
    pub(crate) id: RequestId,
    pub(crate) params: PolicyRequestParams,
    /// Where the answer goes.
    pub(crate) link: LinkRef,
    pub(crate) served: Served,
    /// Its slot of the session's 256, and its id on the link, given back when this is dropped.
    pub(crate) _slot: InboundSlot,
}

/// Holds a slot and an inbound id until the request is answered or given up.
#[derive(Debug)]
pub(crate) struct InboundSlot {
    pub(crate) id: i64,
    pub(crate) link: LinkRef,
    pub(crate) _permit: OwnedSemaphorePermit,
}

impl Drop for InboundSlot {
    fn drop(&mut self) {
        self.link.inbound_done(self.id);
    }
}

/// One piece of an HTTP body.
#[derive(Debug)]
pub(crate) struct FromBody {
    pub(crate) epoch: Epoch,
    pub(crate) delta: BodyDeltaParams,
}

/// The sending ends, one set per session, for the Readers of all its links.
#[derive(Clone, Debug)]
pub(crate) struct Ports {
    pub(crate) events: mpsc::Sender<FromLink>,
    pub(crate) bodies: mpsc::Sender<FromBody>,
    /// Inbound requests in flight, shared by all links of the session.
    pub(crate) inbound: Arc<Semaphore>,
}

/// The receiving ends, for the tables.
#[derive(Debug)]
pub(crate) struct PortEnds {
    pub(crate) events: mpsc::Receiver<FromLink>,
    pub(crate) bodies: mpsc::Receiver<FromBody>,
}

impl Ports {
    pub(crate) fn new() -> (Self, PortEnds) {
        let (events, events_rx) = mpsc::channel(EVENTS);
        let (bodies, bodies_rx) = mpsc::channel(EVENTS);
        let inbound = Arc::new(Semaphore::new(POLICY_REQUESTS_IN_FLIGHT));
        (
            Self {
                events,
                bodies,
                inbound,
            },
            PortEnds {
                events: events_rx,
                bodies: bodies_rx,
            },
        )
    }
}
