//! One call on one link, from admission to its answer (`session.md` 4 and 15.6). The supervisor takes no part in it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use mainstay_wire::limits::MESSAGE;
use mainstay_wire::{Call, envelope};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::{Instrument, Span};

use crate::error::{Delivery, Error, ErrorKind};
use crate::link::{
    CloseRequest, Delivered, Lane, LinkRef, PendingCall, QueuedCall, Reply, ToReader,
};
use crate::marks::{Ended, Gate, Written};
use crate::telemetry;

/// Calls `C` on `link`. The answer counts only if the generation still stands when it is in hand.
///
/// Dropping the future withdraws the call and frees its slot at once.
pub(crate) async fn call<C: Call>(
    link: &LinkRef,
    gate: &Gate,
    lane: Lane,
    params: &C::Params,
) -> Result<C::Answer, Error> {
    call_in::<C>(telemetry::request(C::METHOD), link, gate, lane, params).await
}

/// [`call`] in a span of the caller's.
pub(crate) async fn call_in<C: Call>(
    span: Span,
    link: &LinkRef,
    gate: &Gate,
    lane: Lane,
    params: &C::Params,
) -> Result<C::Answer, Error> {
    let begun = begin_in::<C>(span, link, gate, lane, params).await?;
    begun.answer().await
}

/// [`call`] with a limit on the whole of it.
pub(crate) async fn timed<C: Call>(
    link: &LinkRef,
    gate: &Gate,
    lane: Lane,
    params: &C::Params,
    limit: Duration,
) -> Result<C::Answer, Error> {
    match tokio::time::timeout(limit, call::<C>(link, gate, lane, params)).await {
        Ok(result) => result,
        Err(_) => Err(ErrorKind::RpcTimeout {
            method: C::METHOD,
            timeout: limit,
        }
        .into()),
    }
}

/// A call that is queued for writing, behind everything that was queued before it.
#[derive(Debug)]
pub(crate) struct Begun<C> {
    span: Span,
    answer: oneshot::Receiver<Delivered>,
    withdrawal: Withdrawal,
    gate: Gate,
    /// Held until the caller has its answer: a forged early one cannot free admission (4.5).
    _slot: OwnedSemaphorePermit,
    method: PhantomData<fn() -> C>,
}

/// The first half of a call: calls that begin one after another are written in that order.
pub(crate) async fn begin<C: Call>(
    link: &LinkRef,
    gate: &Gate,
    lane: Lane,
    params: &C::Params,
) -> Result<Begun<C>, Error> {
    begin_in(telemetry::request(C::METHOD), link, gate, lane, params).await
}

async fn begin_in<C: Call>(
    span: Span,
    link: &LinkRef,
    gate: &Gate,
    lane: Lane,
    params: &C::Params,
) -> Result<Begun<C>, Error> {
    let enqueued = enqueue::<C>(link, gate, lane, params).instrument(span.clone());
    let (answer, withdrawal, slot) = enqueued.await?;
    Ok(Begun {
        span,
        answer,
        withdrawal,
        gate: gate.clone(),
        _slot: slot,
        method: PhantomData,
    })
}

/// Admits the call and queues its message.
async fn enqueue<C: Call>(
    link: &LinkRef,
    gate: &Gate,
    lane: Lane,
    params: &C::Params,
) -> Result<
    (
        oneshot::Receiver<Delivered>,
        Withdrawal,
        OwnedSemaphorePermit,
    ),
    Error,
> {
    telemetry::count_request(C::METHOD);
    if let Some(ended) = gate.ended() {
        return Err(replaced(ended, Delivery::NotSent));
    }
    let slot = admit(link, lane)?;
    if !link.is_open() {
        return Err(closed(Delivery::NotSent));
    }
    let id = link.next_id();
    let trace = link.tracing().current();
    let frame = envelope::request(&id.into(), C::METHOD, params, trace.as_ref());
    if frame.len() > MESSAGE {
        return Err(Error::protocol(format!(
            "{} needs a message of {} bytes, above the limit of {MESSAGE} bytes (64 MiB)",
            C::METHOD,
            frame.len()
        )));
    }
    tokio::select! {
        biased;
        ended = gate.shut() => Err(replaced(ended, Delivery::NotSent)),
        queued = queue(link, gate, lane, id, frame) => {
            let (answer, withdrawal) = queued?;
            telemetry::request_enqueued();
            Ok((answer, withdrawal, slot))
        }
    }
}

