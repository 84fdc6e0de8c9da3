//! `validate`: an executor asks whether a harness may come in.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::HeaderMap,
    response::Response,
};
use mainstay_wire::registry::{ValidateAnswer, ValidateRequest};

use super::{Refusal, Shared, json, read_body, register::check};
use crate::{authorization, clock::unix_now, tokens::Role};

pub(super) async fn validate(
    State(shared): State<Arc<Shared>>,
    Path(environment): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let environment = shared.authorize(&headers, &environment, Role::Executor)?;
    let request: ValidateRequest = read_body(body)?;
    check(&request.harness_public_key)?;
    // A replaced registration gets no new streams.
    let is_current = shared
        .store
        .current(&environment)
        .await?
        .is_some_and(|current| current.registration == request.executor_registration_id);
    let valid = is_current
        && authorization::verify(
            &*shared.signer,
            &environment,
            &request.executor_registration_id,
            &request.harness_public_key,
            &request.harness_key_authorization,
            unix_now(),
        );
    Ok(json(&ValidateAnswer { valid }))
}
