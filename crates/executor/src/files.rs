//! The file methods (protocol.md 9.1 and 9.2): wire types in, wire types out, the work off the runtime's threads.
//!
//! Each function answers one method, in the [`Lane`] of its connection. What a connection has to own besides, its file
//! [`Handles`], is a value of its own.

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
    CanonicalizeAnswer, CopyParams, CreateDirectoryParams, GetMetadataParams, Metadata, PathParams,
    ReadDirectoryAnswer, ReadFileAnswer, ReadFileParams, RemoveParams, WalkAnswer, WalkEntry,
    WalkError, WalkParams, WriteFileParams,
};
use mainstay_wire::{Empty, PathUri, RpcError, limits};
use rustix::fs::FileType;

use crate::lane::{Answered, Lane, SMALL, Size};
use crate::sandbox::{Touch, permit_files};
use error::FileError;
pub use handles::Handles;
use open::Links;

/// `fs/readFile`. A file whose answer would exceed one message is refused with that limit; it is read through a handle.
pub async fn read_file(
    lane: Lane,
    params: ReadFileParams,
) -> Result<Answered<ReadFileAnswer>, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let links = Links::from_follow(params.follow_symlinks);
    let data = lane.run_sized(move |size| {
        let limit = match size {
            Size::Small => SMALL as u64,
            Size::Large => limits::READ_FILE.min(limits::READ_FILE_ANSWER),
        };
        match (whole::read_file(&path, links, limit), size) {
            (Err(FileError::TooLarge(_)), Size::Small) => Ok(None),
            (content, _) => content.map(Some),
        }
    });
    Ok(data.await?.map(|data| ReadFileAnswer {
        data_base64: Base64::from(data),
    }))
}

/// `fs/writeFile`.
pub async fn write_file(lane: Lane, params: WriteFileParams) -> Result<Answered<Empty>, RpcError> {
    let content = params.data_base64.into_bytes().map_err(|error| {
        RpcError::invalid_request(format_args!(
            "fs/writeFile requires valid base64 dataBase64: {error}"
        ))
    })?;
    permit_files(params.sandbox.as_ref(), Touch::Write)?;
    let path = native(&params.path)?;
    let links = Links::from_follow(params.follow_symlinks);
    Ok(lane
        .run(move || whole::write_file(&path, links, &content))
        .await?
        .map(|()| Empty {}))
}

/// `fs/createDirectory`.
pub async fn create_directory(
    lane: Lane,
    params: CreateDirectoryParams,
) -> Result<Answered<Empty>, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Write)?;
    let path = native(&params.path)?;
    let links = Links::from_follow(params.follow_symlinks);
    Ok(lane
        .run(move || directory::create_directory(&path, params.recursive, links))
        .await?
        .map(|()| Empty {}))
}

/// `fs/getMetadata`.
pub async fn get_metadata(
    lane: Lane,
    params: GetMetadataParams,
) -> Result<Answered<Metadata>, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let links = Links::from_follow(params.follow_symlinks);
    let metadata = lane.run(move || metadata::metadata(&path, links)).await?;
    Ok(metadata.map(|metadata| Metadata {
        is_directory: metadata.kind == FileType::Directory,
        is_file: metadata.kind == FileType::RegularFile,
        is_symlink: metadata.is_symlink,
        size: metadata.size,
        created_at_ms: metadata.created_at_ms,
        modified_at_ms: metadata.modified_at_ms,
    }))
}

/// `fs/canonicalize`.
pub async fn canonicalize(
    lane: Lane,
    params: PathParams,
) -> Result<Answered<CanonicalizeAnswer>, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let path = lane.run(move || metadata::canonicalize(&path)).await?;
    path.try_map(|path| Ok(CanonicalizeAnswer { path: uri(&path)? }))
}

/// `fs/readDirectory`.
pub async fn read_directory(
    lane: Lane,
    params: PathParams,
) -> Result<Answered<ReadDirectoryAnswer>, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Read)?;
    let path = native(&params.path)?;
    let entries = lane.run_sized(move |size| {
        let limit = match size {
            Size::Small => SMALL,
            Size::Large => limits::READ_DIRECTORY_ANSWER,
        };
        match (directory::read_directory(&path, limit)?, size) {
            (None, Size::Large) => Err(FileError::refused(format!(
                "directory is too large to list: limit is {limit} bytes of entries"
            ))),
            (entries, _) => Ok(entries),
        }
    });
    Ok(entries
        .await?
        .map(|entries| ReadDirectoryAnswer { entries }))
}

/// `fs/walk`.
pub async fn walk(lane: Lane, params: WalkParams) -> Result<Answered<WalkAnswer>, RpcError> {
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
    let found = lane.run_sized(move |size| {
        let options = walk::Options {
            depth: asked.max_depth,
            directories: asked.max_directories,
            entries: asked.max_entries,
            follow: asked.follow_directory_symlinks,
            prune_hidden: asked.prune_hidden_directories,
            answer: match size {
                Size::Small => SMALL,
                Size::Large => limits::WALK_ANSWER,
            },
        };
        let found = walk::walk(&path, options)?;
        Ok((size == Size::Large || !found.answer_full).then_some(found))
    });
    found.await?.try_map(|found| {
        let entries = found.entries.into_iter().map(|(path, kind)| {
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
    })
}

/// `fs/remove`.
pub async fn remove(lane: Lane, params: RemoveParams) -> Result<Answered<Empty>, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Write)?;
    let path = native(&params.path)?;
    let removal = remove::Removal {
        recursive: params.recursive,
        force: params.force,
        links: Links::from_follow(params.follow_symlinks),
    };
    Ok(lane
        .run(move || remove::remove(&path, removal))
        .await?
        .map(|()| Empty {}))
}

/// `fs/copy`.
pub async fn copy(lane: Lane, params: CopyParams) -> Result<Answered<Empty>, RpcError> {
    permit_files(params.sandbox.as_ref(), Touch::Write)?;
    let source = native(&params.source_path)?;
    let destination = native(&params.destination_path)?;
    Ok(lane
        .run(move || copy::copy(&source, &destination, params.recursive))
        .await?
        .map(|()| Empty {}))
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
