//! Running the `mainstay` binary, and asking the system about it.

use std::{collections::BTreeSet, path::PathBuf, process::Stdio, time::Duration};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// Nothing here takes this long; a test that does has hung.
pub const HANG: Duration = Duration::from_secs(120);

/// The binary under test: `Mainstay(env!("CARGO_BIN_EXE_mainstay"))`.
#[derive(Clone, Copy, Debug)]
pub struct Mainstay(pub &'static str);

impl Mainstay {
    /// A command without whatever the developer's shell has set for it; killed when dropped.
    pub fn command<S: AsRef<std::ffi::OsStr>>(self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(self.0);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MAINSTAY_") {
                command.env_remove(name);
            }
        }
        command.args(args).stdin(Stdio::null()).kill_on_drop(true);
        command
    }
}

/// What a finished program left.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: String,
}

/// Runs to the end with this input.
///
/// # Errors
/// When it cannot start or does not end.
pub async fn finish(command: &mut Command, input: &[u8]) -> Result<Finished> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if !input.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    let input = input.to_vec();
    let feeding = tokio::spawn(async move {
        if let Some(mut stdin) = stdin {
            // The program may end before it has read everything.
            let _ = stdin.write_all(&input).await;
        }
    });
    let output = tokio::time::timeout(HANG, child.wait_with_output())
        .await
        .context("hangs")??;
    feeding.abort();
    Ok(Finished {
        code: output.status.code(),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// A program that announces itself on its first line, as executor and registry do.
#[derive(Debug)]
pub struct Server {
    /// The process; killed when dropped.
    pub child: Child,
    /// What it said when it was ready.
    pub first_line: String,
    /// Keeps its standard output open.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    /// Starts it and waits for its first line.
    ///
    /// # Errors
    /// When it ends first.
    pub async fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        let first_line = tokio::time::timeout(HANG, lines.next_line())
            .await
            .context("hangs")??;
        Ok(Self {
            first_line: first_line.context("ended before it was ready")?,
            child,
            _lines: lines,
        })
    }

    /// Its process id.
    ///
    /// # Panics
    /// When it was waited for already.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("not waited for yet")
    }

    /// The process that a guard guards: its only child.
    ///
    /// # Errors
    /// When there is no guard here.
    pub fn ward(&self) -> Result<u32> {
        let own = self.pid();
        let children = std::fs::read_to_string(format!("/proc/{own}/task/{own}/children"))?;
        let first = children
            .split_whitespace()
            .next()
            .context("it has no child")?;
        Ok(first.parse()?)
    }

    /// Kills it and whatever it guards, and waits until all of that is gone.
    ///
    /// # Errors
    /// When something is still there after a while.
    pub async fn kill(mut self) -> Result<()> {
        let all = tree(self.pid());
        self.child.kill().await?;
        for pid in all {
            gone(pid, HANG).await?;
        }
        Ok(())
    }

    /// Waits for its end; its exit code.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn wait(mut self) -> Result<Option<i32>> {
        Ok(tokio::time::timeout(HANG, self.child.wait())
            .await
            .context("hangs")??
            .code())
    }
}

/// Sends a signal to a process.
///
/// # Panics
/// When it is not there.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid =
        rustix::process::Pid::from_raw(pid.try_into().expect("a process id")).expect("not zero");
    rustix::process::kill_process(pid, signal).expect("the process is there");
}

/// The process and all its descendants that are there now.
pub fn tree(root: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([root]);
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children =
                std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            for child in children
                .split_whitespace()
                .filter_map(|text| text.parse().ok())
            {
                if found.insert(child) {
                    open.push(child);
                }
            }
        }
    }
    found
}

/// The largest resident memory any process of this name below `root` ever had, in KiB.
pub fn peak_memory(root: u32, name: &str) -> u64 {
    let peak = |pid: &u32| -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |key: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .map(str::trim)
        };
        (field("Name:")? == name)
            .then(|| field("VmHWM:")?.trim_end_matches(" kB").parse().ok())
            .flatten()
    };
    tree(root).iter().filter_map(peak).max().unwrap_or(0)
}

/// Whether any process is left whose command line contains `mark`.
pub fn marked(mark: &str) -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .map(|entry| entry.path())
        .filter(|path| {
            std::fs::read(path.join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(mark))
        })
        .collect()
}

/// Waits until a process has ended, `patience` at most.
///
/// # Errors
/// When the system cannot wait.
pub async fn gone(pid: u32, patience: Duration) -> Result<()> {
    let pid = rustix::process::Pid::from_raw(pid.try_into()?).context("not a process")?;
    // Readable once the process has ended. It may be gone by now.
    if let Ok(end) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        let limit = rustix::event::Timespec::try_from(patience)?;
        let wait = move || poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&limit));
        let _ = tokio::task::spawn_blocking(wait).await?;
    }
    Ok(())
}

/// Waits until no process carries `mark`; fails after `patience`. Returns how long that took.
///
/// # Errors
/// When one is still there then.
pub async fn until_gone(mark: &str, patience: Duration) -> Result<Duration> {
    let start = std::time::Instant::now();
    let all_gone = async {
        while let Some(path) = marked(mark).first() {
            let pid = path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok());
            gone(pid.context("not a process")?, patience).await?;
            tokio::task::yield_now().await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(patience, all_gone)
        .await
        .with_context(|| format!("still there: {:?}", marked(mark)))??;
    Ok(start.elapsed())
}
