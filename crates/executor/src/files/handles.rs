//! The file handles of one connection: `fs/open`, `fs/readBlock`, `fs/writeBlock`, `fs/close`.
//!
//! The connection owns the table and asks it synchronously, in the order of the requests; what it gets back is the work,
//! to be run wherever requests run. The work of one handle is done in that same order, so that a client may send an open
//! and the reads that follow it without waiting, and a close ends a handle only after the calls before it.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mainstay_wire::base64::Base64;
use mainstay_wire::fs::{
    CloseParams, OpenAnswer, OpenMode, OpenParams, ReadBlockAnswer, ReadBlockParams,
    WriteBlockParams,
};
use mainstay_wire::{Empty, RpcError, limits};
use rustix::io::Errno;
use tokio::sync::oneshot;

use super::error::FileError;
use super::native;
use super::open::Links;
use super::whole::{open_to_read, open_to_replace};
use crate::lane::{Answered, Lane};
use crate::sandbox::{Touch, permit_files};

/// The handles of one connection; they are closed when it is dropped and the calls under way have ended.
#[derive(Debug, Default)]
pub struct Handles {
    open: HashMap<String, Handle>,
}

#[derive(Debug)]
struct Handle {
    file: Arc<Slot>,
    /// Resolves when the last call asked for so far has ended.
    last: oneshot::Receiver<()>,
}

/// One handle's file, shared with the calls that work on it.
#[derive(Debug)]
struct Slot {
    mode: OpenMode,
    file: OnceLock<OwnedFd>,
    /// One-way mark: the open failed, or an I/O error closed the handle.
    dead: AtomicBool,
}

/// A call's place in its handle's order: starts when `before` resolves, ends when it is dropped.
struct Turn {
    file: Arc<Slot>,
    before: oneshot::Receiver<()>,
    _done: oneshot::Sender<()>,
}

impl Handles {
    /// `fs/open`: takes the name at once and opens the file.
    pub fn open(
        &mut self,
        lane: Lane,
        params: OpenParams,
    ) -> impl Future<Output = Result<Answered<OpenAnswer>, RpcError>> + Send + use<> {
        let prepared = self.take_name(&params);
        async move {
            let (path, opening) = prepared?;
            let opened = lane.run(move || {
                let file = match params.mode {
                    OpenMode::Read => open_to_read(&path, Links::Follow).map(|(file, _)| file),
                    OpenMode::Replace => open_to_replace(&path, Links::Follow),
                }?;
                opening.finish(file);
                Ok(())
            });
            Ok(opened.await?.map(|()| OpenAnswer {
                handle_id: params.handle_id,
            }))
        }
    }

    /// `fs/readBlock`.
    pub fn read_block(
        &mut self,
        lane: Lane,
        params: ReadBlockParams,
    ) -> impl Future<Output = Result<Answered<ReadBlockAnswer>, RpcError>> + Send + use<> {
        let ReadBlockParams {
            handle_id,
            offset,
            len,
        } = params;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let prepared = block_length(len, "read").and_then(|()| self.turn(&handle_id));
        async move {
            let work = move |file: &OwnedFd| read_block(file, offset, len);
            let read = prepared?.run(lane, handle_id, OpenMode::Read, work).await?;
            Ok(read.map(|(chunk, eof)| ReadBlockAnswer {
                chunk: Base64(chunk),
                eof,
            }))
        }
    }

    /// `fs/writeBlock`.
    pub fn write_block(
        &mut self,
        lane: Lane,
        params: WriteBlockParams,
    ) -> impl Future<Output = Result<Answered<Empty>, RpcError>> + Send + use<> {
        let WriteBlockParams {
            handle_id,
            offset,
            chunk: Base64(chunk),
        } = params;
        let prepared = block_length(chunk.len(), "write").and_then(|()| self.turn(&handle_id));
        async move {
            let turn = prepared?;
            if exceeds_offsets(offset, chunk.len()) {
                let text = "file write range exceeds the signed 64-bit file offset limit";
                return Err(RpcError::invalid_request(text));
            }
            let work = move |file: &OwnedFd| write_block(file, offset, &chunk);
            Ok(turn
                .run(lane, handle_id, OpenMode::Replace, work)
                .await?
                .map(|()| Empty {}))
        }
    }

    /// `fs/close`: frees the name at once and answers when the calls before it have ended.
    pub fn close(
        &mut self,
        params: CloseParams,
    ) -> impl Future<Output = Result<Empty, RpcError>> + Send + use<> {
        let handle = self.open.remove(&params.handle_id);
        async move {
            if let Some(handle) = handle {
                // An error means that the last call is over, too.
                let _ = handle.last.await;
            }
            Ok(Empty {})
        }
    }

