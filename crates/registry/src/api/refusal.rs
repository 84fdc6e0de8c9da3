//! Every answer that is a refusal, with its status, code and text.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use mainstay_wire::registry::{CODE_CONFLICT, CODE_OFFLINE, CODE_SUPERSEDED, ErrorBody};

use crate::{store::StoreError, tokens::Role};

/// A refused request.
#[derive(Debug)]
pub(crate) enum Refusal {
    NoToken,
    UnknownToken,
    Forbidden(Role),
    NoEnvironment,
    NotFound,
    Method,
    TooLarge,
    Body(String),
    Profile,
    Key(&'static str),
    Offline,
    Superseded,
    TooMany,
    Draining,
    Store(StoreError),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code, message) = self.describe();
        let mut response = (status, Json(ErrorBody::new(code, message))).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            let bearer = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, bearer);
        }
        if matches!(
            status,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
        ) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

impl Refusal {
    fn describe(self) -> (StatusCode, &'static str, String) {
        use StatusCode as S;
        let (status, code, message) = match self {
            Self::NoToken => (S::UNAUTHORIZED, "unauthorized", "bearer token required"),
            Self::UnknownToken => (S::UNAUTHORIZED, "unauthorized", "unknown bearer token"),
            Self::Forbidden(Role::Executor) => (
                S::FORBIDDEN,
                "forbidden",
                "not an executor token of this environment",
            ),
            Self::Forbidden(Role::Harness) => (
                S::FORBIDDEN,
                "forbidden",
                "not a harness token of this environment",
            ),
            Self::NoEnvironment => (S::NOT_FOUND, "environment_not_found", "no such environment"),
            Self::NotFound => (S::NOT_FOUND, "not_found", "no such path"),
            Self::Method => (
                S::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "method not allowed",
            ),
            Self::TooLarge => (
                S::PAYLOAD_TOO_LARGE,
                "payload_too_large",
                "body is too large",
            ),
            Self::Body(message) => return (S::BAD_REQUEST, "invalid_request", message),
            Self::Profile => (
                S::BAD_REQUEST,
                "unsupported_security_profile",
                "security profile and key suite must be one of those known, and belong together",
            ),
            Self::Key(message) => (S::BAD_REQUEST, "invalid_public_key", message),
            Self::Offline => (S::CONFLICT, CODE_OFFLINE, "no executor is connected"),
            Self::Superseded => (
                S::CONFLICT,
                CODE_SUPERSEDED,
                "a newer executor has taken this environment over",
            ),
            Self::TooMany => (
                S::TOO_MANY_REQUESTS,
                "too_many_requests",
                "too many requests",
            ),
            Self::Draining => (
                S::SERVICE_UNAVAILABLE,
                "draining",
                "registry is shutting down",
            ),
            Self::Store(StoreError::Conflict) => (
                S::SERVICE_UNAVAILABLE,
                CODE_CONFLICT,
                "another registration is in progress",
            ),
            Self::Store(StoreError::Unavailable(detail)) => {
                // The detail is ours, not the caller's.
                tracing::warn!(detail, "store unavailable");
                (
                    S::SERVICE_UNAVAILABLE,
                    "unavailable",
                    "registry is not available",
                )
            }
        };
        (status, code, message.to_owned())
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
