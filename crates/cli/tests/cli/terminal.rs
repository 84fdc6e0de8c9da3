//! `--tty`: a local terminal shows a remote one.

use anyhow::{Context, Result};
use mainstay_testkit::{
    fault_proxy::{FaultProxy, Mode},
    place::Place,
    program::{HANG, signal},
    seed::Seed,
};
use pty_process::{Pts, Pty, Size};
use rustix::termios::{LocalModes, tcgetattr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Child,
};

use crate::BIN;

/// A program in a terminal of ours.
struct Seat {
    pty: Pty,
    child: Child,
    seen: String,
}

impl Seat {
    fn start(flags: &[&str], size: Size) -> Result<Self> {
        let (pty, pts): (Pty, Pts) = pty_process::open()?;
        pty.resize(size)?;
        let plain = BIN.command(flags);
        let plain = plain.as_std();
        let mut command = pty_process::Command::new(plain.get_program())
            .args(plain.get_args())
            .kill_on_drop(true);
        for (name, value) in plain.get_envs() {
            command = match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = command.env("TERM", "xterm-test").spawn(pts)?;
        Ok(Self {
            pty,
            child,
            seen: String::new(),
        })
    }

    async fn type_text(&mut self, text: &str) -> Result<()> {
        Ok(self.pty.write_all(text.as_bytes()).await?)
    }

    /// Waits until the terminal has shown `text` after what was waited for before; returns what stood before it.
    async fn until(&mut self, text: &str) -> Result<String> {
        let reading = async {
            let mut buffer = vec![0; 4096];
            loop {
                if let Some(place) = self.seen.find(text) {
                    let rest = self.seen.split_off(place + text.len());
                    let shown = std::mem::replace(&mut self.seen, rest);
                    return anyhow::Ok(shown);
                }
                let read = self
                    .pty
                    .read(&mut buffer)
                    .await
                    .with_context(|| format!("only {:?}", self.seen))?;
                self.seen
                    .push_str(&String::from_utf8_lossy(&buffer[..read]));
            }
        };
        tokio::time::timeout(HANG, reading)
            .await
            .with_context(|| format!("hangs before {text:?}"))?
    }

    async fn code(&mut self) -> Result<Option<i32>> {
        Ok(tokio::time::timeout(HANG, self.child.wait())
            .await
            .context("hangs")??
            .code())
    }

    fn is_raw(&self) -> Result<bool> {
        Ok(!tcgetattr(&self.pty)?
            .local_modes
            .contains(LocalModes::ICANON))
    }
}

async fn run_in_seat(flags: &[&str], command: &[&str]) -> Result<(Place, Seat)> {
    let place = Place::direct(BIN).await?;
    let url = place
        .executor
        .as_ref()
        .context("its own")?
        .first_line
        .clone();
    let all = [&["run", "--url", &url, "--tty"], flags, &["--"], command].concat();
    let seat = Seat::start(&all, Size::new(33, 77))?;
    Ok((place, seat))
}

#[tokio::test]
async fn the_command_has_a_terminal_of_the_local_size_and_kind() -> Result<()> {
    let (_place, mut seat) = run_in_seat(
        &[],
        &["sh", "-c", "test -t 0 && stty size && echo $TERM; exit 3"],
    )
    .await?;
    let shown = seat.until("xterm-test").await?;
    assert!(shown.contains("33 77"), "{shown:?}");
    assert_eq!(seat.code().await?, Some(3));
    assert!(!seat.is_raw()?, "restored");
    Ok(())
}

#[tokio::test]
async fn a_new_size_reaches_the_command() -> Result<()> {
    let script = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done";
    let (_place, mut seat) = run_in_seat(&[], &["sh", "-c", script]).await?;
    seat.until("ready").await?;
    seat.pty.resize(Size::new(44, 99))?;
    seat.until("44 99").await?;
    assert_eq!(seat.code().await?, Some(0));
    Ok(())
}

#[tokio::test]
async fn a_command_that_closes_its_terminal_first_keeps_its_exit_code() -> Result<()> {
    let script = "exec 0<&- 1>&- 2>&-; sleep 0.2; exit 7";
    let (_place, mut seat) = run_in_seat(&[], &["sh", "-c", script]).await?;
    assert_eq!(seat.code().await?, Some(7), "not hung up");
    Ok(())
}

#[tokio::test]
async fn keys_go_to_the_command_and_the_terminal_is_restored() -> Result<()> {
    let (_place, mut seat) = run_in_seat(
        &[],
        &[
            "sh",
            "-c",
            "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.01; done",
        ],
    )
    .await?;
    seat.until("ready").await?;
    assert!(seat.is_raw()?);
    seat.type_text("\x03").await?;
    seat.until("caught").await?;
    assert_eq!(seat.code().await?, Some(5));
    assert!(!seat.is_raw()?, "restored");
    Ok(())
}

#[tokio::test]
async fn the_terminal_is_restored_after_signals() -> Result<()> {
    for (number, code) in [
        (rustix::process::Signal::TERM, 143),
        (rustix::process::Signal::HUP, 129),
    ] {
        let (_place, mut seat) =
            run_in_seat(&[], &["sh", "-c", "echo ready; exec sleep 424243"]).await?;
        seat.until("ready").await?;
        assert!(seat.is_raw()?);
        signal(seat.child.id().context("running")?, number);
        assert_eq!(seat.code().await?, Some(code));
        assert!(!seat.is_raw()?, "restored after {number:?}");
    }
    Ok(())
}

#[tokio::test]
async fn the_terminal_is_restored_when_the_executor_dies() -> Result<()> {
    let (place, mut seat) = run_in_seat(
        &["--recover-for", "500ms"],
        &["sh", "-c", "echo ready; exec sleep 424244"],
    )
    .await?;
    seat.until("ready").await?;
    let executor = place.executor.as_ref().context("its own")?.ward()?;
    signal(executor, rustix::process::Signal::KILL);
    seat.until("the command is lost").await?;
    assert_eq!(seat.code().await?, Some(125));
    assert!(!seat.is_raw()?, "restored");
    Ok(())
}

#[tokio::test]
async fn a_stopped_run_gives_the_terminal_back_and_takes_it_again() -> Result<()> {
    let (_place, mut seat) =
        run_in_seat(&[], &["sh", "-c", "echo ready; read line; echo got-$line"]).await?;
    seat.until("ready").await?;
    let pid = seat.child.id().context("running")?;
    signal(pid, rustix::process::Signal::TSTP);
    stopped(pid).await?;
    assert!(
        !seat.is_raw()?,
        "a stopped program leaves the terminal to others"
    );
    signal(pid, rustix::process::Signal::CONT);
    seat.type_text("typed\r").await?;
    seat.until("got-typed").await?;
    assert_eq!(seat.code().await?, Some(0));
    assert!(!seat.is_raw()?, "restored");
    Ok(())
}

/// Waits until a child of ours has stopped.
async fn stopped(pid: u32) -> Result<()> {
    let pid = rustix::process::Pid::from_raw(pid.try_into()?).context("a process")?;
    tokio::task::spawn_blocking(move || {
        let options =
            rustix::process::WaitIdOptions::STOPPED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options)
    })
    .await??;
    Ok(())
}

