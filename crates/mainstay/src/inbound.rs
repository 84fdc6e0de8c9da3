//! One received frame, read and judged: what a Reader has to do about it. No state, no IO.

use std::borrow::Cow;

use bytes::Bytes;
use mainstay_session::event::Fault;
use mainstay_session::sequence::Fact;
use mainstay_wire::Notice;
use mainstay_wire::envelope::{self, Message, Notification, RequestId};
use mainstay_wire::fs::MissingChanged;
use mainstay_wire::http::{BodyDelta, BodyDeltaParams};
use mainstay_wire::limits::{
    CLIENT_INBOUND_BULK_NOTICE, CLIENT_INBOUND_OTHER, CLIENT_INBOUND_REQUEST, HTTP_DELTA,
};
use mainstay_wire::network::{PolicyDecision, PolicyDecisionParams};
use mainstay_wire::process;
use serde_json::value::RawValue;

use crate::link::Reply;

/// One event of a process, as the executor numbered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessNotice {
    pub(crate) process_id: Box<str>,
    pub(crate) seq: u64,
    pub(crate) fact: Fact,
}

/// What one frame asks of the Reader.
#[derive(Debug)]
pub(crate) enum Inbound<'a> {
    Answer {
        id: i64,
        reply: Reply,
    },
    Process(ProcessNotice),
    Body(BodyDeltaParams),
    Audit(PolicyDecisionParams),
    /// The watch of this id has fired.
    MissingChanged(u64),
    Request {
        id: RequestId,
        method: Cow<'a, str>,
        params: Option<&'a RawValue>,
    },
    /// An unknown notification, or an answer to an id that is none of ours.
    Nothing,
}

/// Why a frame ends the link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// It is no message, or one that is too long.
    Malformed(String),
    /// The session machine has its own word for it.
    Fault(Fault, String),
}

/// Reads one frame. Lengths are judged by what the frame turns out to be (`session.md` 1).
pub(crate) fn read(frame: &Bytes) -> Result<Inbound<'_>, Bad> {
    if frame.len() <= CLIENT_INBOUND_BULK_NOTICE
        && let Some(output) = process::parse_output(frame)
    {
        let bytes = output
            .decode()
            .map_err(|error| bad_notice(process::Output::METHOD, &error))?;
        return Ok(Inbound::Process(ProcessNotice {
            process_id: output.process_id.into(),
            seq: output.seq,
            fact: Fact::Output {
                stream: output.stream,
                data: bytes.into(),
            },
        }));
    }
    let message = envelope::parse_trusted(frame)
        .map_err(|error| Bad::Malformed(format!("malformed message: {error}")))?;
    match message {
        Message::Success(answer) => Ok(match answer.id {
            RequestId::Int(id) => Inbound::Answer {
                id,
                reply: Reply::Success(frame.slice_ref(answer.result.get().as_bytes())),
            },
            RequestId::Text(_) => Inbound::Nothing,
        }),
        Message::Failure(failure) => Ok(match failure.id {
            RequestId::Int(id) => Inbound::Answer {
                id,
                reply: Reply::Failure(failure.error),
            },
            RequestId::Text(_) => Inbound::Nothing,
        }),
        Message::Request(request) => {
            at_most(frame, CLIENT_INBOUND_REQUEST, "request")?;
            Ok(Inbound::Request {
                id: request.id,
                method: request.method,
                params: request.params,
            })
        }
        Message::Notification(notification) => notice(frame, &notification),
    }
}

fn notice<'a>(frame: &Bytes, notification: &Notification<'_>) -> Result<Inbound<'a>, Bad> {
    match &*notification.method {
        process::Output::METHOD => {
            let params = bulk::<process::Output>(frame, notification)?;
            Ok(Inbound::Process(ProcessNotice {
                process_id: params.process_id.into(),
                seq: params.seq,
                fact: Fact::Output {
                    stream: params.stream,
                    data: params.chunk.0,
                },
            }))
        }
        process::Exited::METHOD => {
            let params = bulk::<process::Exited>(frame, notification)?;
            Ok(Inbound::Process(ProcessNotice {
                process_id: params.process_id.into(),
                seq: params.seq,
                fact: Fact::Exited {
                    code: params.exit_code,
                    sandbox_denied: Some(params.sandbox_denied),
                },
            }))
        }
        process::Closed::METHOD => {
            let params = bulk::<process::Closed>(frame, notification)?;
            Ok(Inbound::Process(ProcessNotice {
                process_id: params.process_id.into(),
                seq: params.seq,
                fact: Fact::Closed,
            }))
        }
        BodyDelta::METHOD => {
            let delta = bulk::<BodyDelta>(frame, notification)?;
            if delta.delta_base64.len() > HTTP_DELTA {
                return Err(bad_notice(
                    BodyDelta::METHOD,
                    &format_args!("a delta above {HTTP_DELTA} bytes"),
                ));
            }
            Ok(Inbound::Body(delta))
        }
        PolicyDecision::METHOD => {
            at_most(frame, CLIENT_INBOUND_OTHER, "notification")?;
            // An audit record is dropped, never refused (10.9).
            Ok(notification
                .params::<PolicyDecision>()
                .map_or(Inbound::Nothing, Inbound::Audit))
        }
        MissingChanged::METHOD => {
            at_most(frame, CLIENT_INBOUND_OTHER, "notification")?;
            // A hint is dropped, never refused.
            Ok(notification
                .params::<MissingChanged>()
                .map_or(Inbound::Nothing, |fired| {
                    Inbound::MissingChanged(fired.watch_id)
                }))
        }
        _ => {
            at_most(frame, CLIENT_INBOUND_OTHER, "notification")?;
            Ok(Inbound::Nothing)
        }
    }
}

