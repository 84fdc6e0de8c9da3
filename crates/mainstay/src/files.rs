//! Files of the executor's machine (`environment.md` 6). Every call is sent once; nothing is retried.

mod handle;
mod missing;

use bytes::Bytes;
use mainstay_wire::base64::LateBase64;
use mainstay_wire::fs;
use mainstay_wire::limits::FILE_BLOCK;
use mainstay_wire::{Call, PathUri};

pub use mainstay_wire::fs::{
    DirectoryEntry, Metadata as FileMetadata, WalkAnswer, WalkEntry, WalkError, WalkKind,
    WalkOptions,
};

pub use handle::{FileReader, FileWriter};
pub use missing::{MissingWatch, WatchEnd};

use crate::environment::Environment;
use crate::error::Error;
use crate::paths;
use crate::session::Session;

/// The files of an environment. Paths are absolute, `file:` URIs, or relative to the executor's own directory.
///
/// Errors turn into [`std::io::Error`] with the kinds people expect: not found, invalid input, broken pipe.
#[derive(Clone, Debug)]
pub struct Files {
    environment: Environment,
}

impl Files {
    pub(crate) fn new(environment: Environment) -> Self {
        Self { environment }
    }

    /// Reads a regular file, up to 1 MiB in one answer, above that in blocks.
    ///
    /// # Errors
    /// As the call.
    pub async fn read(&self, path: &str) -> Result<Bytes, Error> {
        let (session, path) = self.at(path).await?;
        let metadata = self.metadata_at(&session, path.clone(), true).await?;
        if metadata.size > FILE_BLOCK as u64 {
            return FileReader::open(&session, path).await?.read_to_end().await;
        }
        let params = fs::ReadFileParams {
            path,
            follow_symlinks: true,
            sandbox: None,
        };
        Ok(call::<fs::ReadFile>(&session, params).await?.data_base64.0)
    }

    /// Opens a file for reading in blocks.
    ///
    /// # Errors
    /// As the call.
    pub async fn open(&self, path: &str) -> Result<FileReader, Error> {
        let (session, path) = self.at(path).await?;
        FileReader::open(&session, path).await
    }

    /// Creates or empties a file for writing in blocks. What was written stays, whatever happens later.
    ///
    /// # Errors
    /// The executor cannot write in blocks: nothing is sent then. Else as the call.
    pub async fn create(&self, path: &str) -> Result<FileWriter, Error> {
        let (session, path) = self.at(path).await?;
        FileWriter::create(&session, path).await
    }

    /// Creates or replaces a file, above 1 MiB in blocks where the executor can.
    ///
    /// # Errors
    /// As the call.
    pub async fn write(&self, path: &str, contents: impl Into<Bytes>) -> Result<(), Error> {
        let contents = contents.into();
        let (session, path) = self.at(path).await?;
        if contents.len() > FILE_BLOCK && session.features().write_streaming {
            let mut writer = FileWriter::create(&session, path).await?;
            writer.write(contents).await?;
            return writer.finish().await;
        }
        let params = fs::WriteFileParams {
            path,
            data_base64: LateBase64::from(contents),
            follow_symlinks: true,
            sandbox: None,
        };
        call::<fs::WriteFile>(&session, params).await.map(|_| ())
    }

    /// Creates a directory and those above it; an existing one is fine.
    ///
    /// # Errors
    /// As the call.
    pub async fn create_dir_all(&self, path: &str) -> Result<(), Error> {
        self.create_directory(path, true).await
    }

    /// Creates one directory.
    ///
    /// # Errors
    /// It exists, or the one above does not; else as the call.
    pub async fn create_dir(&self, path: &str) -> Result<(), Error> {
        self.create_directory(path, false).await
    }

    async fn create_directory(&self, path: &str, recursive: bool) -> Result<(), Error> {
        let (session, path) = self.at(path).await?;
        let params = fs::CreateDirectoryParams {
            path,
            recursive,
            follow_symlinks: true,
            sandbox: None,
        };
        call::<fs::CreateDirectory>(&session, params)
            .await
            .map(|_| ())
    }

    /// Facts about a file or directory, links followed.
    ///
    /// # Errors
    /// As the call.
    pub async fn metadata(&self, path: &str) -> Result<FileMetadata, Error> {
        let (session, path) = self.at(path).await?;
        self.metadata_at(&session, path, true).await
    }

