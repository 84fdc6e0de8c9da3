//! Where a command runs: flags first, then the environment, then the embedded default.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use secrecy::SecretString;

use crate::args::{Rendezvous, RunArgs};

/// Reads one variable of the process environment; a parameter so that tests need not change it.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process environment; an empty variable counts as absent, one that is not text too.
pub(crate) fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A registry and what is needed to use it.
#[derive(Debug)]
pub(crate) struct RegistryAccess {
    pub(crate) url: String,
    pub(crate) environment: String,
    pub(crate) token: SecretString,
}

/// Where `run` runs.
#[derive(Debug)]
pub(crate) enum Destination {
    /// An executor's own listener.
    Direct {
        /// `ws://` or `wss://`.
        url: String,
        /// Shown in the upgrade.
        token: Option<SecretString>,
    },
    /// Whatever executor serves an environment of a registry.
    Registry(RegistryAccess),
    /// Registry, relay and executor inside this very process.
    Embedded,
}

impl Destination {
    /// For messages: whom the client talks to.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Direct { url, .. } => url.clone(),
            Self::Registry(access) => {
                format!("environment {} at {}", access.environment, access.url)
            }
            Self::Embedded => "the embedded executor".to_owned(),
        }
    }
}

/// Decides where `run` runs.
///
/// # Errors
/// Two destinations, half a destination, or a token that cannot be read.
pub(crate) fn of_run(args: &RunArgs, variables: Variables<'_>) -> Result<Destination> {
    if let Some(url) = &args.url {
        return direct(url.clone(), args, variables);
    }
    if args.rendezvous.registry.is_none()
        && let Some(url) = variables("MAINSTAY_URL")
    {
        if variables("MAINSTAY_REGISTRY").is_some() {
            bail!(
                "MAINSTAY_URL and MAINSTAY_REGISTRY are both set: which one? Say --url or --registry"
            );
        }
        if args.rendezvous.environment.is_some() {
            bail!("--environment needs a registry, but MAINSTAY_URL names an executor");
        }
        return direct(url, args, variables);
    }
    match of_rendezvous(&args.rendezvous, variables)? {
        Some(access) => Ok(Destination::Registry(access)),
        None => Ok(Destination::Embedded),
    }
}

fn direct(url: String, args: &RunArgs, variables: Variables<'_>) -> Result<Destination> {
    check_url(&url, ["ws", "wss"])?;
    let token = token(args.rendezvous.token_file.clone(), variables)?;
    if token.is_some() && !is_private(&url) {
        bail!(
            "{url} would carry the token in the clear: use wss://, or unset MAINSTAY_TOKEN and MAINSTAY_TOKEN_FILE"
        );
    }
    Ok(Destination::Direct { url, token })
}

fn check_url(url: &str, schemes: [&str; 2]) -> Result<()> {
    match url.split_once("://") {
        Some((scheme, host))
            if schemes.contains(&scheme)
                && !host.is_empty()
                && !host.starts_with(['/', '?', ':']) =>
        {
            Ok(())
        }
        Some(_) | None => bail!(
            "`{url}` is not a URL of the kind {}://HOST:PORT",
            schemes[0]
        ),
    }
}

/// Whether what is sent there cannot be read on the way: TLS, or this very machine.
fn is_private(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let loopback = |host: &str| {
        host.parse::<std::net::SocketAddr>()
            .is_ok_and(|address| address.ip().is_loopback())
            || host.rsplit_once(':').map_or(host, |(name, _)| name) == "localhost"
    };
    matches!(scheme, "wss" | "https") || loopback(host)
}

/// The registry that flags or environment name, if any.
///
/// # Errors
/// An environment without a registry or the reverse, or a token that cannot be read.
pub(crate) fn of_rendezvous(
    args: &Rendezvous,
    variables: Variables<'_>,
) -> Result<Option<RegistryAccess>> {
    let registry = args
        .registry
        .clone()
        .or_else(|| variables("MAINSTAY_REGISTRY"));
    let environment = args
        .environment
        .clone()
        .or_else(|| variables("MAINSTAY_ENVIRONMENT"));
    match (registry, environment) {
        (Some(url), Some(environment)) => {
            check_url(&url, ["http", "https"])?;
            check_environment_id(&environment)?;
            let token = token(args.token_file.clone(), variables)?
                .context("a registry needs a token: set MAINSTAY_TOKEN_FILE or MAINSTAY_TOKEN")?;
            Ok(Some(RegistryAccess {
                url,
                environment,
                token,
            }))
        }
        (Some(_), None) => bail!(
            "a registry needs an environment: say --environment ID or set MAINSTAY_ENVIRONMENT"
        ),
        (None, Some(_)) if args.environment.is_some() => {
            bail!("--environment needs a registry: say --registry URL or set MAINSTAY_REGISTRY")
        }
        // MAINSTAY_ENVIRONMENT alone names nothing yet.
        (None, Some(_) | None) => Ok(None),
    }
}

