//! The file methods (protocol.md 9.1 and 9.2): wire types in, wire types out, the work off the runtime's threads.
//!
//! Each function answers one method. What a connection has to own, its file [`Handles`], is a value of its own.

mod copy;
pub(crate) mod descent;
mod directory;
pub(crate) mod error;
mod handles;
mod metadata;
pub(crate) mod open;
mod remove;
pub(crate) mod walk;
mod whole;

use std::path::{Path, PathBuf};

use mainstay_wire::base64::Base64;
use mainstay_wire::fs::{
    CanonicalizeAnswer, CopyParams, CreateDirectoryParams, DirectoryEntry, GetMetadataParams,
    Metadata, PathParams, ReadDirectoryAnswer, ReadFileAnswer, ReadFileParams, RemoveParams,
    WalkAnswer, WalkEntry, WalkError, WalkKind, WalkParams, WriteFileParams,
};
use mainstay_wire::{Empty, PathUri, RpcError, limits};
use rustix::fs::FileType;

use crate::sandbox::{Touch, permit_files};
use error::FileError;
pub use handles::Handles;
use open::Links;

/// `fs/readFile`. A file whose answer would exceed one message is refused with that limit; it is read through a handle.
pub async fn read_file(params: ReadFileParams) -> Result<ReadFileAnswer, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let links = Links::from_follow(params.follow_symlinks);
    let limit = limits::READ_FILE.min(limits::READ_FILE_ANSWER);
    let data = blocking(move || whole::read_file(&path, links, limit)).await?;
    Ok(ReadFileAnswer {
        data_base64: Base64::from(data),
    })
}

/// `fs/writeFile`.
pub async fn write_file(params: WriteFileParams) -> Result<Empty, RpcError> {
    let content = params.data_base64.into_bytes().map_err(|error| {
        RpcError::invalid_request(format_args!(
            "fs/writeFile requires valid base64 dataBase64: {error}"
        ))
    })?;
    permit_files(params.sandbox.as_ref(), Touch::Write)?;
    let path = native(&params.path)?;
    let links = Links::from_follow(params.follow_symlinks);
    blocking(move || whole::write_file(&path, links, &content)).await?;
    Ok(Empty {})
}

/// `fs/createDirectory`.
pub async fn create_directory(params: CreateDirectoryParams) -> Result<Empty, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Write)?;
    let path = native(&params.path)?;
    let links = Links::from_follow(params.follow_symlinks);
    blocking(move || directory::create_directory(&path, params.recursive, links)).await?;
    Ok(Empty {})
}

/// `fs/getMetadata`.
pub async fn get_metadata(params: GetMetadataParams) -> Result<Metadata, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let links = Links::from_follow(params.follow_symlinks);
    let metadata = blocking(move || metadata::metadata(&path, links)).await?;
    Ok(Metadata {
        is_directory: metadata.kind == FileType::Directory,
        is_file: metadata.kind == FileType::RegularFile,
        is_symlink: metadata.is_symlink,
        size: metadata.size,
        created_at_ms: metadata.created_at_ms,
        modified_at_ms: metadata.modified_at_ms,
    })
}

/// `fs/canonicalize`.
pub async fn canonicalize(params: PathParams) -> Result<CanonicalizeAnswer, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let path = blocking(move || metadata::canonicalize(&path)).await?;
    Ok(CanonicalizeAnswer { path: uri(&path)? })
}

/// `fs/readDirectory`.
pub async fn read_directory(params: PathParams) -> Result<ReadDirectoryAnswer, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let entries =
        blocking(move || directory::read_directory(&path, limits::READ_DIRECTORY_ANSWER)).await?;
    let entries = entries.into_iter().map(|entry| DirectoryEntry {
        is_directory: entry.kind == FileType::Directory,
        is_file: entry.kind == FileType::RegularFile,
        file_name: entry.name,
    });
    Ok(ReadDirectoryAnswer {
        entries: entries.collect(),
    })
}

/// `fs/walk`.
pub async fn walk(params: WalkParams) -> Result<WalkAnswer, RpcError> {
    let asked = params.options;
    if asked.max_directories == 0 || asked.max_entries == 0 {
        return Err(RpcError::invalid_request(
            "filesystem walk limits must be greater than zero",
        ));
    }
    let (depth, directories, entries) = (
        limits::WALK_DEPTH,
        limits::WALK_DIRECTORIES,
        limits::WALK_ENTRIES,
    );
    if asked.max_depth > depth || asked.max_directories > directories || asked.max_entries > entries
    {
        return Err(RpcError::invalid_request(format_args!(
            "filesystem walk limits exceed maximums: depth={depth}, directories={directories}, entries={entries}"
        )));
    }
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let options = walk::Options {
        depth: asked.max_depth,
        directories: asked.max_directories,
        entries: asked.max_entries,
        follow: asked.follow_directory_symlinks,
        prune_hidden: asked.prune_hidden_directories,
        answer: limits::WALK_ANSWER,
    };
    let found = blocking(move || walk::walk(&path, options)).await?;
    let entries = found.entries.into_iter().map(|(path, kind)| {
        let kind = match kind {
            walk::Kind::Directory => WalkKind::Directory,
            walk::Kind::File => WalkKind::File,
        };
        Ok(WalkEntry {
            path: uri(&path)?,
            kind,
        })
    });
    let errors = found.errors.into_iter().map(|(path, message)| {
        Ok(WalkError {
            path: uri(&path)?,
            message,
        })
    });
    Ok(WalkAnswer {
        entries: entries.collect::<Result<_, RpcError>>()?,
        errors: errors.collect::<Result<_, RpcError>>()?,
        truncated: found.truncated,
    })
}

/// `fs/remove`.
pub async fn remove(params: RemoveParams) -> Result<Empty, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Write)?;
    let path = native(&params.path)?;
    let removal = remove::Removal {
        recursive: params.recursive,
        force: params.force,
        links: Links::from_follow(params.follow_symlinks),
    };
    blocking(move || remove::remove(&path, removal)).await?;
    Ok(Empty {})
}

/// `fs/copy`.
pub async fn copy(params: CopyParams) -> Result<Empty, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Write)?;
    let source = native(&params.source_path)?;
    let destination = native(&params.destination_path)?;
    blocking(move || copy::copy(&source, &destination, params.recursive)).await?;
    Ok(Empty {})
}

/// Reads a regular file of at most `limit` bytes, links followed. May block.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    whole::read_file(path, Links::Follow, limit)
}

/// As [`read_bytes`], of a file that holds UTF-8.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String, FileError> {
    let bytes = read_bytes(path, limit)?;
    String::from_utf8(bytes).map_err(|error| FileError::refused(error.utf8_error().to_string()))
}

/// The native path of a URI; one that has none is invalid input.
fn native(path: &PathUri) -> Result<PathBuf, RpcError> {
    path.to_native().map_err(RpcError::invalid_request)
}

/// The URI of a path that an answer tells.
fn uri(path: &Path) -> Result<PathUri, RpcError> {
    PathUri::from_native(path).map_err(RpcError::internal)
}

/// Runs file work where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, RpcError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome.map_err(RpcError::from),
        Err(error) => Err(RpcError::internal(format_args!(
            "file operation failed: {error}"
        ))),
    }
}
