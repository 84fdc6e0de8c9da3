//! Starting a program: lookup on the child's own PATH, pipes or a terminal, its own process group.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mainstay_wire::extension::{Missing, Size};
use mainstay_wire::process::{SpawnErrorData, SpawnErrorKind, StartParams};
use mainstay_wire::{RpcError, limits};
use rustix::fs::{Access, Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;

use super::child::Child;
use super::ends::Ends;
use super::environment;
use crate::nursery::Nursery;
use crate::{guard, os, sandbox};

/// Where a program is looked for when its environment has no PATH, as execvp does.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Everything needed to start one program.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Program and arguments; not empty.
    pub(crate) argv: Vec<String>,
    /// What the program sees as its name; `argv[0]` if absent.
    pub(crate) arg0: Option<String>,
    /// The whole environment.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Working directory.
    pub(crate) cwd: PathBuf,
    /// The terminal's size, if it runs in one.
    pub(crate) terminal: Option<Size>,
    /// Whether its standard input is a pipe; else it is the null device (without a terminal).
    pub(crate) pipe_stdin: bool,
}

impl Plan {
    /// What `process/start` asks for, or why that cannot be.
    pub(crate) fn new(params: StartParams) -> Result<Self, RpcError> {
        if params.argv.is_empty() {
            return Err(RpcError::invalid_params("argv must not be empty"));
        }
        let cwd = params.cwd.to_native().map_err(|error| {
            let uri = &params.cwd;
            RpcError::invalid_params(format_args!(
                "cwd URI `{uri}` is not valid on this exec-server host: {error}"
            ))
        })?;
        sandbox::permit_process(params.sandbox.as_ref())?;
        if params.network_proxy.is_some() {
            return Err(RpcError::internal("this executor has no network proxy"));
        }
        let size = params.mainstay.and_then(|extension| extension.size);
        let size = size.unwrap_or(Size {
            rows: limits::TTY_ROWS,
            cols: limits::TTY_COLS,
        });
        Ok(Self {
            env: environment::build(std::env::vars_os(), params.env_policy.as_ref(), &params.env),
            argv: params.argv,
            arg0: params.arg0,
            cwd,
            terminal: params.tty.then_some(size),
            pipe_stdin: params.pipe_stdin,
        })
    }
}

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct SpawnError {
    kind: SpawnErrorKind,
    message: String,
    missing: Option<Missing>,
}

impl SpawnError {
    fn new(error: &io::Error, missing: Option<Missing>) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => SpawnErrorKind::SpawnNotFound,
            io::ErrorKind::PermissionDenied => SpawnErrorKind::SpawnPermissionDenied,
            _ => SpawnErrorKind::SpawnFailed,
        };
        let missing = missing.filter(|_| kind == SpawnErrorKind::SpawnNotFound);
        Self {
            kind,
            message: error.to_string(),
            missing,
        }
    }
}

impl From<io::Error> for SpawnError {
    fn from(error: io::Error) -> Self {
        Self::new(&error, None)
    }
}

impl From<rustix::io::Errno> for SpawnError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::new(&error.into(), None)
    }
}

impl From<SpawnError> for RpcError {
    fn from(error: SpawnError) -> Self {
        let data = SpawnErrorData {
            kind: error.kind,
            mainstay_missing: error.missing,
        };
        // Two plain members: cannot fail.
        RpcError::internal(error.message).with_data(serde_json::to_value(data).unwrap_or_default())
    }
}

/// Starts the program. Blocks for as long as the kernel takes to run it (a file system may be slow): call it where
/// blocking is allowed, inside a tokio runtime.
pub(crate) fn spawn(plan: &Plan, nursery: Nursery) -> Result<(Child, Ends), SpawnError> {
    if plan.argv.first().is_none_or(String::is_empty) {
        let place = if plan.terminal.is_some() {
            "PTY"
        } else {
            "pipe"
        };
        return Err(SpawnError {
            kind: SpawnErrorKind::SpawnFailed,
            message: format!("missing program for {place} spawn"),
            missing: None,
        });
    }
    check_directory(&plan.cwd)?;
    let mut command = command(plan)?;
    match plan.terminal {
        Some(size) => spawn_in_terminal(&mut command, size, nursery),
        None => spawn_with_pipes(&mut command, plan.pipe_stdin, nursery),
    }
}

fn check_directory(cwd: &Path) -> Result<(), SpawnError> {
    match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(rustix::io::Errno::NOTDIR.into()),
        Err(error) => Err(SpawnError::new(&error, Some(Missing::Cwd))),
    }
}

