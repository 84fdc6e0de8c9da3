//! `register`: an executor takes the environment over.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::HeaderMap,
    response::Response,
};
use mainstay_wire::registry::{PublicKey, RegisterAnswer, RegisterRequest};

use super::{Refusal, Shared, json, read_body};
use crate::{
    address::Visitor,
    store::{Offer, Outcome},
    tokens::Role,
};

pub(super) async fn register(
    State(shared): State<Arc<Shared>>,
    Path(environment): Path<String>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refusal> {
    let environment = shared.authorize(&headers, &environment, Role::Executor)?;
    let offer = offer(read_body(body)?)?;
    let security_profile = offer.security_profile.clone();
    let registration = match shared.store.register(&environment, offer).await? {
        Outcome::Current {
            registration,
            replaced,
        } => {
            if let Some(replaced) = replaced {
                tracing::info!(%environment, replaced, registration, "registration replaced");
                shared.router.retire(&environment, &replaced);
            }
            registration
        }
        Outcome::Superseded => return Err(Refusal::Superseded),
    };
    tracing::info!(%environment, registration, security_profile, "executor registered");
    let visitor = Visitor {
        role: Role::Executor,
        environment,
        registration,
        expires: None,
    };
    Ok(json(&RegisterAnswer {
        environment_id: visitor.environment.to_string(),
        url: visitor.url(&shared.websocket_base, &*shared.signer),
        security_profile,
        executor_registration_id: visitor.registration,
    }))
}

fn offer(request: RegisterRequest) -> Result<Offer, Refusal> {
    let RegisterRequest {
        security_profile,
        executor_public_key: key,
        mainstay_further_keys: further_keys,
    } = request;
    check(&key)?;
    if key.profile() != Some(&security_profile) {
        return Err(Refusal::Profile);
    }
    let mut suites = vec![&key.suite];
    for key in &further_keys {
        check(key)?;
        if suites.contains(&&key.suite) {
            return Err(Refusal::Key("two keys of one suite"));
        }
        suites.push(&key.suite);
    }
    Ok(Offer {
        security_profile,
        key,
        further_keys,
    })
}

pub(super) fn check(key: &PublicKey) -> Result<(), Refusal> {
    use mainstay_wire::registry::BadPublicKey;
    key.check().map_err(|bad| match bad {
        BadPublicKey::Suite => Refusal::Profile,
        BadPublicKey::Shape => Refusal::Key("public key has the wrong shape for its suite"),
    })
}
