//! Network policy of a process: the proxy's rules, decisions asked of the client, audit records (`protocol.md` 11).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::{call, notice};
use crate::nullable;

call!(
    /// Asks the client whether a connection is allowed; the one request an executor sends.
    PolicyRequest, "network/policyRequest", Network, PolicyRequestParams => PolicyAnswer
);
notice!(
    /// Audit record of one decision, best effort.
    PolicyDecision, "network/policyDecision", PolicyDecisionParams
);

/// `managedNetwork` of `process/start`; every member may be missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManagedNetwork {
    /// Loopback ports that stay reachable.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub loopback_ports: Vec<u16>,
    /// Whether the program may listen.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub allow_local_binding: bool,
    /// Unix sockets that stay reachable.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub allow_unix_sockets: Vec<String>,
    /// All of them.
    #[serde(default, deserialize_with = "nullable::or_default")]
    pub dangerously_allow_all_unix_sockets: bool,
}

/// `networkProxy` of `process/start`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkProxy {
    /// The proxy's own rules.
    pub proxy: ProxyRules,
    /// Identity for audit records, opaque here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit_metadata: Option<Map<String, Value>>,
    /// Opaque here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_id: Option<String>,
    /// Opaque here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<String>,
    /// Asks the client about what no rule decides, and waits so many ms (plus 5 s).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_decision_timeout_ms: Option<u64>,
}

/// Rules of a process's proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProxyRules {
    /// Whether there is one.
    pub enabled: bool,
    /// SOCKS5 beside HTTP.
    pub enable_socks5: bool,
    /// UDP through SOCKS5.
    pub enable_socks5_udp: bool,
    /// Whether the executor's own proxy settings apply.
    pub allow_upstream_proxy: bool,
    /// All Unix sockets.
    pub dangerously_allow_all_unix_sockets: bool,
    /// How much passes.
    pub mode: ProxyMode,
    /// Patterns and what becomes of them.
    #[serde(default)]
    pub domains: Option<BTreeMap<String, DomainRule>>,
    /// Paths and what becomes of them.
    #[serde(default)]
    pub unix_sockets: Option<BTreeMap<String, SocketRule>>,
    /// Whether the program may listen.
    pub allow_local_binding: bool,
    /// Domains the client is asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review_domains: Option<Vec<String>>,
    /// Whether plain TCP is redirected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transparent_tcp: Option<bool>,
}

/// How much passes a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProxyMode {
    /// Reading only.
    Limited,
    /// Everything the rules allow.
    Full,
}

/// What becomes of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DomainRule {
    /// No rule.
    None,
    /// Allowed.
    Allow,
    /// Denied.
    Deny,
}

/// What becomes of a Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketRule {
    /// Allowed.
    Allow,
    /// Denied.
    Deny,
}

/// Params of `network/policyRequest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRequestParams {
    /// Which process wants to connect.
    pub process_id: String,
    /// Where to.
    pub request: PolicyTarget,
}

/// A connection to decide about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyTarget {
    /// How.
    pub protocol: PolicyProtocol,
    /// Host name or address, 1 to 253 bytes.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl PolicyTarget {
    /// Whether the host is 1 to 253 bytes without spaces and control characters.
    pub fn host_is_valid(&self) -> bool {
        crate::limits::is_plain(&self.host, 1, crate::limits::POLICY_HOST_BYTES)
    }
}

/// How a connection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PolicyProtocol {
    /// Plain HTTP.
    #[serde(rename = "http")]
    Http,
    /// An HTTP tunnel.
    #[serde(rename = "https_connect")]
    HttpsConnect,
    /// SOCKS5, TCP.
    #[serde(rename = "socks5_tcp")]
    Socks5Tcp,
    /// SOCKS5, UDP.
    #[serde(rename = "socks5_udp")]
    Socks5Udp,
}

/// Answer to `network/policyRequest`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyAnswer {
    /// What was decided.
    pub decision: Decision,
}

/// A decision about a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Decision {
    /// Goes on, unless the proxy's own rules forbid it.
    Allow,
    /// Refused.
    Deny {
        /// Why, at most 1024 bytes without control characters.
        reason: String,
    },
    /// Refused, and somebody is to be asked.
    Ask {
        /// Why, at most 1024 bytes without control characters.
        reason: String,
    },
}

impl Decision {
    /// The denial both sides fall back to.
    pub fn not_allowed() -> Self {
        Self::Deny {
            reason: "not_allowed".to_owned(),
        }
    }

    /// Itself, or [`Decision::not_allowed`] when the reason is over 1024 bytes or has control characters.
    #[must_use]
    pub fn checked(self) -> Self {
        match &self {
            Decision::Allow => self,
            Decision::Deny { reason } | Decision::Ask { reason } => {
                let plain = reason.len() <= crate::limits::POLICY_REASON_BYTES
                    && !reason.chars().any(char::is_control);
                if plain { self } else { Self::not_allowed() }
            }
        }
    }
}

/// Params of `network/policyDecision`. The words are kept as text: a record is dropped, never refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyDecisionParams {
    /// Which process connected.
    pub process_id: String,
    /// RFC 3339 with ms.
    pub timestamp: String,
    /// `domain` or `non_domain`.
    pub scope: String,
    /// `allow`, `deny` or `ask`.
    pub decision: String,
    /// `baseline_policy`, `mode_guard`, `proxy_state` or `decider`.
    pub source: String,
    /// Why.
    pub reason: String,
    /// As in the request.
    pub protocol: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
    /// HTTP method; absent for SOCKS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Address of the connecting program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Whether a decision overrode the policy.
    pub policy_override: bool,
}

impl PolicyDecisionParams {
    /// Whether the record is one a client may log (`session.md` 10.9).
    pub fn is_valid(&self) -> bool {
        use crate::limits as l;
        let known = |word: &str, words: &[&str]| words.contains(&word);
        l::is_plain(&self.process_id, 1, l::POLICY_PROCESS_ID_BYTES)
            && !self.timestamp.is_empty()
            && self.timestamp.len() <= l::POLICY_TIMESTAMP_BYTES
            && known(&self.scope, &["domain", "non_domain"])
            && known(&self.decision, &["allow", "deny", "ask"])
            && known(
                &self.source,
                &["baseline_policy", "mode_guard", "proxy_state", "decider"],
            )
            && self.reason.len() <= l::POLICY_REASON_BYTES
            && !self.reason.chars().any(char::is_control)
            && l::is_plain(&self.host, 1, l::POLICY_HOST_BYTES)
            && self
                .method
                .as_deref()
                .is_none_or(|text| l::is_plain(text, 0, l::POLICY_METHOD_BYTES))
            && self
                .client
                .as_deref()
                .is_none_or(|text| l::is_plain(text, 0, l::POLICY_CLIENT_BYTES))
    }
}
