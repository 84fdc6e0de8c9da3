//! Reader: the receiving half of a link. Owns the pending calls, the inbound ids and the *closed* mark.
//!
//! A [worker](crate::worker), spawned by Handshake: a loop over its bounded inbox and the socket. Answers go to the
//! callers, process and body events to the session's tables, everything that ends the link to the supervisor, as its
//! last message.
//!
//! | inbox | from | meaning |
//! |---|---|---|
//! | `Register`, `Forget` | callers | a call is about to be queued for writing; its caller went away |
//! | `InboundDone` | Policy | an inbound request was answered, or will never be |

mod pending;

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use mainstay_link::{LinkError, Source};
use mainstay_session::admit::{Admission, admit_inbound};
use mainstay_wire::RpcError;
use mainstay_wire::envelope::{self, RequestId};
use mainstay_wire::http::BodyDeltaParams;
use mainstay_wire::network::{Decision, PolicyAnswer, PolicyRequestParams};
use ractor::ActorRef;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use crate::error::{Delivery, Error};
use crate::inbound::{self, Bad, Inbound};
use crate::link::{CloseRequest, LinkRef, ReaderEnds, ToReader, close_requested};
use crate::ports::{FromBody, FromLink, InboundSlot, LinkEvent, PolicyArrival, Ports};
use crate::supervisor;
use crate::telemetry::Served;
use crate::worker::Work;
use crate::writer::WireSlots;
use pending::Pending;

/// See the module. Its parts are dropped in the order of `close`, or all at once when it crashes or is killed.
#[derive(Debug)]
pub(crate) struct Reader {
    source: Source,
    ends: ReaderEnds,
    mark: ClosedOnDrop,
    desk: Desk,
    supervisor: ActorRef<supervisor::Msg>,
}

impl Reader {
    pub(crate) fn new(
        source: Source,
        ends: ReaderEnds,
        link: LinkRef,
        slots: WireSlots,
        ports: Ports,
        supervisor: ActorRef<supervisor::Msg>,
    ) -> Self {
        Self {
            source,
            ends,
            mark: ClosedOnDrop(link.clone()),
            desk: Desk {
                link,
                ports,
                pending: Pending::new(slots),
                inbound: HashSet::new(),
            },
            supervisor,
        }
    }
}

/// Sets *closed* and stops the Writer, however the Reader ends: after its loop, by panic, by kill.
#[derive(Debug)]
struct ClosedOnDrop(LinkRef);

impl Drop for ClosedOnDrop {
    fn drop(&mut self) {
        self.0.closed().set();
        self.0.close(CloseRequest::Ended);
    }
}

/// Why the loop ended.
#[derive(Debug)]
enum End {
    Eof {
        restart: Option<Duration>,
    },
    Lost(LinkError),
    Asked(CloseRequest),
    Bad(Bad),
    /// An answer of ours could not be queued (T3).
    Mute,
}

impl Work for Reader {
    async fn run(mut self) {
        let end = self.serve().await;
        let Self {
            source,
            mut ends,
            mark,
            desk,
            supervisor,
        } = self;
        let epoch = desk.link.epoch();
        // The order matters: closed, then drained, then reported (`session.md` 15.6).
        drop(mark);
        drop(source);
        desk.drain(&mut ends.inbox).await;
        let message = match end {
            End::Bad(Bad::Fault(fault, text)) => supervisor::Msg::LinkFault {
                epoch,
                fault,
                error: Error::protocol(text),
            },
            End::Bad(Bad::Malformed(text)) => down(epoch, Error::protocol(text), None),
            End::Eof { restart } => down(epoch, lost("connection closed by the peer"), restart),
            End::Lost(error) => down(epoch, lost(error), None),
            End::Asked(CloseRequest::WriteFailed(text)) => down(epoch, lost(text), None),
            End::Asked(CloseRequest::Exhausted) => {
                down(epoch, lost("no slot was left for a clean-up call"), None)
            }
            End::Asked(CloseRequest::Ended | CloseRequest::Unneeded) => {
                down(epoch, lost("closed"), None)
            }
            End::Mute => down(epoch, lost("an answer could not be sent"), None),
        };
        // If the supervisor is gone, nobody needs to know.
        let _ = supervisor.send_message(message);
    }
}

impl Reader {
    async fn serve(&mut self) -> End {
        let Self {
            source, ends, desk, ..
        } = self;
        loop {
            let frame = tokio::select! {
                biased;
                asked = close_requested(&mut ends.close) => return End::Asked(asked),
                message = ends.inbox.recv() => match message {
                    Some(message) => {
                        desk.take(message);
                        continue;
                    }
                    None => return End::Asked(CloseRequest::Unneeded),
                },
                frame = source.recv() => frame,
            };
            let frame = match frame {
                Ok(Some(frame)) => frame,
                Ok(None) => {
                    return End::Eof {
                        restart: source.closed().and_then(|close| close.restart_window()),
                    };
                }
                Err(error) => return End::Lost(error),
            };
            // A call may have been registered and answered since the inbox was looked at.
            while let Ok(message) = ends.inbox.try_recv() {
                desk.take(message);
            }
            let onward = match desk.handle(&frame) {
                Ok(Some(onward)) => onward,
                Ok(None) => continue,
                Err(end) => return end,
            };
            tokio::select! {
                biased;
                sent = desk.send(onward) => if let Err(end) = sent {
                    return end;
                },
                // A table that is full must not keep the link from being closed.
                asked = close_requested(&mut ends.close) => return End::Asked(asked),
            }
        }
    }
}

