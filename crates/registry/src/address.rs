//! Signed rendezvous URLs: the query says who comes, where to, and until when.

use mainstay_wire::registry::EnvironmentId;

use crate::{
    signer::{Signer, from_hex, statement, to_hex},
    tokens::Role,
};

const DOMAIN: &[u8] = b"mainstay-rendezvous-url/v1";
/// Path of the rendezvous below the public URL.
pub(crate) const PATH: &str = "/rendezvous";

/// Who comes to the rendezvous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visitor {
    pub(crate) role: Role,
    pub(crate) environment: EnvironmentId,
    pub(crate) registration: String,
    /// Unix seconds; an executor's URL has none and lives as long as its registration.
    pub(crate) expires: Option<u64>,
}

/// What is wrong with a query, in the words of `x-codex-rendezvous-rejection-reason` (noise-relay.md 3).
pub(crate) type Fault = &'static str;

impl Visitor {
    /// The signed URL below `base` (`ws://…` or `wss://…`, no trailing slash).
    pub(crate) fn url(&self, base: &str, signer: &dyn Signer) -> String {
        let Self {
            role,
            environment,
            registration,
            expires,
        } = self;
        let expires = expires.map_or(String::new(), |expires| format!("&expires={expires}"));
        let signature = to_hex(&signer.sign(&self.message()));
        format!(
            "{base}{PATH}?role={role}&environment={environment}&registration={registration}{expires}&sig={signature}"
        )
    }

    /// Reads a query and checks its signature, not its expiry. `Err` holds the role, if it could be read, with the fault:
    /// the roles are refused with different answers.
    pub(crate) fn read(query: &str, signer: &dyn Signer) -> Result<Self, (Option<Role>, Fault)> {
        let mut role = None;
        let mut environment = None;
        let mut registration = None;
        let mut expires = None;
        let mut signature = None;
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').ok_or((None, "malformed_query"))?;
            let slot = match name {
                "role" => &mut role,
                "environment" => &mut environment,
                "registration" => &mut registration,
                "expires" => &mut expires,
                "sig" => &mut signature,
                _ => return Err((None, "extra_query_param")),
            };
            if slot.replace(value).is_some() {
                return Err((None, "malformed_query"));
            }
        }
        let role = match role {
            Some("executor") => Role::Executor,
            Some("harness") => Role::Harness,
            Some(_) => return Err((None, "invalid_role")),
            None => return Err((None, "missing_role")),
        };
        let fault = |fault| (Some(role), fault);
        let expires = match (role, expires) {
            (Role::Executor, None) => None,
            (Role::Executor, Some(_)) => return Err(fault("extra_query_param")),
            (Role::Harness, None) => return Err(fault("missing_expiry")),
            (Role::Harness, Some(text)) => Some(text.parse().map_err(|_| fault("invalid_expiry"))?),
        };
        let registration = registration.ok_or(fault("missing_executor_registration_id"))?;
        let signature = signature.ok_or(fault("missing_signature"))?;
        let environment = environment
            .and_then(|text| EnvironmentId::parse(text).ok())
            .ok_or(fault("malformed_query"))?;
        let visitor = Self {
            role,
            environment,
            registration: registration.to_owned(),
            expires,
        };
        let valid = from_hex(signature)
            .is_some_and(|signature| signer.verify(&visitor.message(), &signature));
        if valid {
            Ok(visitor)
        } else {
            Err(fault("invalid_signature"))
        }
    }

    fn message(&self) -> Vec<u8> {
        statement(&[
            DOMAIN,
            self.role.as_str().as_bytes(),
            self.environment.as_str().as_bytes(),
            self.registration.as_bytes(),
            &self.expires.unwrap_or(u64::MAX).to_be_bytes(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HmacSigner;

    fn visitor(role: Role) -> Visitor {
        Visitor {
            role,
            environment: EnvironmentId::parse("build").unwrap(),
            registration: "reg-1".into(),
            expires: (role == Role::Harness).then_some(100),
        }
    }

    #[test]
    fn a_url_is_read_back_and_any_change_is_refused() {
        let signer = HmacSigner::with_key(&[1; 32]);
        for role in [Role::Executor, Role::Harness] {
            let url = visitor(role).url("ws://h:1", &signer);
            let query = url.strip_prefix("ws://h:1/rendezvous?").unwrap();
            assert_eq!(Visitor::read(query, &signer).unwrap(), visitor(role));
            for (from, to) in [("build", "builf"), ("reg-1", "reg-2"), ("=100", "=101")] {
                let changed = query.replace(from, to);
                if changed != query {
                    let fault = Visitor::read(&changed, &signer).unwrap_err();
                    assert_eq!(fault, (Some(role), "invalid_signature"));
                }
            }
            let other = HmacSigner::with_key(&[2; 32]);
            assert!(Visitor::read(query, &other).is_err());
        }
    }

    #[test]
    fn faults_have_the_names_of_the_specification() {
        let signer = HmacSigner::with_key(&[1; 32]);
        let sig = "0".repeat(64);
        let cases = [
            ("", "malformed_query"),
            ("role", "malformed_query"),
            ("role=harness&role=harness", "malformed_query"),
            ("role=harness&x=1", "extra_query_param"),
            ("sig=0", "missing_role"),
            ("role=environment", "invalid_role"),
            ("role=executor&expires=1", "extra_query_param"),
            ("role=harness", "missing_expiry"),
            ("role=harness&expires=soon", "invalid_expiry"),
            ("role=executor", "missing_executor_registration_id"),
            ("role=executor&registration=r", "missing_signature"),
            ("role=executor&registration=r&sig=0", "malformed_query"),
            (
                "role=executor&registration=r&environment=a%2Fb&sig=0",
                "malformed_query",
            ),
            (
                "role=executor&registration=r&environment=e&sig=0",
                "invalid_signature",
            ),
        ];
        for (query, fault) in cases {
            assert_eq!(
                Visitor::read(query, &signer).unwrap_err().1,
                fault,
                "{query}"
            );
        }
        let unsigned = format!("role=executor&registration=r&environment=e&sig={sig}");
        assert!(Visitor::read(&unsigned, &signer).is_err());
    }
}
