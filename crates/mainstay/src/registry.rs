//! The client of an environment registry: one request, `connect`, and every way it can fail (`session.md` 9.2).

use std::fmt;
use std::time::Duration;

use bytes::BytesMut;
use mainstay_link::relay::Bundle;
use mainstay_noise::{Identity, Suite};
use mainstay_wire::registry::{
    ConnectAnswer, ConnectRequest, EnvironmentId, connect_path, read_error,
};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::watch;
use tracing::Instrument;

use crate::dialling::without_query;
use crate::error::{Error, ErrorKind, RequestFailure};
use crate::outbound::OutboundPolicy;
use crate::telemetry::{self, Tracing};

/// Bytes of an answer that are read at most: a bundle needs about 3 KiB.
const ANSWER: usize = 256 << 10;

/// Time for one question about the next registration; our registry answers within 30 s.
const ANNOUNCEMENT: Duration = Duration::from_secs(60);

/// An environment registry that knows the current executor of an environment.
#[derive(Clone)]
pub struct RegistryConfig {
    /// Base URL, `http://` or `https://`.
    pub url: String,
    /// Environment id, `[A-Za-z0-9_-]{1,256}`.
    pub environment: String,
    /// Bearer token of the harness role.
    pub token: SecretString,
    /// Sent as `chatgpt-account-id` when set.
    pub account: Option<String>,
}

impl fmt::Debug for RegistryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryConfig")
            .field("url", &without_query(&self.url))
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

/// One environment's way to its registry. Keeps the harness identity, the same for every lookup and handshake.
pub(crate) struct Registry {
    base: String,
    environment: EnvironmentId,
    account: Option<HeaderValue>,
    /// The bearer token; renewed through [`Registry::renew`].
    token: watch::Sender<HeaderValue>,
    http: reqwest::Client,
    pub(crate) identity: Identity,
    policy: Option<OutboundPolicy>,
    tracing: Tracing,
    /// Asked for, and demanded.
    suite: Suite,
}

