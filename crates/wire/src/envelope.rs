//! The JSON-RPC dialect: JSON-RPC 2.0 without the version member, and strict (`protocol.md` 2).

mod read;
mod write;

use std::borrow::Cow;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Call, Notice, RpcError, text};

pub use read::{Malformed, parse, parse_trusted};
pub use write::{failure, notification, request, success};

/// What an answer to a request that could not be read carries as `id`.
pub const UNREADABLE_ID: RequestId = RequestId::Int(-1);

/// One message. `params` and `result` are borrowed and not yet looked into.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants an answer.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// An answer.
    Success(Success<'a>),
    /// A refusal.
    Failure(Failure),
}

/// A request.
#[derive(Debug)]
pub struct Request<'a> {
    /// Comes back with the answer, as it is.
    pub id: RequestId,
    /// What is asked.
    pub method: Cow<'a, str>,
    /// As sent; `None` when absent.
    pub params: Option<&'a RawValue>,
    /// Where it belongs.
    pub trace: Option<Trace>,
}

/// A notification.
#[derive(Debug)]
pub struct Notification<'a> {
    /// What happened.
    pub method: Cow<'a, str>,
    /// As sent; `None` when absent.
    pub params: Option<&'a RawValue>,
}

/// An answer.
#[derive(Debug)]
pub struct Success<'a> {
    /// The request.
    pub id: RequestId,
    /// As sent.
    pub result: &'a RawValue,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Why.
    pub error: RpcError,
    /// The request; -1 when the executor could not read it.
    pub id: RequestId,
}

/// A request's id: a string or a signed 64-bit integer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
}

impl From<i64> for RequestId {
    fn from(id: i64) -> Self {
        Self::Int(id)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestId::Int(id) => id.fmt(f),
            RequestId::Text(id) => write!(f, "{id:?}"),
        }
    }
}

/// W3C trace context of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "struct W3cTraceContext")]
pub struct Trace {
    /// `traceparent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// `tracestate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl Request<'_> {
    /// The params of method `C`; a wrong shape is the -32602 to answer with.
    pub fn params<C: Call>(&self) -> Result<C::Params, RpcError> {
        decode_params(self.params)
    }
}

impl Notification<'_> {
    /// The params of notification `N`; a wrong shape is -32602, though nobody can be told.
    pub fn params<N: Notice>(&self) -> Result<N::Params, RpcError> {
        decode_params(self.params)
    }
}

impl Success<'_> {
    /// The answer of method `C`, or what is wrong with it.
    pub fn answer<C: Call>(&self) -> Result<C::Answer, serde_json::Error> {
        serde_json::from_str(self.result.get())
    }
}

/// Decodes params; missing ones are `null` (`protocol.md` 2).
pub fn decode_params<P: DeserializeOwned>(params: Option<&RawValue>) -> Result<P, RpcError> {
    let text = params.map_or("null", RawValue::get);
    serde_json::from_str(text).map_err(|error| RpcError::invalid_params(reason::<P>(text, &error)))
}

/// Why `text` is no `P`, in the words of the reference: it decodes from values, whose errors know no position and name
/// what was found where the ones of a text say `expected value`.
fn reason<P: DeserializeOwned>(text: &str, error: &serde_json::Error) -> String {
    let value = serde_json::from_str::<serde_json::Value>(text);
    let by_value = value
        .ok()
        .and_then(|value| serde_json::from_value::<P>(value).err());
    text::detail(by_value.as_ref().unwrap_or(error))
}
