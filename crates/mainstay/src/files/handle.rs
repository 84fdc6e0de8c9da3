//! Open files, read and written in blocks. A handle belongs to the link it was opened on and ends with it.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use mainstay_wire::base64::Base64;
use mainstay_wire::fs::{
    Close, CloseParams, Open, OpenMode, OpenParams, ReadBlock, ReadBlockParams, WriteBlock,
    WriteBlockParams,
};
use mainstay_wire::limits::FILE_BLOCK;
use mainstay_wire::{Empty, PathUri};

use crate::call::{self, Begun};
use crate::error::Error;
use crate::link::{Lane, LinkRef};
use crate::session::Session;

/// Blocks under way at once.
const PIPELINE: usize = 4;

/// The executor's handle. Dropping it closes it in the background.
#[derive(Debug)]
struct Handle {
    id: String,
    session: Session,
    link: LinkRef,
    open: bool,
}

impl Handle {
    async fn open(session: &Session, path: PathUri, mode: OpenMode) -> Result<Self, Error> {
        let link = session.line().link(session.mode()).await?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let params = OpenParams {
            handle_id: id.clone(),
            path,
            mode,
            sandbox: None,
        };
        // From here on it may be open, whatever the caller hears.
        let handle = Self {
            id,
            session: session.clone(),
            link,
            open: true,
        };
        session
            .line()
            .call_on::<Open>(&handle.link, Lane::Regular, &params)
            .await?;
        Ok(handle)
    }

    async fn close(&mut self) -> Result<(), Error> {
        let params = CloseParams {
            handle_id: self.id.clone(),
        };
        let closed = self
            .session
            .line()
            .call_on::<Close>(&self.link, Lane::Cleanup, &params)
            .await;
        // After a failure the drop tries again.
        self.open = closed.is_err();
        closed.map(|_| ())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.open
            && self.link.is_open()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (session, link) = (self.session.clone(), self.link.clone());
            let params = CloseParams {
                handle_id: std::mem::take(&mut self.id),
            };
            runtime.spawn(async move {
                let _ = session
                    .line()
                    .call_on::<Close>(&link, Lane::Cleanup, &params)
                    .await;
            });
        }
    }
}

/// A file that is read in blocks, from its beginning.
#[derive(Debug)]
pub struct FileReader {
    handle: Handle,
    /// Reads under way, in the order of their offsets.
    ahead: VecDeque<Begun<ReadBlock>>,
    /// Where the next read begins.
    offset: u64,
    ended: bool,
}

impl FileReader {
    pub(super) async fn open(session: &Session, path: PathUri) -> Result<Self, Error> {
        let handle = Handle::open(session, path, OpenMode::Read).await?;
        Ok(Self {
            handle,
            ahead: VecDeque::new(),
            offset: 0,
            ended: false,
        })
    }

    /// The next block, at most 1 MiB; `None` at the end of the file. After an error, and after a dropped call, there
    /// is nothing more to read.
    ///
    /// # Errors
    /// As the call; a block that makes no sense is a protocol error.
    pub async fn block(&mut self) -> Result<Option<Bytes>, Error> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(None);
        }
        while self.ahead.len() < PIPELINE {
            let read = self.begin().await?;
            self.ahead.push_back(read);
        }
        let Some(read) = self.ahead.pop_front() else {
            return Ok(None);
        };
        let block = read.answer().await?;
        let bytes = block.chunk.0;
        if bytes.len() > FILE_BLOCK {
            return Err(Error::protocol("a file block is longer than asked"));
        }
        if block.eof || bytes.len() < FILE_BLOCK {
            if !block.eof && bytes.is_empty() {
                return Err(Error::protocol("a file block is empty before the end"));
            }
            self.ahead.clear();
            // The contents are complete; a failed close is the drop's to repeat.
            let _ = self.handle.close().await;
            return Ok((!bytes.is_empty()).then_some(bytes));
        }
        self.ended = false;
        Ok(Some(bytes))
    }

    async fn begin(&mut self) -> Result<Begun<ReadBlock>, Error> {
        let params = ReadBlockParams {
            handle_id: self.handle.id.clone(),
            offset: self.offset,
            len: FILE_BLOCK as u64,
        };
        self.offset = self
            .offset
            .checked_add(FILE_BLOCK as u64)
            .ok_or_else(|| Error::protocol("file offset overflow"))?;
        let gate = self.handle.session.line().gate();
        call::begin::<ReadBlock>(&self.handle.link, gate, Lane::Regular, &params).await
    }

    /// Everything from here to the end.
    ///
    /// # Errors
    /// As [`block`](Self::block).
    pub async fn read_to_end(&mut self) -> Result<Bytes, Error> {
        let mut all = BytesMut::new();
        while let Some(block) = self.block().await? {
            all.extend_from_slice(&block);
        }
        Ok(all.freeze())
    }
}

/// A file that is written in blocks, from its beginning.
#[derive(Debug)]
pub struct FileWriter {
    handle: Handle,
    /// Writes under way.
    ahead: VecDeque<Begun<WriteBlock>>,
    offset: u64,
}

impl FileWriter {
    pub(super) async fn create(session: &Session, path: PathUri) -> Result<Self, Error> {
        if !session.features().write_streaming {
            return Err(Error::unsupported("writing files in blocks"));
        }
        let handle = Handle::open(session, path, OpenMode::Replace).await?;
        Ok(Self {
            handle,
            ahead: VecDeque::new(),
            offset: 0,
        })
    }

    /// Writes behind what was written before.
    ///
    /// # Errors
    /// As the call, or a call before it.
    pub async fn write(&mut self, contents: impl Into<Bytes>) -> Result<(), Error> {
        let mut contents = contents.into();
        while !contents.is_empty() {
            let chunk = contents.split_to(contents.len().min(FILE_BLOCK));
            while self.ahead.len() >= PIPELINE {
                self.settle().await?;
            }
            let len = chunk.len() as u64;
            let params = WriteBlockParams {
                handle_id: self.handle.id.clone(),
                offset: self.offset,
                chunk: Base64(chunk),
            };
            let gate = self.handle.session.line().gate();
            let write =
                call::begin::<WriteBlock>(&self.handle.link, gate, Lane::Regular, &params).await?;
            self.ahead.push_back(write);
            self.offset += len;
        }
        Ok(())
    }

    /// Waits until everything is written, and closes the file.
    ///
    /// # Errors
    /// As the call, or a call before it.
    pub async fn finish(mut self) -> Result<(), Error> {
        while !self.ahead.is_empty() {
            self.settle().await?;
        }
        self.handle.close().await
    }

    async fn settle(&mut self) -> Result<(), Error> {
        match self.ahead.pop_front() {
            Some(write) => write.answer().await.map(|Empty {}| ()),
            None => Ok(()),
        }
    }
}