/// The token of a file that a flag names, of `MAINSTAY_TOKEN`, or of the file `MAINSTAY_TOKEN_FILE` names.
///
/// # Errors
/// A file that cannot be read or holds no token.
pub(crate) fn token(
    flag: Option<PathBuf>,
    variables: Variables<'_>,
) -> Result<Option<SecretString>> {
    let file = match (flag, variables("MAINSTAY_TOKEN")) {
        (Some(file), _) => file,
        (None, Some(token)) => return Ok(Some(SecretString::from(token.trim().to_owned()))),
        (None, None) => match variables("MAINSTAY_TOKEN_FILE") {
            Some(file) => PathBuf::from(file),
            None => return Ok(None),
        },
    };
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read the token file {}", file.display()))?;
    let token = text.trim();
    if token.is_empty() {
        bail!("the token file {} is empty", file.display());
    }
    Ok(Some(SecretString::from(token.to_owned())))
}

/// Environment ids are one path component: `[A-Za-z0-9_-]{1,64}`.
///
/// # Errors
/// Any other text.
pub(crate) fn check_environment_id(id: &str) -> Result<()> {
    let fits = (1..=64).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits {
        Ok(())
    } else {
        bail!("`{id}` is not an environment id: letters, digits, `_` and `-`, at most 64")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use secrecy::ExposeSecret;

    fn decide(flags: &[&str], variables: &[(&str, &str)]) -> Result<Destination> {
        let args = [&["mainstay", "run"], flags, &["--", "true"]].concat();
        let Command::Run(run) = Cli::try_parse_from(args).unwrap().command else {
            panic!("not run")
        };
        of_run(&run, &|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn flags_win_over_the_environment_and_nothing_means_embedded() {
        assert!(matches!(decide(&[], &[]), Ok(Destination::Embedded)));
        assert!(
            matches!(decide(&[], &[("MAINSTAY_URL", "ws://a:1")]), Ok(Destination::Direct { url, token: None }) if url == "ws://a:1")
        );
        let both = [
            ("MAINSTAY_URL", "ws://a:1"),
            ("MAINSTAY_ENVIRONMENT", "e"),
            ("MAINSTAY_TOKEN", " t\n"),
        ];
        assert!(
            matches!(decide(&["--url", "ws://localhost:2"], &both), Ok(Destination::Direct { url, token: Some(_) }) if url == "ws://localhost:2")
        );
        let Ok(Destination::Registry(access)) = decide(&["--registry", "http://r"], &both) else {
            panic!("not the registry")
        };
        assert_eq!(
            (access.environment.as_str(), access.token.expose_secret()),
            ("e", "t")
        );
        assert!(
            !format!("{access:?}").contains("\"t\""),
            "a token is never printed"
        );
    }

    #[test]
    fn half_a_destination_and_two_destinations_are_refused() {
        let refused = |flags: &[&str], variables: &[(&str, &str)]| {
            decide(flags, variables).unwrap_err().to_string()
        };
        assert!(refused(&["--registry", "http://r"], &[]).contains("--environment"));
        assert!(refused(&["--environment", "e"], &[]).contains("--registry"));
        assert!(
            refused(&["--registry", "http://r", "--environment", "e"], &[])
                .contains("MAINSTAY_TOKEN_FILE")
        );
        assert!(
            refused(&["--registry", "http://r", "--environment", "a/b"], &[])
                .contains("not an environment id")
        );
        assert!(
            refused(&[], &[("MAINSTAY_URL", "u"), ("MAINSTAY_REGISTRY", "r")]).contains("both set")
        );
    }

    #[test]
    fn a_token_never_goes_out_in_the_clear() {
        let token = [("MAINSTAY_TOKEN", "t")];
        for url in ["ws://h:1", "ws://10.0.0.1:1/", "ws://localhost.evil:1"] {
            assert!(decide(&["--url", url], &token).is_err(), "{url}");
            assert!(decide(&["--url", url], &[]).is_ok(), "{url}");
        }
        for url in [
            "wss://h",
            "ws://127.0.0.1:1",
            "ws://[::1]:1/",
            "ws://localhost:1?x",
        ] {
            assert!(decide(&["--url", url], &token).is_ok(), "{url}");
        }
        for url in ["http://127.0.0.1:1", "nonsense", "ws://"] {
            assert!(decide(&["--url", url], &[]).is_err(), "{url}");
        }
    }

    #[test]
    fn a_token_file_wins_over_the_variable_and_must_hold_something() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("token");
        std::fs::write(&file, "secret\n").unwrap();
        let read = token(Some(file.clone()), &|_| Some("other".to_owned()))
            .unwrap()
            .unwrap();
        assert_eq!(read.expose_secret(), "secret");
        std::fs::write(&file, "\n").unwrap();
        assert!(
            token(Some(file), &|_| None)
                .unwrap_err()
                .to_string()
                .contains("is empty")
        );
        let missing = token(Some("/nonexistent/token".into()), &|_| None).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/token"));
    }
}