fn command(plan: &Plan) -> Result<Command, SpawnError> {
    let name = OsStr::new(&plan.argv[0]);
    let program = look_up(name, plan.env.get(OsStr::new("PATH")), &plan.cwd)
        .map_err(|error| SpawnError::new(&error, Some(Missing::Program)))?;
    let mut command = Command::new(program);
    command
        .arg0(plan.arg0.as_deref().map_or(name, OsStr::new))
        .args(&plan.argv[1..])
        .env_clear()
        .envs(&plan.env)
        .current_dir(&plan.cwd);
    Ok(command)
}

/// The program as an absolute path, found as execvp would find it with that PATH in that directory. Looking it up
/// here lets std use vfork, and keeps a missing program apart from a missing directory.
fn look_up(name: &OsStr, path: Option<&OsString>, cwd: &Path) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Ok(cwd.join(name));
    }
    let path = path.map_or(OsStr::new(DEFAULT_PATH), OsString::as_os_str);
    let mut refused = false;
    for directory in std::env::split_paths(path) {
        let candidate = cwd.join(directory).join(name);
        match rustix::fs::access(&candidate, Access::EXEC_OK) {
            Ok(()) if candidate.is_file() => return Ok(candidate),
            Ok(()) | Err(rustix::io::Errno::ACCESS) => refused = true,
            Err(_) => {}
        }
    }
    Err(if refused {
        rustix::io::Errno::ACCESS.into()
    } else {
        rustix::io::Errno::NOENT.into()
    })
}

fn spawn_with_pipes(
    command: &mut Command,
    pipe_stdin: bool,
    nursery: Nursery,
) -> Result<(Child, Ends), SpawnError> {
    command
        .process_group(0)
        .stdin(if pipe_stdin {
            Stdio::piped()
        } else {
            Stdio::null()
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let (child, pipes) = start(command, nursery)?;
    let ends = Ends::pipes(
        pipes.stdin.map(OwnedFd::from),
        pipes.stdout.map(OwnedFd::from),
        pipes.stderr.map(OwnedFd::from),
    )?;
    Ok((child, ends))
}

fn spawn_in_terminal(
    command: &mut Command,
    size: Size,
    nursery: Nursery,
) -> Result<(Child, Ends), SpawnError> {
    let master =
        rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    super::ends::resize(&master, size)?;
    command
        .stdin(terminal.try_clone()?)
        .stdout(terminal.try_clone()?)
        .stderr(terminal);
    os::lead_terminal_session(command);
    let (child, _) = start(command, nursery)?;
    Ok((child, Ends::terminal(master)?))
}

fn start(
    command: &mut Command,
    nursery: Nursery,
) -> Result<(Child, std::process::Child), SpawnError> {
    // Both program and directory were found; what vanished since then, or the interpreter of a script, counts as
    // the program.
    let started = command
        .spawn()
        .map_err(|error| SpawnError::new(&error, Some(Missing::Program)))?;
    let pid = Pid::from_child(&started);
    if guard::is_dying() {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
    nursery.born(pid);
    Ok((Child::new(pid, nursery)?, started))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, path: Option<&str>, cwd: &Path) -> io::Result<PathBuf> {
        look_up(OsStr::new(name), path.map(OsString::from).as_ref(), cwd)
    }

    #[test]
    fn looks_up_as_execvp_does() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let (plain, runs) = (dir.path().join("plain"), dir.path().join("bin/runs"));
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        for (path, mode) in [(&plain, 0o644), (&runs, 0o755)] {
            std::fs::write(path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        assert_eq!(
            found("./x", None, Path::new("/srv")).unwrap(),
            Path::new("/srv/./x")
        );
        assert_eq!(
            found("/x/y", None, Path::new("/srv")).unwrap(),
            Path::new("/x/y")
        );
        assert_eq!(
            found("runs", Some("/nowhere:bin"), dir.path()).unwrap(),
            runs
        );
        let kind = |result: io::Result<PathBuf>| result.unwrap_err().kind();
        assert_eq!(
            kind(found("plain", Some("bin:."), dir.path())),
            io::ErrorKind::PermissionDenied
        );
        assert_eq!(
            kind(found("bin", Some("."), dir.path())),
            io::ErrorKind::PermissionDenied
        );
        assert_eq!(
            kind(found("none", Some("bin:."), dir.path())),
            io::ErrorKind::NotFound
        );
        assert!(
            found("true", None, dir.path())
                .unwrap()
                .ends_with("bin/true")
        );
    }
}
