//! The executor's side of the registry's HTTP API: `register` and `validate` (noise-relay.md 2).

use std::fmt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mainstay_link::relay::{Claim, Verdict};
use mainstay_noise::{Identity, Suite};
use mainstay_wire::limits;
use mainstay_wire::registry::{
    CODE_CONFLICT, EnvironmentId, RegisterAnswer, RegisterRequest, STREAM_ID_HEADER,
    ValidateAnswer, ValidateRequest, read_error, register_path, validate_path,
};
use reqwest::header::{AUTHORIZATION, HeaderValue, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, StatusCode, redirect};
use secrecy::ExposeSecret as _;
use serde::Serialize;

use super::pace::Hint;
use super::{RegisterConfig, keys};

/// Bytes read of an answer at most: the largest has a URL and some ids.
const ANSWER: usize = 64 * limits::KIB;

/// Why an executor is not registered.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The configuration cannot be used.
    #[error("environment registry configuration: {0}")]
    Configuration(String),
    /// The registry could not be asked, or its answer did not arrive.
    #[error("environment registry cannot be reached: {0}")]
    Transport(String),
    /// 401 or 403.
    #[error("environment registry authentication failed ({status}): {message}")]
    Authentication {
        /// The status line.
        status: String,
        /// The registry's text.
        message: String,
    },
    /// Any other refusal.
    #[error(
        "environment registry request failed ({status}{}): {message}",
        Code(code)
    )]
    Refused {
        /// The status line.
        status: String,
        /// The registry's error code.
        code: Option<String>,
        /// The registry's text.
        message: String,
        /// What it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The answer breaks the contract.
    #[error("{0}")]
    Protocol(String),
    /// The executor has been shut down.
    #[error("the executor has been shut down")]
    Over,
}

struct Code<'a>(&'a Option<String>);

impl fmt::Display for Code<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(code) => write!(f, ", {code}"),
            None => Ok(()),
        }
    }
}

impl RegisterError {
    /// Another registration is in the way for a moment: the one failure that is waited out from the start.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status, code, .. }
            if status.starts_with("503") && code.as_deref() == Some(CODE_CONFLICT))
    }

    /// Whether an executor that was registered before waits and tries again: it has sessions to keep, and a registry that
    /// restarts refuses connections for a moment.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Transport(_) => true,
            Self::Refused { status, .. } => {
                status.starts_with('5') || status.starts_with("408") || status.starts_with("429")
            }
            Self::Configuration(_)
            | Self::Authentication { .. }
            | Self::Protocol(_)
            | Self::Over => false,
        }
    }

    pub(super) fn retry_after(&self) -> Option<Hint> {
        match self {
            Self::Refused { retry_after, .. } => retry_after.map(Hint::After),
            Self::Configuration(_)
            | Self::Transport(_)
            | Self::Authentication { .. }
            | Self::Protocol(_)
            | Self::Over => None,
        }
    }
}

/// One environment of one registry, and who we are to it.
#[derive(Debug)]
pub(crate) struct Registry {
    pub(super) environment: EnvironmentId,
    pub(super) identity: Identity,
    pub(super) suites: Vec<Suite>,
    base: String,
    token: HeaderValue,
    http: Client,
}

