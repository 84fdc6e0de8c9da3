//! HTTP from the executor's place: `http/request` and its body stream (`protocol.md` 10).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base64::Base64;
use crate::call::{call, notice};

call!(
    /// One HTTP exchange, its body in the answer or as a stream after it.
    HttpRequest, "http/request", Http, HttpRequestParams => HttpAnswer
);
notice!(
    /// A piece of a streamed body.
    BodyDelta, "http/request/bodyDelta", BodyDeltaParams
);

/// Params of `http/request`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequestParams {
    /// `GET`, `POST`, …
    pub method: String,
    /// Absolute, http or https.
    pub url: String,
    /// Sent in this order, repeats kept.
    #[serde(
        default,
        deserialize_with = "crate::nullable::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub headers: Vec<HttpRequestHeader>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<Base64>,
    /// For the whole exchange, body included, in ms; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What to do with a redirect.
    #[serde(
        default,
        deserialize_with = "crate::nullable::or_default",
        skip_serializing_if = "RedirectPolicy::is_follow"
    )]
    pub redirect_policy: RedirectPolicy,
    /// Names the body stream; required even without one.
    pub request_id: String,
    /// Whether the body comes as a stream.
    #[serde(
        default,
        deserialize_with = "crate::nullable::or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub stream_response: bool,
}

/// A header to send. Its value stays out of `Debug`: it may be a credential.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequestHeader {
    /// Name.
    pub name: String,
    /// Value, or what stands before the variable.
    pub value: String,
    /// A variable of the executor whose content is appended to `value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_env_var: Option<String>,
}

impl fmt::Debug for HttpRequestHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequestHeader")
            .field("name", &self.name)
            .field("value_env_var", &self.value_env_var)
            .finish_non_exhaustive()
    }
}

/// What to do with a redirect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RedirectPolicy {
    /// Go there.
    #[default]
    Follow,
    /// Answer with it.
    Stop,
}

impl RedirectPolicy {
    fn is_follow(&self) -> bool {
        *self == Self::Follow
    }
}

/// Answer to `http/request`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpAnswer {
    /// HTTP status, errors included.
    pub status: u16,
    /// In their order, repeats kept.
    pub headers: Vec<HttpHeader>,
    /// The body; empty when it comes as a stream.
    pub body_base64: Base64,
}

/// A received header. Its value stays out of `Debug`: it may be a credential.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpHeader {
    /// Lower case.
    pub name: String,
    /// Text.
    pub value: String,
}

impl fmt::Debug for HttpHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpHeader")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Params of `http/request/bodyDelta`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BodyDeltaParams {
    /// Which stream.
    pub request_id: String,
    /// 1, 2, 3, …
    pub seq: u64,
    /// The bytes, at most 1 MiB.
    pub delta_base64: Base64,
    /// Whether it is the last one.
    #[serde(default)]
    pub done: bool,
    /// Why the body broke.
    #[serde(default)]
    pub error: Option<String>,
}
