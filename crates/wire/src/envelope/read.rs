//! Bytes to messages.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Failure, Message, Notification, Request, RequestId, Success, Trace};
use crate::scan::{self, Excess};
use crate::{RpcError, text};

/// Why bytes are no message. Answered with id -1 and tolerated; only the texts' beginning is contract.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not UTF-8.
    #[error("invalid unicode code point at byte {0}")]
    NotUtf8(usize),
    /// JSON, but not an object.
    #[error("expected a JSON-RPC object")]
    NotAnObject,
    /// A key twice, too many values, too deep.
    #[error(transparent)]
    Excess(#[from] Excess),
    /// Not JSON, or not one of the four kinds.
    #[error("{0}")]
    Shape(String),
}

impl Malformed {
    /// The error to answer with on a WebSocket; `peer` is its address.
    pub fn on_websocket(&self, peer: impl std::fmt::Display) -> RpcError {
        RpcError::invalid_request(format_args!(
            "failed to parse websocket JSON-RPC message from exec-server websocket {peer}: {self}"
        ))
    }

    /// The error to answer with over stdio.
    pub fn on_stdio(&self) -> RpcError {
        RpcError::invalid_request(format_args!(
            "failed to parse JSON-RPC message from exec-server stdio: {self}"
        ))
    }
}

/// Reads one message with all the strictness of the contract: what strangers send.
pub fn parse(bytes: &[u8]) -> Result<Message<'_>, Malformed> {
    let text = utf8(bytes)?;
    scan::scan(text)?;
    read(text)
}

/// Reads one message without counting values, nesting and repeated keys below the envelope: for the client, whose
/// executor is authenticated and sends much.
pub fn parse_trusted(bytes: &[u8]) -> Result<Message<'_>, Malformed> {
    read(utf8(bytes)?)
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|error| Malformed::NotUtf8(error.valid_up_to()))
}

/// The envelope's members, whichever are there.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    trace: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Tells `null` from absence.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn read(text: &str) -> Result<Message<'_>, Malformed> {
    // A struct would also be read from an array.
    if !text
        .trim_start_matches([' ', '\t', '\r', '\n'])
        .starts_with('{')
    {
        return Err(match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => Malformed::NotAnObject,
            Err(error) => Malformed::Shape(text::shorten(&error.to_string()).into_owned()),
        });
    }
    let fields: Fields<'_> = serde_json::from_str(text)
        .map_err(|error| Malformed::Shape(text::shorten(&error.to_string()).into_owned()))?;
    match fields {
        Fields {
            method: Some(method),
            id: Some(id),
            params,
            trace,
            ..
        } => Ok(Message::Request(Request {
            id: id_of(id)?,
            method: member::<Name<'_>>(method)?.0,
            params,
            trace: trace.map(member::<Option<Trace>>).transpose()?.flatten(),
        })),
        // A notification's trace is an addition of newer peers: not worth losing the notification for.
        Fields {
            method: Some(method),
            id: None,
            params,
            ..
        } => Ok(Message::Notification(Notification {
            method: member::<Name<'_>>(method)?.0,
            params,
        })),
        Fields {
            method: None,
            result: Some(result),
            id,
            ..
        } => Ok(Message::Success(Success {
            id: id_of(id.ok_or_else(|| missing("id"))?)?,
            result,
        })),
        Fields {
            method: None,
            result: None,
            error,
            id,
            ..
        } => {
            let error: RpcError = member(error.ok_or_else(|| missing("error"))?)?;
            Ok(Message::Failure(Failure {
                error,
                id: id_of(id.ok_or_else(|| missing("id"))?)?,
            }))
        }
    }
}

fn member<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, Malformed> {
    serde_json::from_str(raw.get()).map_err(|error| Malformed::Shape(text::detail(&error)))
}

fn id_of(raw: &RawValue) -> Result<RequestId, Malformed> {
    // `-0` is 0 here, as it is to the reference; serde_json makes a float of it.
    raw.get()
        .parse()
        .map(RequestId::Int)
        .or_else(|_| member(raw))
}

fn missing(field: &str) -> Malformed {
    Malformed::Shape(format!("missing field `{field}`"))
}

/// A method's name. `Cow` alone would always copy.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
