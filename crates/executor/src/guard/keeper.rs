//! The guard's side: waits for the ward and cleans up after it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::VARIABLE;
use crate::descent;

/// How long what a ward left behind may take to die of SIGKILL; something in the kernel's hands may never.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// Exit code of a ward whose status was lost.
const STATUS_LOST: i32 = 125;

/// What became of the ward.
enum Ward {
    Runs,
    Stopped,
    Ended(i32),
}

/// Starts the ward and guards it to its end; returns only if that cannot begin.
pub(super) fn keep(own: Pid) -> io::Result<()> {
    process::set_child_subreaper(Some(own))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let code = runtime.block_on(guard(own))?;
    descent::end_descendants(CLEAN_UP);
    std::process::exit(code)
}

async fn guard(own: Pid) -> io::Result<i32> {
    // Before the ward exists: nothing it does is missed.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut quit = signal(SignalKind::quit())?;
    // Under nohup it stays ignored.
    let mut hangup = match is_ignored(Signal::HUP) {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    let mut stop = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut go_on = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let mut changed = signal(SignalKind::child())?;
    let (ward, pipe) = start(own)?;
    loop {
        tokio::select! {
            biased;
            _ = changed.recv() => match look(ward) {
                Ward::Runs => {}
                // Stops here until the shell wakes the job.
                Ward::Stopped => send(own, Signal::STOP),
                Ward::Ended(code) => return Ok(code),
            },
            _ = interrupt.recv() => pass_on(&pipe, Signal::INT),
            _ = terminate.recv() => pass_on(&pipe, Signal::TERM),
            _ = quit.recv() => pass_on(&pipe, Signal::QUIT),
            _ = recv(hangup.as_mut()) => pass_on(&pipe, Signal::HUP),
            _ = stop.recv() => send(ward, Signal::TSTP),
            _ = go_on.recv() => send(ward, Signal::CONT),
        }
    }
}

async fn recv(stream: Option<&mut Stream>) -> Option<()> {
    match stream {
        Some(stream) => stream.recv().await,
        None => std::future::pending().await,
    }
}

fn start(own: Pid) -> io::Result<(Pid, OwnedFd)> {
    let (reading, writing) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // A ward that does not read must not hold up its guard; it is stuck anyway.
    rustix::io::ioctl_fionbio(&writing, true)?;
    // Nothing else is started here, so nothing else inherits it.
    rustix::io::fcntl_setfd(&reading, FdFlags::empty())?;
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    let program = std::env::current_exe()?;
    let ward = Command::new(program)
        .arg0(name.as_deref().unwrap_or(OsStr::new("mainstay")))
        .args(arguments)
        .env(
            VARIABLE,
            format!("{}:{}", reading.as_raw_fd(), own.as_raw_pid()),
        )
        .spawn()?;
    Ok((Pid::from_child(&ward), writing))
}

fn look(ward: Pid) -> Ward {
    let options = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
    let mut found = Ward::Runs;
    loop {
        match process::waitid(WaitId::Pid(ward), options) {
            Ok(Some(status)) if status.stopped() => found = Ward::Stopped,
            Ok(Some(status)) => {
                let killed = status.terminating_signal().map(|signal| 128 + signal);
                return Ward::Ended(status.exit_status().or(killed).unwrap_or(STATUS_LOST));
            }
            Ok(None) => return found,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Ward::Ended(STATUS_LOST),
        }
    }
}

fn pass_on(pipe: &OwnedFd, signal: Signal) {
    // A signal's number fits a byte. A ward that is gone is noticed by its end.
    let _ = rustix::io::write(pipe, &[signal.as_raw() as u8]);
}

fn send(to: Pid, signal: Signal) {
    let _ = process::kill_process(to, signal);
}

/// Whether this process was started with the signal ignored.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal.as_raw() - 1) & 1 == 1
}
