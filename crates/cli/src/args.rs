//! The command line: what `mainstay --help` teaches.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::duration;

const ROOT_EXAMPLES: &str = "\
Examples:
  mainstay run -- make test                      run here, through everything, without any setup
  mainstay run --url ws://127.0.0.1:9000 -- ls   run on an executor's own listener
  MAINSTAY_TOKEN_FILE=harness.token \\
  mainstay run --registry http://127.0.0.1:7350 --environment build -- ls
                                                 run on whatever executor serves `build` now

Every subcommand explains itself with --help.";

const RUN_HELP: &str = "\
Where it runs:
  --url, or --registry with --environment; else MAINSTAY_URL, or MAINSTAY_REGISTRY with
  MAINSTAY_ENVIRONMENT; else here: a registry, a relay and an executor are started on loopback and
  the command runs through them. Tokens come from MAINSTAY_TOKEN, or from the file that
  MAINSTAY_TOKEN_FILE or --token-file names; never from the command line, which `ps` shows.

What it passes through:
  Standard input, output and error, byte for byte, and the exit code. The command's environment is
  the executor's plus --env; its working directory is the executor's unless --cwd is given.
  Ctrl-C interrupts the command, a second Ctrl-C ends it.

Exit code:
  the command's own; 128+n if signal n killed it; 127 if there is no such program, 126 if it cannot
  be executed; 125 if Mainstay itself failed or the outcome is not known.

Examples:
  mainstay run -- sh -c 'cat; exit 7' < input
  mainstay run --tty -- bash
  mainstay run --cwd src --env CI=1 --recover-for 2m -- make";

const EXECUTOR_HELP: &str = "\
Ready when:
  the first line is on standard output: the bound URL, or `registered ENVIRONMENT REGISTRATION`
  once the connection to the relay is up. Logs go to standard error.

Signals:
  SIGTERM or SIGINT: no new work, running commands get SIGTERM and after 5 s SIGKILL, exit code 0;
  a second one ends it at once.

Examples:
  mainstay executor --listen ws://127.0.0.1:9000
  MAINSTAY_TOKEN_FILE=executor.token mainstay executor --registry http://127.0.0.1:7350 --environment build";

const REGISTRY_HELP: &str = "\
Ready when:
  the first line is on standard output: its http:// URL. Logs go to standard error.

Signals:
  SIGHUP reads the tokens file again. SIGTERM or SIGINT: peers are told when to come back, 5 s to
  finish, exit code 0; a second one ends it at once.

Example:
  mainstay registry token --tokens tokens.json --environment build --role executor > executor.token
  mainstay registry token --tokens tokens.json --environment build --role harness > harness.token
  mainstay registry --tokens tokens.json";

/// Runs commands on a remote executor and keeps the session standing.
#[derive(Debug, Parser)]
#[command(name = "mainstay", version, after_help = ROOT_EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// More log on standard error: -v for what happens, -vv for how. MAINSTAY_LOG sets filters.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs one command and passes its input, output and exit code through.
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Runs the far end: executes commands for clients that connect, or that a registry sends.
    #[command(after_help = EXECUTOR_HELP)]
    Executor(ExecutorArgs),
    /// Runs the registry and relay that bring clients and executors together.
    #[command(after_help = REGISTRY_HELP, args_conflicts_with_subcommands = true)]
    Registry(RegistryArgs),
}

