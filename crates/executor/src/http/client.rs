//! What sends the requests, and what is wrong with a request before it is sent.

use std::sync::Arc;

use bytes::Bytes;
use mainstay_link::tls::{TlsError, client_config};
use mainstay_wire::RpcError;
use mainstay_wire::http::{HttpRequestHeader, HttpRequestParams, RedirectPolicy};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, RequestBuilder, Url};
use tokio::sync::OnceCell;

/// Variables of the executor that hold its own credentials, or point to them: a peer may not send them anywhere. The
/// first thirteen are those of the reference (seen with 0.171.0), compared without regard to case, as there.
const PROTECTED: [&str; 14] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_FEDERATED_TOKEN_FILE",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "CODEX_CONNECTORS_TOKEN",
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "OPENAI_API_KEY",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN_FILE",
    "MAINSTAY_TOKEN",
];

/// Sends HTTP requests for every connection of an executor; its connections to servers are shared. Cheap to clone. It is
/// set up by the first request, as that reads the platform's certificates.
#[derive(Clone, Debug, Default)]
pub struct HttpClient(Arc<OnceCell<Clients>>);

#[derive(Debug)]
struct Clients {
    follow: Client,
    stop: Client,
}

/// The HTTP client cannot be set up.
#[derive(Debug, thiserror::Error)]
enum SetUpError {
    /// No certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Something else.
    #[error("HTTP client set-up: {0}")]
    Client(#[from] reqwest::Error),
    /// The thread that did it is gone.
    #[error("HTTP client set-up: {0}")]
    Thread(#[from] tokio::task::JoinError),
}

/// A request that nothing is wrong with.
#[derive(Debug)]
pub(super) struct Prepared {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Option<Bytes>,
    redirects: RedirectPolicy,
}

impl HttpClient {
    /// A client with the process's TLS configuration and the proxies of its environment.
    pub fn new() -> Self {
        Self::default()
    }

    /// The request, ready to be sent.
    pub(super) async fn request(&self, prepared: Prepared) -> Result<RequestBuilder, RpcError> {
        let set_up = async || tokio::task::spawn_blocking(Clients::new).await?;
        let clients = self
            .0
            .get_or_try_init(set_up)
            .await
            .map_err(RpcError::internal)?;
        let client = match prepared.redirects {
            RedirectPolicy::Follow => &clients.follow,
            RedirectPolicy::Stop => &clients.stop,
        };
        let request = client
            .request(prepared.method, prepared.url)
            .headers(prepared.headers);
        Ok(match prepared.body {
            Some(body) => request.body(body),
            None => request,
        })
    }
}

impl Clients {
    fn new() -> Result<Self, SetUpError> {
        let mut tls = (*client_config()?).clone();
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let build = |redirects| {
            Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .redirect(redirects)
                .build()
        };
        Ok(Self {
            follow: build(reqwest::redirect::Policy::default())?,
            stop: build(reqwest::redirect::Policy::none())?,
        })
    }
}

impl Prepared {
    /// The request that `params` describe, or what is wrong with them.
    pub(super) fn new(params: &HttpRequestParams) -> Result<Self, RpcError> {
        let method = Method::from_bytes(params.method.as_bytes()).map_err(|error| {
            RpcError::invalid_params(format_args!("http/request method is invalid: {error}"))
        })?;
        let url = Url::parse(&params.url).map_err(|error| {
            RpcError::invalid_params(format_args!("http/request url is invalid: {error}"))
        })?;
        let scheme = url.scheme();
        if !matches!(scheme, "http" | "https") {
            return Err(RpcError::invalid_params(format_args!(
                "http/request only supports http and https URLs, got {scheme}"
            )));
        }
        let mut headers = HeaderMap::new();
        for header in &params.headers {
            let (name, value) = header_to_send(header)?;
            // More than 32,768 names.
            headers
                .try_append(name, value)
                .map_err(RpcError::invalid_params)?;
        }
        Ok(Self {
            method,
            url,
            headers,
            body: params.body_base64.as_ref().map(|body| body.0.clone()),
            redirects: params.redirect_policy,
        })
    }
}

fn header_to_send(header: &HttpRequestHeader) -> Result<(HeaderName, HeaderValue), RpcError> {
    let HttpRequestHeader {
        name,
        value,
        value_env_var,
    } = header;
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|error| {
        RpcError::invalid_params(format_args!("http/request header name is invalid: {error}"))
    })?;
    let mut value = value.clone();
    if let Some(variable) = value_env_var {
        if PROTECTED
            .iter()
            .any(|protected| protected.eq_ignore_ascii_case(variable))
        {
            return Err(RpcError::invalid_params(format_args!(
                "http/request header {name} cannot use executor environment variable {variable}"
            )));
        }
        value += &std::env::var(variable).map_err(|_| {
            RpcError::invalid_params(format_args!(
                "http/request header {name} requires executor environment variable {variable}"
            ))
        })?;
    }
    let mut sent = HeaderValue::from_str(&value).map_err(|error| {
        RpcError::invalid_params(format_args!(
            "http/request header value is invalid for {name}: {error}"
        ))
    })?;
    // It came out of our environment, so it is treated as a credential wherever it might be shown.
    sent.set_sensitive(value_env_var.is_some());
    Ok((parsed, sent))
}