    fn take_name(&mut self, params: &OpenParams) -> Result<(PathBuf, Opening), RpcError> {
        let touch = match params.mode {
            OpenMode::Read => Touch::Read,
            OpenMode::Replace => Touch::Write,
        };
        let id = &params.handle_id;
        self.open
            .retain(|_, handle| !handle.file.dead.load(Ordering::SeqCst));
        if self.open.contains_key(id) {
            return Err(RpcError::invalid_request(format_args!(
                "file handle `{id}` already exists"
            )));
        }
        if self.open.len() >= limits::FILE_HANDLES {
            return Err(RpcError::invalid_request(format_args!(
                "at most {} file handles may be open per connection",
                limits::FILE_HANDLES
            )));
        }
        permit_files(params.sandbox.as_ref(), touch)?;
        let path = native(&params.path)?;
        let slot = Slot {
            mode: params.mode,
            file: OnceLock::new(),
            dead: AtomicBool::new(false),
        };
        let (_, nothing_before) = oneshot::channel();
        let mut handle = Handle {
            file: Arc::new(slot),
            last: nothing_before,
        };
        let opening = Opening(handle.turn());
        self.open.insert(id.clone(), handle);
        Ok((path, opening))
    }

    fn turn(&mut self, id: &str) -> Result<Turn, RpcError> {
        match self.open.get_mut(id) {
            Some(handle) if !handle.file.dead.load(Ordering::SeqCst) => Ok(handle.turn()),
            Some(_) | None => Err(unknown(id)),
        }
    }
}

impl Handle {
    fn turn(&mut self) -> Turn {
        let (done, last) = oneshot::channel();
        let before = std::mem::replace(&mut self.last, last);
        Turn {
            file: self.file.clone(),
            before,
            _done: done,
        }
    }
}

impl Turn {
    /// Waits for the calls before and works on the file, which must have been opened in `mode`.
    async fn run<T: Send + 'static>(
        mut self,
        lane: Lane,
        id: String,
        mode: OpenMode,
        work: impl FnOnce(&OwnedFd) -> Result<T, FileError> + Send + 'static,
    ) -> Result<Answered<T>, RpcError> {
        // An error means that the call before is over, too.
        let _ = (&mut self.before).await;
        if self.file.dead.load(Ordering::SeqCst) {
            return Err(unknown(&id));
        }
        // A place is taken last, so that a call that waits for its turn holds none.
        lane.run(move || {
            let slot = &self.file;
            match slot.file.get() {
                // An error closes the handle.
                Some(file) if slot.mode == mode => {
                    work(file).inspect_err(|_| slot.dead.store(true, Ordering::SeqCst))
                }
                // Opened for something else: nothing was tried, so the handle stays.
                Some(_) | None => Err(Errno::BADF.into()),
            }
        })
        .await
    }
}

/// An open under way: unless it finishes, the handle's name is free again.
struct Opening(Turn);

impl Opening {
    fn finish(self, file: OwnedFd) {
        // Set once: only the one opening of a slot does it.
        let _ = self.0.file.file.set(file);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if self.0.file.file.get().is_none() {
            self.0.file.dead.store(true, Ordering::SeqCst);
        }
    }
}

fn unknown(id: &str) -> RpcError {
    RpcError::not_found(format_args!("unknown file handle `{id}`"))
}

fn block_length(len: usize, what: &str) -> Result<(), RpcError> {
    if (1..=limits::FILE_BLOCK).contains(&len) {
        Ok(())
    } else {
        Err(RpcError::invalid_request(format_args!(
            "file {what} block length must be between 1 and {}",
            limits::FILE_BLOCK
        )))
    }
}

/// Whether a block would end beyond what the kernel's signed offsets reach.
fn exceeds_offsets(offset: u64, len: usize) -> bool {
    offset
        .checked_add(len as u64)
        .and_then(|end| i64::try_from(end).ok())
        .is_none()
}

fn read_block(file: &OwnedFd, offset: u64, len: usize) -> Result<(Bytes, bool), FileError> {
    if exceeds_offsets(offset, len) {
        return Err(Errno::INVAL.into());
    }
    let mut chunk = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match rustix::io::pread(file, &mut chunk[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    chunk.truncate(filled);
    Ok((chunk.into(), filled < len))
}

fn write_block(file: &OwnedFd, offset: u64, chunk: &[u8]) -> Result<(), FileError> {
    let mut written = 0;
    while written < chunk.len() {
        match rustix::io::pwrite(file, &chunk[written..], offset + written as u64) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(some) => written += some,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