/// How a registry is reached, for both of its kinds of users.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Rendezvous {
    /// Registry to ask, http:// or https:// [env: MAINSTAY_REGISTRY].
    #[arg(long, value_name = "URL")]
    pub(crate) registry: Option<String>,
    /// Environment id at the registry [env: MAINSTAY_ENVIRONMENT].
    #[arg(long, value_name = "ID")]
    pub(crate) environment: Option<String>,
    /// File that holds the bearer token [env: MAINSTAY_TOKEN_FILE; or the token in MAINSTAY_TOKEN].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Executor's listener, ws:// or wss:// [env: MAINSTAY_URL].
    #[arg(long, value_name = "URL", conflicts_with_all = ["registry", "environment"])]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) rendezvous: Rendezvous,
    /// Runs the command in a terminal; a local one is raw for as long.
    #[arg(short, long)]
    pub(crate) tty: bool,
    /// Starts the command without standard input.
    #[arg(short = 'n', long)]
    pub(crate) no_stdin: bool,
    /// Working directory, on the executor's machine; a relative one is below the executor's own.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<OsString>,
    /// Sets a variable for the command; may be repeated.
    #[arg(long, value_name = "K=V")]
    pub(crate) env: Vec<OsString>,
    /// How long a lost connection may take to come back, as 500ms, 30s or 2m [default: what the executor keeps a session, less 5 s].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) recover_for: Option<Duration>,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ExecutorArgs {
    /// Where to listen: ws://IP:PORT, or `stdio` [default without a registry: ws://127.0.0.1:0].
    #[arg(long, value_name = "URL")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) listen_auth: ListenAuth,
    #[command(flatten)]
    pub(crate) rendezvous: Rendezvous,
    /// How long a session without a connection is kept, as 30s or 5m.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "80s")]
    pub(crate) retention: Duration,
}

/// What clients of a listener must show; one of the two is required to listen on other than loopback addresses.
#[derive(Debug, Args)]
pub(crate) struct ListenAuth {
    /// File that holds a token which clients of --listen must show; needed beyond loopback addresses, or the next one.
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen",
        conflicts_with = "listen_secret_file"
    )]
    pub(crate) listen_token_file: Option<PathBuf>,
    /// File that holds a secret of at least 32 bytes; clients of --listen must show a JSON Web Token signed with it (HS256).
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) listen_secret_file: Option<PathBuf>,
    /// What `iss` of such a token must be.
    #[arg(long, value_name = "ISSUER", requires = "listen_secret_file")]
    pub(crate) listen_issuer: Option<String>,
    /// What `aud` of such a token must name.
    #[arg(long, value_name = "AUDIENCE", requires = "listen_secret_file")]
    pub(crate) listen_audience: Option<String>,
    /// How far the clocks of whoever signs and this machine may be apart, as 30s [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, requires = "listen_secret_file")]
    pub(crate) listen_clock_skew: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct RegistryArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RegistryCommand>,
    /// Address to listen on.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:7350")]
    pub(crate) listen: SocketAddr,
    /// URL under which others reach this registry, if it is not the address it listens on.
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// File of token digests, made by `mainstay registry token`.
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) tokens: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RegistryCommand {
    /// Makes a token, prints it once, and adds its digest to the tokens file.
    Token(TokenArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// File of token digests; created with mode 0600 if it is missing.
    #[arg(long, value_name = "FILE")]
    pub(crate) tokens: PathBuf,
    /// Environment id the token is for: letters, digits, `_` and `-`, at most 64.
    #[arg(long, value_name = "ID")]
    pub(crate) environment: String,
    /// What its bearer may do there.
    #[arg(long)]
    pub(crate) role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Serve the environment.
    Executor,
    /// Run commands in it.
    Harness,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn arguments_of_the_command_are_its_own() {
        let cli =
            Cli::try_parse_from(["mainstay", "run", "--tty", "ls", "--url", "-n", "--", "-x"])
                .unwrap();
        let Command::Run(run) = cli.command else {
            panic!("not run")
        };
        assert!(run.tty && !run.no_stdin && run.url.is_none());
        assert_eq!(run.command, ["ls", "--url", "-n", "--", "-x"]);
    }

    #[test]
    fn two_destinations_and_no_command_are_refused() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["mainstay", "run"], args].concat());
        assert!(parse(&["--url", "ws://h:1", "--registry", "http://h:2", "--", "ls"]).is_err());
        assert!(parse(&["--"]).is_err());
        assert!(parse(&[]).is_err());
    }

    #[test]
    fn a_registry_needs_tokens_unless_it_makes_one() {
        assert!(Cli::try_parse_from(["mainstay", "registry"]).is_err());
        assert!(Cli::try_parse_from(["mainstay", "registry", "--tokens", "t"]).is_ok());
        let token = [
            "mainstay",
            "registry",
            "token",
            "--tokens",
            "t",
            "--environment",
            "e",
            "--role",
            "harness",
        ];
        assert!(Cli::try_parse_from(token).is_ok());
    }
}
