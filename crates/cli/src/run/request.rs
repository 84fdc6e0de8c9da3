//! What `run` was asked for, checked: everything the wire carries is text.

use std::ffi::OsStr;

use anyhow::{Context, Result, bail};
use mainstay::{Command, TtySize};

use crate::args::RunArgs;

/// The command to run and how.
#[derive(Debug)]
pub(crate) struct Request {
    argv: Vec<String>,
    cwd: Option<String>,
    env: Vec<(String, String)>,
    /// A terminal is wanted.
    pub(crate) tty: bool,
    /// Local input is passed on.
    pub(crate) stdin: bool,
}

impl Request {
    /// Checks the arguments; `null_stdin` tells that standard input is the null device.
    ///
    /// # Errors
    /// Names what is not text, or not `K=V`.
    pub(crate) fn of(args: &RunArgs, null_stdin: bool) -> Result<Self> {
        let argv = args
            .command
            .iter()
            .map(|arg| text("the argument", arg))
            .collect::<Result<Vec<_>>>()?;
        let env = args
            .env
            .iter()
            .map(|pair| key_value(pair))
            .collect::<Result<Vec<_>>>()?;
        let cwd = args
            .cwd
            .as_deref()
            .map(|cwd| text("--cwd", cwd))
            .transpose()?;
        Ok(Self {
            argv,
            cwd,
            env,
            tty: args.tty,
            stdin: !args.no_stdin && !null_stdin,
        })
    }

    /// The program's name, as it was given.
    pub(crate) fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// The working directory that was asked for.
    pub(crate) fn cwd(&self) -> Option<&str> {
        self.cwd.as_deref()
    }

    /// The command for the library; `size` is the terminal's, `term` its `TERM`, for a command in a terminal.
    pub(crate) fn command(&self, size: TtySize, term: Option<String>) -> Command {
        let (program, arguments) = self
            .argv
            .split_first()
            .map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
        let mut command = Command::new(program).args(arguments.iter().cloned());
        if let Some(cwd) = &self.cwd {
            command = command.cwd(cwd.clone());
        }
        if self.tty {
            command = command.tty(size);
            if let Some(term) = term {
                command = command.env("TERM", term);
            }
        }
        if self.stdin {
            command = command.pipe_stdin();
        }
        command.envs(self.env.iter().cloned())
    }
}

fn text(what: &str, value: &OsStr) -> Result<String> {
    let text = value.to_str().with_context(|| {
        format!("{what} {value:?} is not UTF-8, and the protocol carries text only")
    })?;
    Ok(text.to_owned())
}

fn key_value(pair: &OsStr) -> Result<(String, String)> {
    let pair = text("--env", pair)?;
    match pair.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => bail!("--env takes K=V, not `{pair}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use std::{ffi::OsString, os::unix::ffi::OsStringExt};

    fn request(args: &[OsString]) -> Result<Request> {
        let all = [&["mainstay".into(), "run".into()], args].concat();
        let Command::Run(run) = Cli::try_parse_from(all).unwrap().command else {
            panic!("not run")
        };
        Request::of(&run, false)
    }

    #[test]
    fn what_is_not_text_is_named() {
        let odd = OsString::from_vec(b"a\xff".to_vec());
        let error = request(&["--".into(), "ls".into(), odd.clone()])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(r#""a\xFF""#) && error.contains("not UTF-8"),
            "{error}"
        );
        assert!(
            request(&["--cwd".into(), odd.clone(), "--".into(), "ls".into()])
                .unwrap_err()
                .to_string()
                .contains("--cwd")
        );
        assert!(
            request(&["--env".into(), odd, "--".into(), "ls".into()])
                .unwrap_err()
                .to_string()
                .contains("--env")
        );
    }

    #[test]
    fn variables_are_pairs() {
        let pair = |text: &str| request(&["--env".into(), text.into(), "--".into(), "ls".into()]);
        assert_eq!(
            pair("A=b=c").unwrap().env,
            [("A".to_owned(), "b=c".to_owned())]
        );
        assert!(pair("A").is_err() && pair("=b").is_err());
    }
}
