//! JSON-RPC over a pair of byte streams, one message per line (protocol.md 1.3).

use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::{
    Limits, Link, LinkError,
    link::{SinkKind, SourceKind},
};

/// Bytes that may gather before a send without a flush writes.
const GATHER: usize = 64 * 1024;

pub(crate) struct LineSink {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    buffer: Vec<u8>,
    limits: Limits,
}

pub(crate) struct LineSource {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    /// Bytes at the front of the buffer that are known to hold no line end.
    searched: usize,
    limits: Limits,
}

/// A link over a program's standard streams: one JSON object per line, blank lines skipped, a line at most
/// 64 MiB. There is no keepalive; the end of input is the orderly end.
pub fn stdio(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
) -> Link {
    let limits = Limits::direct();
    Link::new(
        SinkKind::Lines(LineSink {
            writer: Box::new(writer),
            buffer: Vec::new(),
            limits,
        }),
        SourceKind::Lines(LineSource {
            reader: Box::new(reader),
            buffer: BytesMut::new(),
            searched: 0,
            limits,
        }),
    )
}

impl LineSink {
    pub(crate) async fn send(&mut self, message: String) -> Result<(), LinkError> {
        let limit = self.limits.message;
        if message.len() > limit {
            return Err(LinkError::TooLong {
                size: message.len(),
                limit,
            });
        }
        self.buffer.extend_from_slice(message.as_bytes());
        self.buffer.push(b'\n');
        if self.buffer.len() >= GATHER {
            self.write().await?;
        }
        Ok(())
    }

    pub(crate) async fn flush(&mut self) -> Result<(), LinkError> {
        self.write().await?;
        deadline(&self.limits, self.writer.flush()).await
    }

    pub(crate) async fn close(&mut self) -> Result<(), LinkError> {
        self.write().await?;
        deadline(&self.limits, self.writer.shutdown()).await
    }

    async fn write(&mut self) -> Result<(), LinkError> {
        deadline(&self.limits, self.writer.write_all(&self.buffer)).await?;
        self.buffer.clear();
        self.buffer.shrink_to(GATHER);
        Ok(())
    }
}

impl LineSource {
    pub(crate) async fn recv(&mut self) -> Result<Option<Bytes>, LinkError> {
        loop {
            while let Some(line) = self.take_line()? {
                if !line.trim_ascii().is_empty() {
                    return Ok(Some(line));
                }
            }
            // Cancel-safe: bytes are in the buffer or not read at all.
            self.buffer.reserve(self.limits.read_buffer);
            if self.reader.read_buf(&mut self.buffer).await? == 0 {
                let rest = self.buffer.split().freeze();
                self.searched = 0;
                return Ok((!rest.trim_ascii().is_empty()).then_some(rest));
            }
        }
    }

    fn take_line(&mut self) -> Result<Option<Bytes>, LinkError> {
        let found = self.buffer[self.searched..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|at| self.searched + at);
        let length = found.unwrap_or(self.buffer.len());
        if length > self.limits.message {
            return Err(LinkError::TooLong {
                size: length,
                limit: self.limits.message,
            });
        }
        let Some(end) = found else {
            self.searched = length;
            return Ok(None);
        };
        let mut line = self.buffer.split_to(end + 1);
        line.truncate(end);
        self.searched = 0;
        Ok(Some(line.freeze()))
    }
}

async fn deadline(
    limits: &Limits,
    write: impl Future<Output = io::Result<()>>,
) -> Result<(), LinkError> {
    match timeout(limits.write_within, write).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(LinkError::WriteTimeout(limits.write_within)),
    }
}

impl fmt::Debug for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineSink").finish_non_exhaustive()
    }
}

impl fmt::Debug for LineSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineSource").finish_non_exhaustive()
    }
}
