//! Local standard input to the command's.
//!
//! A thread reads, because reads of a terminal or a pipe block and a stopped runtime must not wait for them; a task writes.

use std::io;

use bytes::Bytes;
use mainstay::Stdin;
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    stdio::stdin,
};
use tokio::{io::AsyncWriteExt, sync::mpsc, task::JoinHandle};

use crate::ending::say;

/// One read.
const CHUNK: usize = 64 * 1024;
/// Reads that may wait for the executor.
const AHEAD: usize = 4;
/// What ends input in a terminal (VEOF).
const END_OF_TRANSMISSION: u8 = 4;

/// Passes input on until either side ends. Aborting the task stops it; the reading thread ends with the program.
pub(crate) fn pass_on(process: Stdin, tty: bool) -> JoinHandle<()> {
    let (chunks, received) = mpsc::channel(AHEAD);
    std::thread::spawn(move || read_all(&chunks));
    tokio::spawn(async move {
        // A command that does not want more input is no failure, and a lost one is reported by its events.
        let _ = write_all(process, received, tty).await;
    })
}

fn read_all(chunks: &mpsc::Sender<Bytes>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match rustix::io::read(stdin(), &mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                if chunks
                    .blocking_send(Bytes::copy_from_slice(&buffer[..length]))
                    .is_err()
                {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            // Inherited as non-blocking: wait as a blocking read would.
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], None);
            }
            // Nothing to read from (EIO of a lost terminal, EISDIR): the end.
            Err(_) => return,
        }
    }
}

async fn write_all(
    mut process: Stdin,
    mut chunks: mpsc::Receiver<Bytes>,
    tty: bool,
) -> io::Result<()> {
    while let Some(chunk) = chunks.recv().await {
        process.write_all(&chunk).await?;
        if chunks.is_empty() {
            process.flush().await?;
        }
    }
    if tty {
        process.write_all(&[END_OF_TRANSMISSION]).await?;
        return process.flush().await;
    }
    if !process.can_close() {
        process.flush().await?;
        say(
            "this executor cannot close standard input, so the command does not see that it ended; -n starts it without",
        );
        // Dropping it would say the same again to nobody.
        return Ok(());
    }
    process.shutdown().await
}
