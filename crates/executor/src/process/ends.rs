//! Our ends of a program's pipes, or of its terminal.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use mainstay_wire::extension::Size;
use mainstay_wire::process::Stream;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::termios::Winsize;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::log::CHUNK_BYTES;
use crate::os;

/// What connects us to a program; each part goes when its other end is gone.
#[derive(Debug)]
pub(crate) struct Ends {
    stdin: Option<AsyncFd<OwnedFd>>,
    first: Option<Output>,
    second: Option<Output>,
    /// A terminal that nobody has open. Ours stays open until the program has exited: closing it would hang up, and so
    /// kill, one that has closed its input and output and goes on, or only has not come to its exit yet.
    deserted: Option<Output>,
}

/// One place where output comes out.
#[derive(Debug)]
struct Output {
    stream: Stream,
    end: AsyncFd<OwnedFd>,
}

/// One look at a program's output, not yet noted.
#[derive(Debug)]
pub(crate) struct Reading(usize, Option<(Stream, Vec<u8>)>);

/// What one look at a program's output found.
#[derive(Debug)]
pub(crate) enum Found {
    /// Output, at most one chunk of it.
    Output(Stream, Vec<u8>),
    /// That stream has ended.
    End,
}

impl Ends {
    /// Pipes. A missing `stdin` is the null device. Must run inside a tokio runtime.
    pub(crate) fn pipes(
        stdin: Option<OwnedFd>,
        stdout: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
    ) -> io::Result<Self> {
        let output = |stream, end: Option<OwnedFd>| {
            let end = end
                .map(|end| asynchronous(end, Interest::READABLE))
                .transpose()?;
            Ok::<_, io::Error>(end.map(|end| Output { stream, end }))
        };
        Ok(Self {
            stdin: stdin
                .map(|end| asynchronous(end, Interest::WRITABLE))
                .transpose()?,
            first: output(Stream::Stdout, stdout)?,
            second: output(Stream::Stderr, stderr)?,
            deserted: None,
        })
    }

    /// The controlling end of a terminal. Must run inside a tokio runtime.
    pub(crate) fn terminal(master: OwnedFd) -> io::Result<Self> {
        let end = asynchronous(master, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            stdin: None,
            first: Some(Output {
                stream: Stream::Pty,
                end,
            }),
            second: None,
            deserted: None,
        })
    }

    /// Whether no more output can come.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.first.is_none() && self.second.is_none()
    }

    /// Waits for output, or the end of one of the streams, standard output first; give it to [`Ends::take`], and look at
    /// [`Ends::read_other`] then. Never returns once all have ended. Cancel-safe.
    pub(crate) async fn read(&self) -> Reading {
        tokio::select! {
            biased;
            found = read(self.first.as_ref()) => Reading(0, found),
            found = read(self.second.as_ref()) => Reading(1, found),
        }
    }

    /// What standard error has at once: it comes after the standard output that was there before it, and does not wait for
    /// the end of more.
    pub(crate) fn read_other(&mut self) -> Option<Found> {
        let output = self.second.as_ref()?;
        let filled = output
            .end
            .try_io(Interest::READABLE, |_| Ok(output.fill()?));
        match filled {
            Ok(bytes) if bytes.is_empty() => Some(self.take(Reading(1, None))),
            Ok(bytes) => Some(Found::Output(output.stream, bytes)),
            Err(_) => None,
        }
    }

    /// What can be read without waiting.
    pub(crate) fn read_now(&mut self) -> Option<Found> {
        for place in 0..2 {
            let output = if place == 0 {
                &self.first
            } else {
                &self.second
            };
            let Some(output) = output else { continue };
            match output.fill() {
                Ok(bytes) if bytes.is_empty() => return Some(self.take(Reading(place, None))),
                Ok(bytes) => {
                    let found = Some((output.stream, bytes));
                    return Some(self.take(Reading(place, found)));
                }
                Err(Errno::AGAIN) => {}
                Err(_) => return Some(self.take(Reading(place, None))),
            }
        }
        None
    }

    /// Writes some of `bytes` as soon as the program takes some. Cancel-safe.
    pub(crate) async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let Some(input) = self.input() else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        loop {
            let mut guard = input.writable().await?;
            match guard.try_io(|input| Ok(rustix::io::write(input, bytes)?)) {
                Ok(written) => return written,
                Err(_would_block) => {}
            }
        }
    }

    /// Closes a standard input that is a pipe.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sets the terminal's size; the foreground job gets SIGWINCH. Nothing happens without a terminal.
    pub(crate) fn resize(&self, size: Size) -> io::Result<()> {
        match self.pty() {
            Some(master) => Ok(resize(master.get_ref(), size)?),
            None => Ok(()),
        }
    }

    /// The process group in the foreground of the terminal.
    pub(crate) fn foreground_group(&self) -> Option<Pid> {
        rustix::termios::tcgetpgrp(self.pty()?.get_ref()).ok()
    }

    /// What a reading found; an ended stream is forgotten.
    pub(crate) fn take(&mut self, Reading(place, found): Reading) -> Found {
        match found {
            Some((stream, bytes)) => Found::Output(stream, bytes),
            None => {
                if place == 0 {
                    let ended = self.first.take();
                    self.deserted = ended.filter(|output| output.stream == Stream::Pty);
                } else {
                    self.second = None;
                }
                Found::End
            }
        }
    }

    fn input(&self) -> Option<&AsyncFd<OwnedFd>> {
        self.stdin.as_ref().or(self.pty())
    }

    fn pty(&self) -> Option<&AsyncFd<OwnedFd>> {
        let output = self.first.as_ref()?;
        (output.stream == Stream::Pty).then_some(&output.end)
    }
}

impl Output {
    /// Reads until a chunk is full or nothing is left; empty at the end.
    fn fill(&self) -> Result<Vec<u8>, Errno> {
        let mut bytes = Vec::with_capacity(CHUNK_BYTES);
        loop {
            match rustix::io::read(&self.end, spare_capacity(&mut bytes)) {
                Ok(0) => break,
                // A pipe that gave less than was asked for is empty; a terminal hands out single lines.
                Ok(_) if self.stream != Stream::Pty || bytes.len() >= CHUNK_BYTES => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !bytes.is_empty() => break,
                // A terminal nobody has open any more.
                Err(Errno::IO) => break,
                Err(error) => return Err(error),
            }
        }
        if bytes.len() < CHUNK_BYTES / 2 {
            bytes.shrink_to_fit();
        }
        Ok(bytes)
    }
}

async fn read(output: Option<&Output>) -> Option<(Stream, Vec<u8>)> {
    let Some(output) = output else {
        return std::future::pending().await;
    };
    loop {
        let mut guard = output.end.readable().await.ok()?;
        match output.fill() {
            Ok(bytes) if bytes.is_empty() => return None,
            Ok(bytes) => {
                if bytes.len() < CHUNK_BYTES {
                    guard.clear_ready();
                }
                return Some((output.stream, bytes));
            }
            Err(Errno::AGAIN) => guard.clear_ready(),
            Err(_) => return None,
        }
    }
}

/// Sets the size of the terminal behind `master`.
pub(crate) fn resize(master: impl AsFd, size: Size) -> Result<(), Errno> {
    let size = Winsize {
        ws_row: size.rows,
        ws_col: size.cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(master, size)
}

fn asynchronous(end: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&end, true)?;
    os::watch(end, interest)
}