    /// Facts about a path none of whose components may be a link.
    ///
    /// # Errors
    /// As the call.
    pub async fn metadata_no_follow(&self, path: &str) -> Result<FileMetadata, Error> {
        let (session, path) = self.at(path).await?;
        self.metadata_at(&session, path, false).await
    }

    async fn metadata_at(
        &self,
        session: &Session,
        path: PathUri,
        follow_symlinks: bool,
    ) -> Result<FileMetadata, Error> {
        let params = fs::GetMetadataParams {
            path,
            follow_symlinks,
            sandbox: None,
        };
        call::<fs::GetMetadata>(session, params).await
    }

    /// The path without links.
    ///
    /// # Errors
    /// As the call.
    pub async fn canonicalize(&self, path: &str) -> Result<PathUri, Error> {
        let (session, path) = self.at(path).await?;
        let params = fs::PathParams {
            path,
            sandbox: None,
        };
        Ok(call::<fs::Canonicalize>(&session, params).await?.path)
    }

    /// What is in a directory, in no order.
    ///
    /// # Errors
    /// As the call.
    pub async fn read_dir(&self, path: &str) -> Result<Vec<DirectoryEntry>, Error> {
        let (session, path) = self.at(path).await?;
        let params = fs::PathParams {
            path,
            sandbox: None,
        };
        Ok(call::<fs::ReadDirectory>(&session, params).await?.entries)
    }

    /// What is below a directory, breadth first.
    ///
    /// # Errors
    /// As the call.
    pub async fn walk(&self, path: &str, options: WalkOptions) -> Result<WalkAnswer, Error> {
        let (session, path) = self.at(path).await?;
        let params = fs::WalkParams {
            path,
            options,
            sandbox: None,
        };
        call::<fs::Walk>(&session, params).await
    }

    /// Removes a file, a link or an empty directory, which must exist.
    ///
    /// # Errors
    /// As the call.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        self.remove_with(path, false, false).await
    }

    /// Removes a path with all that is in it; a missing one is fine.
    ///
    /// # Errors
    /// As the call.
    pub async fn remove_all(&self, path: &str) -> Result<(), Error> {
        self.remove_with(path, true, true).await
    }

    async fn remove_with(&self, path: &str, recursive: bool, force: bool) -> Result<(), Error> {
        let (session, path) = self.at(path).await?;
        let params = fs::RemoveParams {
            path,
            recursive,
            force,
            follow_symlinks: true,
            sandbox: None,
        };
        call::<fs::Remove>(&session, params).await.map(|_| ())
    }

    /// Copies a file or link, or a directory if `recursive`.
    ///
    /// # Errors
    /// As the call.
    pub async fn copy(&self, from: &str, to: &str, recursive: bool) -> Result<(), Error> {
        let (session, source_path) = self.at(from).await?;
        let destination_path = paths::resolve(&session, Some(to)).await?;
        let params = fs::CopyParams {
            source_path,
            destination_path,
            recursive,
            sandbox: None,
        };
        call::<fs::Copy>(&session, params).await.map(|_| ())
    }

    /// Asks to be told when one of `missing` (1 to 64 paths) may exist, or `present` is changed or removed. `None`: one
    /// exists already, or `present` does not, so look again. A link has one watch: a new one replaces it.
    ///
    /// # Errors
    /// The executor does not announce `fsWatchMissing`, or there are too many paths: nothing is sent then. Else as the
    /// call.
    pub async fn watch_missing(
        &self,
        missing: &[&str],
        present: Option<&str>,
    ) -> Result<Option<MissingWatch>, Error> {
        let session = self.environment.session().await?;
        let mut paths = Vec::new();
        for path in missing {
            paths.push(paths::resolve(&session, Some(path)).await?);
        }
        let present = match present {
            Some(path) => Some(paths::resolve(&session, Some(path)).await?),
            None => None,
        };
        MissingWatch::set(&session, paths, present).await
    }

    async fn at(&self, path: &str) -> Result<(Session, PathUri), Error> {
        let session = self.environment.session().await?;
        let path = paths::resolve(&session, Some(path)).await?;
        Ok((session, path))
    }
}

async fn call<C: Call>(session: &Session, params: C::Params) -> Result<C::Answer, Error> {
    session.line().call::<C>(session.mode(), &params).await
}
