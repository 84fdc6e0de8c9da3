//! Which requests of an executor are taken (10.1, 10.2).

use mainstay_wire::Call;
use mainstay_wire::envelope::RequestId;
use mainstay_wire::network::PolicyRequest;

use crate::event::Fault;

/// What becomes of an inbound request, before its params are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// It gets a slot; its id is in flight until the answer is sent or the slot freed.
    Take,
    /// Answer deny "not_allowed" at once, without asking the decider.
    Deny,
    /// Answer -32601, naming the method; the link goes on.
    UnknownMethod,
    /// The link is closed and recovered.
    Fault(Fault),
}

/// Decides about an inbound request. `in_flight`: whether its id is, on this link; `free`: slots left, over the session's links.
#[must_use]
pub fn admit_inbound(method: &str, id: &RequestId, in_flight: bool, free: usize) -> Admission {
    if method != PolicyRequest::METHOD {
        return Admission::UnknownMethod;
    }
    match id {
        RequestId::Int(0..) if in_flight => Admission::Fault(Fault::DuplicateId),
        RequestId::Int(0..) if free == 0 => Admission::Deny,
        RequestId::Int(0..) => Admission::Take,
        RequestId::Int(_) | RequestId::Text(_) => Admission::Fault(Fault::BadId),
    }
}
