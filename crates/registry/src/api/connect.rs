//! `connect`: a harness looks its executor up.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::HeaderMap,
    response::Response,
};
use mainstay_wire::registry::{ConnectAnswer, ConnectRequest, PublicKey};

use super::{Refusal, Shared, json, read_body, register::check};
use crate::{address::Visitor, authorization, clock::unix_now, store::Offer, tokens::Role};

pub(super) async fn connect(
    State(shared): State<Arc<Shared>>,
    Path(environment): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let environment = shared.authorize(&headers, &environment, Role::Harness)?;
    let request: ConnectRequest = read_body(body)?;
    let harness_key = request.harness_public_key;
    check(&harness_key)?;
    let current = shared
        .store
        .current(&environment)
        .await?
        .filter(|current| current.online)
        .ok_or(Refusal::Offline)?;
    let (security_profile, executor_public_key) = matching(current.offer, &harness_key.suite)?;
    let expires = unix_now() + shared.limits.authorization_lifetime.as_secs();
    let harness_key_authorization = authorization::sign(
        &*shared.signer,
        &environment,
        &current.registration,
        &harness_key,
        expires,
    );
    let visitor = Visitor {
        role: Role::Harness,
        environment,
        registration: current.registration,
        expires: Some(expires),
    };
    Ok(json(&ConnectAnswer {
        environment_id: visitor.environment.to_string(),
        url: visitor.url(&shared.websocket_base, &*shared.signer),
        security_profile,
        executor_registration_id: visitor.registration,
        executor_public_key,
        harness_key_authorization,
    }))
}

/// The executor's key of the harness's suite. A harness of another suite is told so: nothing ever falls back.
fn matching(offer: Offer, suite: &str) -> Result<(String, PublicKey), Refusal> {
    let key = std::iter::once(offer.key)
        .chain(offer.further_keys)
        .find(|key| key.suite == suite)
        .ok_or(Refusal::Profile)?;
    let profile = key.profile().ok_or(Refusal::Profile)?;
    Ok((profile.to_owned(), key))
}