impl Registry {
    pub(super) fn new(
        config: RegisterConfig,
        environment: EnvironmentId,
    ) -> Result<Self, RegisterError> {
        let bad = |text: &dyn fmt::Display| RegisterError::Configuration(text.to_string());
        let base = config.registry.trim().trim_end_matches('/').to_owned();
        match reqwest::Url::parse(&base) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.query().is_none() => {}
            Ok(_) => return Err(bad(&"the URL is not http or https, or has a query")),
            Err(error) => return Err(bad(&error)),
        }
        if config.suites.is_empty() {
            return Err(bad(&"no suite to speak"));
        }
        let mut token = HeaderValue::from_str(&format!("Bearer {}", config.token.expose_secret()))
            .map_err(|_| bad(&"the token cannot stand in a header"))?;
        token.set_sensitive(true);
        let mut http = Client::builder()
            .redirect(redirect::Policy::none())
            .timeout(limits::REGISTRY_TIMEOUT)
            .tcp_nodelay(true);
        // The HTTP client wants a TLS set-up even where no TLS is used; certificates are read only where it is.
        let tls = if base.starts_with("https:") {
            let mut tls =
                (*mainstay_link::tls::client_config().map_err(|error| bad(&error))?).clone();
            tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            tls
        } else {
            mainstay_link::tls::trusting_nobody().map_err(|error| bad(&error))?
        };
        http = http.tls_backend_preconfigured(tls);
        Ok(Self {
            environment,
            identity: match config.identity {
                Some(identity) => identity,
                None => Identity::generate().map_err(|error| bad(&error))?,
            },
            suites: config.suites,
            base,
            token,
            http: http.build().map_err(|error| bad(&error))?,
        })
    }

    /// `register`, with the same identity every time.
    pub(super) async fn register(&self) -> Result<RegisterAnswer, RegisterError> {
        let mut keys = keys(&self.identity, &self.suites).into_iter();
        let Some(first) = keys.next() else {
            return Err(RegisterError::Configuration("no suite to speak".to_owned()));
        };
        let body = RegisterRequest {
            security_profile: first.suite().profile().to_owned(),
            executor_public_key: first.to_wire(),
            mainstay_further_keys: keys.map(|key| key.to_wire()).collect(),
        };
        let response = self
            .post(&register_path(&self.environment), &body)
            .send()
            .await
            .map_err(transport)?;
        let status = response.status();
        let retry_after = retry_after(&response);
        let answer = read(response).await?;
        if status != StatusCode::OK {
            return Err(refused(status, &answer, retry_after));
        }
        let answer: RegisterAnswer = serde_json::from_slice(&answer).map_err(|error| {
            RegisterError::Protocol(format!("answer of the environment registry: {error}"))
        })?;
        if answer.environment_id != self.environment.as_str() {
            let text = "environment registry returned a different environment id";
            return Err(RegisterError::Protocol(text.to_owned()));
        }
        if answer.security_profile != body.security_profile {
            return Err(RegisterError::Protocol(format!(
                "environment registry returned unsupported security profile `{}`",
                answer.security_profile
            )));
        }
        Ok(answer)
    }

    /// `validate`; whatever is not a clear yes refuses the harness (noise-relay.md 2.3). No text of the answer is kept: it
    /// may repeat the authorization.
    pub(super) async fn validate(&self, registration: &str, claim: Claim) -> Verdict {
        let stream = claim.stream_uuid();
        let body = ValidateRequest {
            executor_registration_id: registration.to_owned(),
            harness_public_key: claim.harness_key.to_wire(),
            harness_key_authorization: claim.authorization,
        };
        let mut request = self.post(&validate_path(&self.environment), &body);
        if let Some(stream) = &stream {
            request = request.header(STREAM_ID_HEADER, stream);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                tracing::warn!(stream, error = %cause(&error), "harness not validated");
                return Verdict::Refused;
            }
        };
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            tracing::warn!(stream, "the registry refuses this executor's credentials");
            return Verdict::CredentialsRejected;
        }
        let valid = match read(response).await {
            Ok(answer) if status == StatusCode::OK => {
                serde_json::from_slice::<ValidateAnswer>(&answer)
            }
            Ok(_) | Err(_) => {
                tracing::warn!(stream, %status, "harness not validated");
                return Verdict::Refused;
            }
        };
        match valid {
            Ok(ValidateAnswer { valid: true }) => Verdict::Valid,
            Ok(ValidateAnswer { valid: false }) | Err(_) => {
                tracing::info!(stream, "harness refused by the registry");
                Verdict::Refused
            }
        }
    }

    fn post(&self, path: &str, body: &impl Serialize) -> RequestBuilder {
        let request = self.http.post(format!("{}{path}", self.base));
        request.header(AUTHORIZATION, self.token.clone()).json(body)
    }
}

async fn read(mut response: Response) -> Result<Bytes, RegisterError> {
    let mut answer = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(transport)? {
        if answer.len() + chunk.len() > ANSWER {
            return Err(RegisterError::Protocol(
                "answer of the environment registry is too long".to_owned(),
            ));
        }
        answer.extend_from_slice(&chunk);
    }
    Ok(answer.freeze())
}

fn refused(status: StatusCode, body: &[u8], retry_after: Option<Duration>) -> RegisterError {
    let line = status.to_string();
    if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        let (_, message) = read_error(body, "empty error body");
        return RegisterError::Authentication {
            status: line,
            message,
        };
    }
    let (code, message) = read_error(body, "empty or malformed error body");
    RegisterError::Refused {
        status: line,
        code,
        message,
        retry_after,
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

fn transport(error: reqwest::Error) -> RegisterError {
    RegisterError::Transport(cause(&error))
}

/// The innermost text: reqwest's own repeats the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    if error.is_timeout() {
        format!("no answer within {:?}", limits::REGISTRY_TIMEOUT)
    } else {
        cause.to_string()
    }
}
