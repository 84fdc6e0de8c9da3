//! The one TLS configuration.

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;

/// TLS cannot be used on this machine, usually because it has no certificate store.
#[derive(Clone, Debug, thiserror::Error)]
#[error("TLS set-up: {0}")]
pub struct TlsError(String);

/// The client configuration that every TLS connection of this process shares (reqwest's included): ring, the
/// platform's certificates, no client certificate. Built on first use; no process-wide rustls default is
/// installed. No ALPN: HTTP clients set their own on a clone.
pub fn client_config() -> Result<Arc<ClientConfig>, TlsError> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, TlsError>> = OnceLock::new();
    CONFIG.get_or_init(build).clone()
}

/// A configuration that trusts nobody, for HTTP clients that talk plain HTTP and want a TLS set-up all the same: no
/// certificates are read for it.
///
/// # Errors
/// When ring offers no TLS version, which it does.
pub fn trusting_nobody() -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    Ok(config
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

fn build() -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier)
        .map_err(|error| TlsError(error.to_string()))?
        .with_no_client_auth();
    Ok(Arc::new(config))
}