impl Registry {
    /// # Errors
    /// An unusable URL, environment id, token or TLS set-up.
    pub(crate) fn new(
        config: RegistryConfig,
        policy: Option<OutboundPolicy>,
        tracing: Tracing,
        suite: Suite,
    ) -> Result<Self, Error> {
        let base = config.url.trim().trim_end_matches('/').to_owned();
        match reqwest::Url::parse(&base) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => {}
            Ok(_) => return Err(bad("the URL is neither http nor https")),
            Err(error) => return Err(bad(error)),
        }
        let environment = EnvironmentId::parse(&config.environment).map_err(bad)?;
        let account = config
            .account
            .map(|account| HeaderValue::from_str(&account))
            .transpose()
            .map_err(bad)?;
        // The HTTP client wants a TLS set-up even where no TLS is used; certificates are read only where it is.
        let tls = if base.starts_with("https:") {
            let mut tls = (*mainstay_link::tls::client_config().map_err(bad)?).clone();
            tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            tls
        } else {
            mainstay_link::tls::trusting_nobody().map_err(bad)?
        };
        let http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .tcp_nodelay(true)
            .tls_backend_preconfigured(tls);
        Ok(Self {
            base,
            environment,
            account,
            token: watch::channel(bearer(&config.token)?).0,
            http: http.build().map_err(bad)?,
            identity: Identity::generate().map_err(bad)?,
            policy,
            tracing,
            suite,
        })
    }

    /// Uses another token from now on.
    ///
    /// # Errors
    /// It cannot stand in a header.
    pub(crate) fn renew(&self, token: &SecretString) -> Result<(), Error> {
        self.token.send_replace(bearer(token)?);
        Ok(())
    }

    /// Asks for the executor that is registered now.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<Bundle, Error> {
        self.ask(limit)
            .instrument(telemetry::registry_connect())
            .await
    }

    async fn ask(&self, limit: Duration) -> Result<Bundle, Error> {
        let timeout = || {
            request(
                RequestFailure::Timeout,
                format!("no answer within {limit:?}"),
            )
        };
        let answer = tokio::time::timeout(limit, self.exchange())
            .await
            .map_err(|_| timeout())??;
        let answer: ConnectAnswer =
            serde_json::from_slice(&answer).map_err(|error| ErrorKind::Json {
                text: format!("answer of the environment registry: {error}"),
            })?;
        if answer.environment_id != self.environment.as_str() {
            return Err(Error::protocol(
                "environment registry returned a different environment id",
            ));
        }
        let bundle =
            Bundle::try_from(answer).map_err(|error| Error::protocol(error.to_string()))?;
        let offered = bundle.executor_key.suite();
        if offered != self.suite {
            return Err(Error::protocol(format!(
                "environment registry returned suite {offered} instead of {}",
                self.suite
            )));
        }
        Ok(bundle)
    }

    /// Waits for a registration other than `known`. `None`: there was none for a while, ask again.
    pub(crate) async fn announced(&self, known: &str) -> Result<Option<String>, Error> {
        #[derive(serde::Deserialize)]
        struct Announced {
            executor_registration_id: String,
        }
        let url = format!(
            "{}/mainstay/environment/{}/registration?after={known}",
            self.base, self.environment
        );
        let headers = self.headers(&url)?;
        let asked = self
            .http
            .get(url)
            .headers(headers)
            .timeout(ANNOUNCEMENT)
            .send()
            .await;
        let response = match asked {
            // A registry that holds the request longer than we do has nothing to tell.
            Err(error) if error.is_timeout() => return Ok(None),
            asked => asked.map_err(transport)?,
        };
        let status = response.status();
        let retry_after = retry_after(&response);
        let body = read(response).await?;
        if status == StatusCode::NO_CONTENT {
            return Ok(None);
        }
        if !status.is_success() {
            return Err(refused(status, retry_after, &body));
        }
        let announced: Announced =
            serde_json::from_slice(&body).map_err(|error| ErrorKind::Json {
                text: format!("announcement of the environment registry: {error}"),
            })?;
        Ok(Some(announced.executor_registration_id))
    }

    fn headers(&self, url: &str) -> Result<HeaderMap, Error> {
        if let Some(policy) = &self.policy {
            policy.check_url(url)?;
        }
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, self.token.borrow().clone());
        if let Some(account) = &self.account {
            headers.insert("chatgpt-account-id", account.clone());
        }
        let trace = self.tracing.current().unwrap_or_default();
        for (name, value) in [
            ("traceparent", trace.traceparent),
            ("tracestate", trace.tracestate),
        ] {
            // One that cannot stand in a header is not worth losing the request for.
            if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
                headers.insert(name, value);
            }
        }
        Ok(headers)
    }

    async fn exchange(&self) -> Result<BytesMut, Error> {
        let url = format!("{}{}", self.base, connect_path(&self.environment));
        let headers = self.headers(&url)?;
        let body = ConnectRequest {
            harness_public_key: self.identity.public(self.suite).to_wire(),
        };
        let response = self
            .http
            .post(url)
            .headers(headers)
            .json(&body)
            .send()
            .await
            .map_err(transport)?;
        let status = response.status();
        let retry_after = retry_after(&response);
        let body = read(response).await?;
        if status.is_success() {
            Ok(body)
        } else {
            Err(refused(status, retry_after, &body))
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("base", &self.base)
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

async fn read(mut response: Response) -> Result<BytesMut, Error> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(transport)? {
        if body.len() + chunk.len() > ANSWER {
            return Err(Error::protocol(format!(
                "the environment registry's answer is above {ANSWER} bytes"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn refused(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Error {
    match status.as_u16() {
        401 | 403 => ErrorKind::RegistryAuthentication {
            text: format!("{status}: {}", read_error(body, "empty error body").1),
        },
        status => {
            let (code, text) = read_error(body, "empty or malformed error body");
            ErrorKind::RegistryHttp {
                status,
                code,
                text,
                retry_after,
            }
        }
    }
    .into()
}

/// `Retry-After` in its seconds form.
fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

fn transport(error: reqwest::Error) -> Error {
    let failure = if error.is_timeout() {
        RequestFailure::Timeout
    } else if error.is_connect() {
        RequestFailure::Connect
    } else if error.is_decode() {
        RequestFailure::Decode
    } else if error.is_builder() {
        RequestFailure::Build
    } else {
        // A connection that ended before or within the answer.
        RequestFailure::Body
    };
    // The source's text says what happened; reqwest's own repeats the URL.
    let mut cause: &dyn std::error::Error = &error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    request(failure, cause.to_string())
}

fn request(failure: RequestFailure, text: String) -> Error {
    ErrorKind::RegistryRequest { failure, text }.into()
}

fn bearer(token: &SecretString) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))
        .map_err(|_| bad("the token cannot stand in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn bad(text: impl fmt::Display) -> Error {
    ErrorKind::RegistryConfiguration {
        text: text.to_string(),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::telemetry::Trace;

    #[test]
    fn a_lookup_carries_the_trace_context_that_can_stand_in_a_header() {
        let config = RegistryConfig {
            url: "http://127.0.0.1:1".to_owned(),
            environment: "env".to_owned(),
            token: "token".into(),
            account: None,
        };
        let source = || {
            Some(Trace {
                traceparent: Some("00-aa-bb-01".to_owned()),
                tracestate: Some("line\nbreak".to_owned()),
            })
        };
        let tracing = Tracing(Some(Arc::new(source)));
        let registry = Registry::new(config, None, tracing, Suite::HybridIk).unwrap();
        let headers = registry.headers("http://127.0.0.1:1/x").unwrap();
        assert_eq!(headers["traceparent"], "00-aa-bb-01");
        assert!(!headers.contains_key("tracestate"));
    }
}
