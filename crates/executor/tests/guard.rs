//! Nothing outlives executor and guard, whichever of the two dies (design.md 4).
//!
//! The tests start this test binary again as the program under test: its entry is the test `entry`, which does nothing
//! unless it was started that way.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use mainstay_executor::{Config, Executor};
use mainstay_testkit::rpc_client::RpcClient;
use rustix::process::{Pid, Signal};
use serde_json::json;

/// What the program under test does; unset in the tests themselves.
const ROLE: &str = "MAINSTAY_TEST_ROLE";

/// Found in the environment of every process of one test.
const MARK: &str = "MAINSTAY_TEST_MARK";

/// Nine processes that go their own ways.
const TREE: &str = "
    setsid sleep 1000 &
    (setsid sh -c 'sleep 1000; :' &)
    nohup sleep 1000 >/dev/null 2>&1 &
    (nohup setsid sleep 1000 >/dev/null 2>&1 &)
    sh -c '(sleep 1000 &) ; sleep 1000; :' &
    wait; sleep 1000";

const PROCESSES: usize = 9;

#[test]
fn entry() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    mainstay_executor::guard().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match role.as_str() {
        "tree" => runtime.block_on(tree()).unwrap(),
        "signals" => runtime.block_on(count_signals()).unwrap(),
        "exit" => std::process::exit(7),
        "wait" => loop {
            println!("ward {}", std::process::id());
            std::thread::park();
        },
        other => panic!("{other}"),
    }
}

/// Runs the tree and says its own pid once all of it is there.
async fn tree() -> Result<()> {
    let executor = Executor::start(Config::default()).await?;
    let url = executor.listen("127.0.0.1:0".parse()?).await?;
    let mut client = RpcClient::connect(&url).await?;
    client.initialize(None).await?;
    let mark = std::env::var(MARK)?;
    let params = json!({"processId": "tree", "argv": ["/bin/sh", "-c", TREE], "cwd": "file:///", "tty": false,
                        "env": {"PATH": "/usr/bin:/bin", MARK: format!("{mark}-tree")}});
    client
        .call("process/start", params)
        .await?
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    println!("ward {}", std::process::id());
    client.wait_for("process/closed").await?;
    Ok(())
}

/// Says every termination it hears.
async fn count_signals() -> Result<()> {
    let mut terminate = mainstay_executor::signal(tokio::signal::unix::SignalKind::terminate())?;
    println!("ward {}", std::process::id());
    for number in 1.. {
        terminate.recv().await.context("signals ended")?;
        println!("heard {number}");
    }
    Ok(())
}

