//! Opening the connection below a link, and what can go wrong with it in the caller's words.

use std::io;
use std::sync::Arc;

use mainstay_link::relay::{self, Bundle, RelayError};
use mainstay_link::{DialError, DialOptions, Link, RawSocket};

use crate::error::{Denial, DialFailure, Error, ErrorKind};
use crate::outbound::OutboundPolicy;
use crate::setup::{Destination, Direct, Setup};

/// Dials an executor's own listener.
pub(crate) async fn direct(direct: &Direct) -> Result<Link, Error> {
    mainstay_link::dial(&direct.url, &direct.options)
        .await
        .map_err(|error| dial_error(&direct.url, error, direct.policy.as_ref()))
}

/// Opens the rendezvous socket that a registry answer names.
pub(crate) async fn rendezvous(bundle: &Bundle, setup: &Setup) -> Result<RawSocket, Error> {
    let mut options = DialOptions {
        timeout: setup.config.session.connect_timeout,
        ..DialOptions::default()
    };
    options.policy = setup.policy.clone().map(policy);
    relay::dial(bundle, &options)
        .await
        .map_err(|error| dial_error(&bundle.url, error, setup.policy.as_ref()))
}

/// Shakes hands with the executor behind an open rendezvous socket. The caller limits the time.
pub(crate) async fn shake_hands(
    socket: RawSocket,
    bundle: &Bundle,
    setup: &Setup,
) -> Result<Link, Error> {
    let Destination::Registry(registry) = &setup.destination else {
        return Err(Error::protocol("a relay link without a registry"));
    };
    relay::harness(socket, &registry.identity, bundle)
        .await
        .map_err(|error| match error {
            RelayError::CredentialsRejected => ErrorKind::CredentialsRejected.into(),
            RelayError::Handshake(fault) => ErrorKind::HandshakeRefused {
                text: fault.to_string(),
            }
            .into(),
        })
}

pub(crate) fn policy(policy: OutboundPolicy) -> mainstay_link::Policy {
    Arc::new(move |host, _| policy.denies(host).is_none())
}

fn dial_error(url: &str, error: DialError, policy: Option<&OutboundPolicy>) -> Error {
    let url = without_query(url);
    let text = error.to_string();
    let failure = match error {
        DialError::Url(text) => {
            return ErrorKind::ConnectConfiguration {
                text: text.to_owned(),
            }
            .into();
        }
        DialError::Denied { host } => {
            let denial = policy.and_then(|policy| policy.denies(&host));
            return ErrorKind::Denied(denial.unwrap_or(Denial::Destination)).into();
        }
        DialError::Timeout(timeout) => return ErrorKind::ConnectTimeout { url, timeout }.into(),
        DialError::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            DialFailure::Incomplete
        }
        DialError::Io(error) => DialFailure::Io(error.kind()),
        DialError::Tls(_) => DialFailure::Tls,
        DialError::Refused(refusal) => DialFailure::Http {
            status: refusal.status,
            retry_after: refusal.retry_after,
        },
        DialError::Protocol(_) => DialFailure::Protocol,
    };
    ErrorKind::Connect { url, failure, text }.into()
}

/// A URL as it may be shown: query and fragment can carry credentials.
pub(crate) fn without_query(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}