/// Registers the call with the Reader, then queues it for the Writer: in this order, so that its answer is never read first.
async fn queue(
    link: &LinkRef,
    gate: &Gate,
    lane: Lane,
    id: i64,
    frame: String,
) -> Result<(oneshot::Receiver<Delivered>, Withdrawal), Error> {
    let room = room(link, frame.len()).await?;
    let written = Written::default();
    let (reply, answer) = oneshot::channel();
    let register = ToReader::Register {
        id,
        call: PendingCall {
            lane,
            written: written.clone(),
            reply: Some(reply),
        },
    };
    if link.reader().send(register).await.is_err() {
        return Err(closed(Delivery::NotSent));
    }
    let withdrawal = Withdrawal {
        link: Some(link.clone()),
        id,
        written: written.clone(),
    };
    let queued = QueuedCall {
        lane,
        frame,
        written,
        gate: gate.clone(),
        _room: room,
    };
    if link.lane(lane).send(queued).await.is_err() {
        return Err(closed(Delivery::NotSent));
    }
    Ok((answer, withdrawal))
}

impl<C: Call> Begun<C> {
    /// The second half: waits for the answer, but not beyond the generation.
    pub(crate) async fn answer(self) -> Result<C::Answer, Error> {
        let span = self.span.clone();
        self.wait().instrument(span).await
    }

    async fn wait(mut self) -> Result<C::Answer, Error> {
        let reply = tokio::select! {
            biased;
            ended = self.gate.shut() => return Err(replaced(ended, self.withdrawal.delivery())),
            reply = &mut self.answer => reply,
        };
        // The answer loses against a retirement that came before it was taken (4.7).
        let ended = self.gate.ended();
        if let Ok(Delivered { reply, read }) = &reply {
            telemetry::response_received(outcome(reply, ended), *read);
        }
        if let Some(ended) = ended {
            return Err(replaced(ended, self.withdrawal.delivery()));
        }
        match reply.map(|delivered| delivered.reply) {
            Ok(Reply::Success(result)) => {
                self.withdrawal.link = None;
                serde_json::from_slice(&result).map_err(|error| {
                    ErrorKind::Json {
                        text: format!("answer of {}: {error}", C::METHOD),
                    }
                    .into()
                })
            }
            Ok(Reply::Failure(error)) => {
                self.withdrawal.link = None;
                Err(error.into())
            }
            Ok(Reply::Closed(delivery)) => {
                self.withdrawal.link = None;
                Err(closed(delivery))
            }
            // The Reader crashed.
            Err(_) => Err(closed(self.withdrawal.delivery())),
        }
    }
}

/// What a reply comes to, for the telemetry.
fn outcome(reply: &Reply, ended: Option<Ended>) -> &'static str {
    match (reply, ended) {
        (Reply::Success(_), None) => "success",
        (Reply::Failure(_), None) => "error",
        (Reply::Closed(_), _) | (_, Some(_)) => "disconnected",
    }
}

/// A slot, or an error at once: nothing queues for admission (`session.md` 4.2, 4.9, W23).
fn admit(link: &LinkRef, lane: Lane) -> Result<OwnedSemaphorePermit, Error> {
    let slot = |of: &Arc<Semaphore>| of.clone().try_acquire_owned();
    match lane {
        Lane::Regular => {
            slot(link.calls()).map_err(|_| Error::protocol("pending request limit reached"))
        }
        Lane::Cleanup => slot(link.calls())
            .or_else(|_| slot(link.cleanup_calls()))
            .map_err(|_| {
                link.close(CloseRequest::Exhausted);
                closed(Delivery::NotSent)
            }),
        Lane::Probe => slot(link.probe_calls())
            .or_else(|_| slot(link.calls()))
            .map_err(|_| Error::protocol("pending request limit reached")),
    }
}

/// Room for the frame in the Writer's queue.
async fn room(link: &LinkRef, bytes: usize) -> Result<OwnedSemaphorePermit, Error> {
    // At most MESSAGE bytes, so this fits in u32 and in the semaphore.
    let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
    link.room()
        .clone()
        .acquire_many_owned(kib)
        .await
        .map_err(|_| closed(Delivery::NotSent))
}

pub(crate) fn closed(delivery: Delivery) -> Error {
    ErrorKind::Closed { delivery }.into()
}

/// The error of everything that belongs to an ended generation.
pub(crate) fn replaced(ended: Ended, delivery: Delivery) -> Error {
    let text = match ended {
        Ended::Replaced => "the executor was replaced",
        Ended::SupervisorGone => "the environment's supervisor has ended",
    };
    Error::disconnected(text, delivery)
}

/// Takes a call back when its caller goes away before the answer.
#[derive(Debug)]
struct Withdrawal {
    /// `None`: the answer came.
    link: Option<LinkRef>,
    id: i64,
    written: Written,
}

impl Withdrawal {
    /// What became of a call whose answer will not be waited for.
    fn delivery(&self) -> Delivery {
        if self.written.withdraw() || !self.written.is_set() {
            Delivery::NotSent
        } else {
            Delivery::Unknown
        }
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if let Some(link) = &self.link {
            self.written.withdraw();
            // If the Reader's inbox is full it forgets the call when it next looks at its reply port.
            let _ = link.reader().try_send(ToReader::Forget { id: self.id });
        }
    }
}