struct Guarded {
    mark: String,
    guard: Child,
    ward: Pid,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Guarded {
    fn start(role: &str, user: Option<u32>) -> Result<Self> {
        let mark = format!(
            "{role}-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["--exact", "entry", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(MARK, &mark)
            // A job of its own, as a shell makes it: SIGTSTP means nothing to a group that nobody in the session watches over.
            .process_group(0)
            .stdout(Stdio::piped());
        if let Some(user) = user {
            command.uid(user).gid(user).current_dir("/");
        }
        let mut guard = command.spawn()?;
        let lines = BufReader::new(guard.stdout.take().context("stdout")?).lines();
        let mut guarded = Self {
            mark,
            guard,
            ward: Pid::INIT,
            lines,
        };
        let ward = guarded.line("ward ")?;
        guarded.ward = Pid::from_raw(ward.parse()?).context("pid")?;
        Ok(guarded)
    }

    /// The rest of the next line that begins so.
    fn line(&mut self, begin: &str) -> Result<String> {
        for line in &mut self.lines {
            let line = line?;
            if let Some((_, rest)) = line.split_once(begin) {
                return Ok(rest.to_owned());
            }
        }
        bail!("no line with {begin:?}")
    }

    fn guard_pid(&self) -> Pid {
        Pid::from_child(&self.guard)
    }

    /// Pids of the processes whose environment has the mark, `suffix` added.
    fn marked(&self, suffix: &str) -> usize {
        let wanted = format!("{MARK}={}{suffix}", self.mark);
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let has_mark = |entry: &std::fs::DirEntry| {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted.as_bytes())
        };
        processes.filter(has_mark).count()
    }

    /// Looks until there are so many.
    fn until_marked(
        &self,
        suffix: &str,
        count: impl Fn(usize) -> bool,
        within: Duration,
    ) -> Result<()> {
        let begin = Instant::now();
        loop {
            let found = self.marked(suffix);
            if count(found) {
                return Ok(());
            }
            if begin.elapsed() > within {
                bail!("{found} processes with {suffix:?} after {within:?}");
            }
            std::thread::yield_now();
        }
    }
}

fn kill(pid: Pid, signal: Signal) -> Result<()> {
    Ok(rustix::process::kill_process(pid, signal)?)
}

fn nothing_survives(user: Option<u32>, kill_guard: bool) -> Result<()> {
    let mut guarded = Guarded::start("tree", user)?;
    guarded.until_marked("-tree", |found| found >= PROCESSES, Duration::from_secs(20))?;
    let victim = if kill_guard {
        guarded.guard_pid()
    } else {
        guarded.ward
    };
    kill(victim, Signal::KILL)?;
    guarded.until_marked("-tree", |found| found == 0, Duration::from_secs(1))?;
    let status = guarded.guard.wait()?;
    if kill_guard {
        assert_eq!(status.signal(), Some(9));
        guarded.until_marked("", |found| found == 0, Duration::from_secs(1))?;
    } else {
        assert_eq!(status.code(), Some(137));
    }
    Ok(())
}

/// A user without privileges, if we may become one and it may run this binary.
fn nobody() -> Option<u32> {
    let probe = |user| {
        Command::new(std::env::current_exe()?)
            .arg("--list")
            .uid(user)
            .stdout(Stdio::null())
            .status()
    };
    let user = 65534;
    (rustix::process::geteuid().is_root() && probe(user).is_ok_and(|status| status.success()))
        .then_some(user)
}

#[test]
fn nothing_survives_the_executor() -> Result<()> {
    nothing_survives(None, false)
}

#[test]
fn nothing_survives_the_guard() -> Result<()> {
    nothing_survives(None, true)
}

#[test]
fn nothing_survives_without_privileges() -> Result<()> {
    if let Some(user) = nobody() {
        nothing_survives(Some(user), false)?;
        nothing_survives(Some(user), true)?;
    } else {
        eprintln!("skipped: needs root, and a build folder that user 65534 may enter");
    }
    Ok(())
}

#[test]
fn the_exit_code_is_the_wards() -> Result<()> {
    let status = Command::new(std::env::current_exe()?)
        .args(["--exact", "entry", "--nocapture"])
        .env(ROLE, "exit")
        .stdout(Stdio::null())
        .status()?;
    assert_eq!(status.code(), Some(7));
    Ok(())
}

#[test]
fn a_signal_to_the_guard_is_heard_and_one_to_both_is_heard_once() -> Result<()> {
    let mut guarded = Guarded::start("signals", None)?;
    let (guard, ward) = (guarded.guard_pid(), guarded.ward);
    kill(guard, Signal::TERM)?;
    assert_eq!(guarded.line("heard ")?, "1");
    // Both of the same: the third is proof that the second was one.
    kill(ward, Signal::TERM)?;
    kill(guard, Signal::TERM)?;
    assert_eq!(guarded.line("heard ")?, "2");
    kill(guard, Signal::TERM)?;
    assert_eq!(guarded.line("heard ")?, "3");
    kill(ward, Signal::KILL)?;
    assert_eq!(guarded.guard.wait()?.code(), Some(137));
    Ok(())
}

#[test]
fn a_signal_nobody_listens_for_has_its_default_action() -> Result<()> {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut guarded = Guarded::start("wait", None)?;
        kill(guarded.guard_pid(), signal)?;
        assert_eq!(guarded.guard.wait()?.code(), Some(code));
    }
    Ok(())
}

#[test]
fn job_control_stops_and_continues_both() -> Result<()> {
    let mut guarded = Guarded::start("wait", None)?;
    let state = |pid: Pid| -> Result<char> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid()))?;
        let (_, rest) = stat.rsplit_once(") ").context("stat")?;
        rest.chars().next().context("state")
    };
    let until = |wanted: bool| -> Result<()> {
        let begin = Instant::now();
        while (state(guarded.guard_pid())? == 'T') != wanted
            || (state(guarded.ward)? == 'T') != wanted
        {
            if begin.elapsed() > Duration::from_secs(5) {
                bail!(
                    "guard {} ward {}",
                    state(guarded.guard_pid())?,
                    state(guarded.ward)?
                );
            }
            std::thread::yield_now();
        }
        Ok(())
    };
    for _ in 0..3 {
        kill(guarded.guard_pid(), Signal::TSTP)?;
        until(true)?;
        kill(guarded.guard_pid(), Signal::CONT)?;
        until(false)?;
    }
    kill(guarded.guard_pid(), Signal::TERM)?;
    assert_eq!(guarded.guard.wait()?.code(), Some(143));
    Ok(())
}