fn bulk<N: Notice>(frame: &Bytes, notification: &Notification<'_>) -> Result<N::Params, Bad> {
    at_most(frame, CLIENT_INBOUND_BULK_NOTICE, N::METHOD)?;
    params::<N>(notification)
}

fn params<N: Notice>(notification: &Notification<'_>) -> Result<N::Params, Bad> {
    notification
        .params::<N>()
        .map_err(|error| bad_notice(N::METHOD, &error))
}

fn bad_notice(method: &str, error: &dyn std::fmt::Display) -> Bad {
    Bad::Fault(
        Fault::BadNotification,
        format!("bad {method} notification: {error}"),
    )
}

fn at_most(frame: &Bytes, limit: usize, what: &str) -> Result<(), Bad> {
    if frame.len() > limit {
        Err(Bad::Malformed(format!(
            "{what} of {} bytes is above the limit of {limit} bytes",
            frame.len()
        )))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(head: &str, tail: &str, len: usize) -> Bytes {
        let mut frame = String::from(head);
        frame.push_str(&"x".repeat(len - head.len() - tail.len()));
        frame.push_str(tail);
        Bytes::from(frame)
    }

    #[test]
    fn a28_requests_and_notifications_are_bounded_and_answers_are_not() {
        let request = |len| {
            padded(
                r#"{"id":1,"method":"network/policyRequest","params":""#,
                r#""}"#,
                len,
            )
        };
        assert!(matches!(
            read(&request(CLIENT_INBOUND_REQUEST)),
            Ok(Inbound::Request { .. })
        ));
        assert!(matches!(
            read(&request(CLIENT_INBOUND_REQUEST + 1)),
            Err(Bad::Malformed(_))
        ));

        let hidden = padded(
            r#"{"id":1,"params":""#,
            r#"","method":"network/policyRequest"}"#,
            CLIENT_INBOUND_REQUEST + 1,
        );
        assert!(matches!(read(&hidden), Err(Bad::Malformed(_))));

        let other = |len| padded(r#"{"method":"some/thing","params":""#, r#""}"#, len);
        assert!(matches!(
            read(&other(CLIENT_INBOUND_OTHER)),
            Ok(Inbound::Nothing)
        ));
        assert!(matches!(
            read(&other(CLIENT_INBOUND_OTHER + 1)),
            Err(Bad::Malformed(_))
        ));

        let answer = padded(r#"{"id":1,"result":""#, r#""}"#, 3 << 20);
        assert!(matches!(
            read(&answer),
            Ok(Inbound::Answer {
                id: 1,
                reply: Reply::Success(_)
            })
        ));
    }

    #[test]
    fn a28_output_is_bounded_by_its_own_limit() {
        let mut frame = String::new();
        process::write_output(
            &mut frame,
            "p",
            1,
            process::Stream::Stdout,
            &vec![7; 1 << 20],
        );
        assert!(matches!(read(&Bytes::from(frame)), Ok(Inbound::Process(_))));
        let mut frame = String::new();
        process::write_output(
            &mut frame,
            "p",
            1,
            process::Stream::Stdout,
            &vec![7; 2 << 20],
        );
        assert!(matches!(read(&Bytes::from(frame)), Err(Bad::Malformed(_))));
    }

    #[test]
    fn output_with_bad_base64_is_a_fault_of_the_link() {
        let frame = Bytes::from_static(
            br#"{"method":"process/output","params":{"processId":"p","seq":1,"stream":"stdout","chunk":"?"}}"#,
        );
        assert!(matches!(
            read(&frame),
            Err(Bad::Fault(Fault::BadNotification, _))
        ));
    }
}