/// What a frame makes the Reader send.
#[derive(Debug)]
enum Onward {
    Event(LinkEvent),
    Body(BodyDeltaParams),
    Say(String, Served),
}

/// What the Reader keeps about messages under way.
#[derive(Debug)]
struct Desk {
    link: LinkRef,
    ports: Ports,
    /// Calls of ours.
    pending: Pending,
    /// Ids of the peer's requests that are not answered yet.
    inbound: HashSet<i64>,
}

impl Desk {
    fn take(&mut self, message: ToReader) {
        match message {
            ToReader::Register { id, call } => self.pending.register(id, call),
            ToReader::Forget { id } => self.pending.forget(id),
            ToReader::InboundDone { id } => {
                self.inbound.remove(&id);
            }
        }
    }

    /// Does what a frame asks for; what has to be sent on may have to wait for room.
    fn handle(&mut self, frame: &Bytes) -> Result<Option<Onward>, End> {
        Ok(match inbound::read(frame).map_err(End::Bad)? {
            Inbound::Answer { id, reply } => {
                self.pending.answer(id, reply);
                None
            }
            Inbound::Process(notice) => Some(Onward::Event(LinkEvent::Process(notice))),
            Inbound::Audit(record) => Some(Onward::Event(LinkEvent::Audit(record))),
            Inbound::Body(delta) => Some(Onward::Body(delta)),
            Inbound::MissingChanged(id) => {
                self.link.watch_fired(id);
                None
            }
            Inbound::Nothing => None,
            Inbound::Request { id, method, params } => Some(self.request(id, &method, params)?),
        })
    }

    async fn send(&self, onward: Onward) -> Result<(), End> {
        let epoch = self.link.epoch();
        match onward {
            // The tables live as long as the session; without them it has failed, and nobody misses these.
            Onward::Event(event) => {
                let _ = self.ports.events.send(FromLink { epoch, event }).await;
            }
            Onward::Body(delta) => {
                let _ = self.ports.bodies.send(FromBody { epoch, delta }).await;
            }
            Onward::Say(message, served) => {
                if self.link.control().send(message).await.is_err() {
                    served.unanswered();
                    return Err(End::Mute);
                }
            }
        }
        Ok(())
    }

    /// An inbound request: admission (`session.md` 10.2), then the table decides who decides.
    fn request(
        &mut self,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Onward, End> {
        let served = Served::begin(method);
        let number = match &id {
            RequestId::Int(number) => *number,
            RequestId::Text(_) => -1,
        };
        let in_flight = self.inbound.contains(&number);
        match admit_inbound(
            method,
            &id,
            in_flight,
            self.ports.inbound.available_permits(),
        ) {
            Admission::Take => {}
            Admission::Deny => return Ok(denied(&id, served)),
            Admission::UnknownMethod => {
                let error = RpcError::client_method_not_found(method);
                return Ok(refused(&id, &error, served));
            }
            Admission::Fault(fault) => {
                return Err(End::Bad(Bad::Fault(
                    fault,
                    format!("inbound request id {id}"),
                )));
            }
        }
        // The permits are shared with the session's other link, if one is being left.
        let Ok(permit) = self.ports.inbound.clone().try_acquire_owned() else {
            return Ok(denied(&id, served));
        };
        let Ok(params) = envelope::decode_params::<PolicyRequestParams>(params) else {
            let error = RpcError::invalid_params("invalid network policy request params");
            return Ok(refused(&id, &error, served));
        };
        self.inbound.insert(number);
        let slot = InboundSlot {
            id: number,
            link: self.link.clone(),
            _permit: permit,
        };
        Ok(Onward::Event(LinkEvent::Policy(PolicyArrival {
            id,
            params,
            link: self.link.clone(),
            served,
            _slot: slot,
        })))
    }

    /// Ends every pending call. The link is marked closed already, so none is written from here on.
    async fn drain(mut self, inbox: &mut mpsc::Receiver<ToReader>) {
        inbox.close();
        while let Some(message) = inbox.recv().await {
            self.take(message);
        }
        self.pending.close();
    }
}

fn denied(id: &RequestId, mut served: Served) -> Onward {
    served.success();
    let decision = Decision::not_allowed();
    Onward::Say(envelope::success(id, &PolicyAnswer { decision }), served)
}

fn refused(id: &RequestId, error: &RpcError, mut served: Served) -> Onward {
    served.error();
    Onward::Say(envelope::failure(id, error), served)
}

fn lost(why: impl std::fmt::Display) -> Error {
    Error::disconnected(
        format!("exec-server transport disconnected: {why}"),
        Delivery::NotSent,
    )
}

fn down(
    epoch: mainstay_session::ids::Epoch,
    error: Error,
    restart: Option<Duration>,
) -> supervisor::Msg {
    supervisor::Msg::LinkDown {
        epoch,
        error,
        restart,
    }
}