#[tokio::test]
async fn typed_lines_over_twenty_cuts_are_echoed_once_in_order() -> Result<()> {
    let place = Place::direct(BIN).await?;
    let proxy = FaultProxy::transparent(place.executor_addr()?).await?;
    let mut seat = Seat::start(
        &[
            "run",
            "--url",
            &proxy.url("ws"),
            "--tty",
            "--",
            "sh",
            "-c",
            "stty -echo; echo ready; exec cat",
        ],
        Size::new(24, 80),
    )?;
    seat.until("ready\r\n").await?;
    let mut seed = Seed::from_env(3);
    let mut all = String::new();
    for line in 0..200 {
        if line % 10 == 5 {
            proxy.cut(if seed.within(&(0..=1)) == 0 {
                Mode::Abort
            } else {
                Mode::Close
            });
        }
        seat.type_text(&format!("line {line}\r")).await?;
        // Some lines wait for their echo, others pile up.
        if seed.within(&(0..=2)) > 0 {
            all += &seat.until(&format!("line {line}\r\n")).await?;
        }
    }
    seat.type_text("\x04").await?;
    assert_eq!(seat.code().await?, Some(0));
    let mut rest = Vec::new();
    // A terminal that nobody holds any more ends with EIO.
    let _ = seat.pty.read_to_end(&mut rest).await;
    all += &seat.seen;
    all += &String::from_utf8_lossy(&rest);
    let expected: String = (0..200).map(|line| format!("line {line}\r\n")).collect();
    assert_eq!(all, expected);
    assert!(
        proxy.counters().cut + proxy.counters().ended >= 20,
        "{:?}",
        proxy.counters()
    );
    Ok(())
}
