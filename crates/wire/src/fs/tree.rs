//! Whole files and trees (`protocol.md` 9.1).

use serde::{Deserialize, Serialize};

use crate::base64::{Base64, LateBase64};
use crate::call::call;
use crate::nullable;
use crate::sandbox::Sandbox;
use crate::{Empty, PathUri};

call!(
    /// Reads a regular file.
    ReadFile, "fs/readFile", Filesystem, ReadFileParams => ReadFileAnswer
);
call!(
    /// Creates or replaces a file.
    WriteFile, "fs/writeFile", Filesystem, WriteFileParams => Empty
);
call!(
    /// Creates a directory.
    CreateDirectory, "fs/createDirectory", Filesystem, CreateDirectoryParams => Empty
);
call!(
    /// Facts about a file or directory.
    GetMetadata, "fs/getMetadata", Filesystem, GetMetadataParams => Metadata
);
call!(
    /// Resolves every link of a path.
    Canonicalize, "fs/canonicalize", Filesystem, PathParams => CanonicalizeAnswer
);
call!(
    /// Lists a directory, unsorted.
    ReadDirectory, "fs/readDirectory", Filesystem, PathParams => ReadDirectoryAnswer
);
call!(
    /// Lists a tree, breadth first, sorted by name per directory.
    Walk, "fs/walk", Filesystem, WalkParams => WalkAnswer
);
call!(
    /// Removes a file, link or tree.
    Remove, "fs/remove", Filesystem, RemoveParams => Empty
);
call!(
    /// Copies a file, link or tree.
    Copy, "fs/copy", Filesystem, CopyParams => Empty
);

/// Params of `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileParams {
    /// Which file.
    pub path: PathUri,
    /// Whether links are followed; true when absent.
    #[serde(
        default = "nullable::yes",
        deserialize_with = "nullable::or_true",
        skip_serializing_if = "nullable::is_true"
    )]
    pub follow_symlinks: bool,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Answer to `fs/readFile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadFileAnswer {
    /// The contents.
    pub data_base64: Base64,
}

/// Params of `fs/writeFile`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteFileParams {
    /// Which file; its directory must exist.
    pub path: PathUri,
    /// The contents. Bad base64 is a fault of the value here (-32600), not of the shape.
    pub data_base64: LateBase64,
    /// Whether links are followed; true when absent.
    #[serde(
        default = "nullable::yes",
        deserialize_with = "nullable::or_true",
        skip_serializing_if = "nullable::is_true"
    )]
    pub follow_symlinks: bool,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Params of `fs/createDirectory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateDirectoryParams {
    /// Which directory.
    pub path: PathUri,
    /// Whether parents are made and an existing one is fine; true when absent.
    #[serde(
        default = "nullable::yes",
        deserialize_with = "nullable::or_true",
        skip_serializing_if = "nullable::is_true"
    )]
    pub recursive: bool,
    /// Whether links are followed; true when absent.
    #[serde(
        default = "nullable::yes",
        deserialize_with = "nullable::or_true",
        skip_serializing_if = "nullable::is_true"
    )]
    pub follow_symlinks: bool,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Params of `fs/getMetadata`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetMetadataParams {
    /// Which file or directory.
    pub path: PathUri,
    /// Whether links are followed; true when absent.
    #[serde(
        default = "nullable::yes",
        deserialize_with = "nullable::or_true",
        skip_serializing_if = "nullable::is_true"
    )]
    pub follow_symlinks: bool,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Answer to `fs/getMetadata`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// A directory, links followed.
    pub is_directory: bool,
    /// A regular file, links followed.
    pub is_file: bool,
    /// A link itself.
    pub is_symlink: bool,
    /// In bytes.
    pub size: u64,
    /// Since the epoch, in ms; 0 when unknown.
    pub created_at_ms: i64,
    /// Since the epoch, in ms; 0 when unknown.
    pub modified_at_ms: i64,
}

/// Params of `fs/canonicalize` and `fs/readDirectory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathParams {
    /// Which file or directory.
    pub path: PathUri,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Answer to `fs/canonicalize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanonicalizeAnswer {
    /// Without links.
    pub path: PathUri,
}

/// Answer to `fs/readDirectory`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadDirectoryAnswer {
    /// Unsorted; dangling links are left out.
    pub entries: Vec<DirectoryEntry>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryEntry {
    /// Its name, with U+FFFD for what is not UTF-8.
    pub file_name: String,
    /// A directory, links followed.
    pub is_directory: bool,
    /// A regular file, links followed.
    pub is_file: bool,
}

/// Params of `fs/walk`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkParams {
    /// The root; not listed itself.
    pub path: PathUri,
    /// How far.
    pub options: WalkOptions,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// How far a walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WalkOptions {
    /// 0 (the root's children) to 64.
    pub max_depth: u64,
    /// 1 to 10 000.
    pub max_directories: u64,
    /// 1 to 50 000.
    pub max_entries: u64,
    /// Whether links to directories are entered.
    pub follow_directory_symlinks: bool,
    /// Whether directories with a leading dot are listed but not entered.
    #[serde(
        default,
        deserialize_with = "crate::nullable::or_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub prune_hidden_directories: bool,
}

/// Answer to `fs/walk`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkAnswer {
    /// Breadth first, sorted by name per directory.
    pub entries: Vec<WalkEntry>,
    /// What could not be looked at.
    pub errors: Vec<WalkError>,
    /// Whether a limit ended the walk.
    pub truncated: bool,
}

/// An entry of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkEntry {
    /// Where.
    pub path: PathUri,
    /// What.
    pub kind: WalkKind,
}

/// What a walk lists; links to files and other kinds are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WalkKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
}

/// What a walk could not look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkError {
    /// Where.
    pub path: PathUri,
    /// Why.
    pub message: String,
}

/// Params of `fs/remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoveParams {
    /// What; a link itself.
    pub path: PathUri,
    /// Whether a directory goes with what is in it; true when absent.
    #[serde(
        default = "nullable::yes",
        deserialize_with = "nullable::or_true",
        skip_serializing_if = "nullable::is_true"
    )]
    pub recursive: bool,
    /// Whether a missing path is fine; true when absent.
    #[serde(
        default = "nullable::yes",
        deserialize_with = "nullable::or_true",
        skip_serializing_if = "nullable::is_true"
    )]
    pub force: bool,
    /// Whether links above it are followed; true when absent.
    #[serde(
        default = "nullable::yes",
        deserialize_with = "nullable::or_true",
        skip_serializing_if = "nullable::is_true"
    )]
    pub follow_symlinks: bool,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// Params of `fs/copy`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyParams {
    /// From where.
    pub source_path: PathUri,
    /// To where.
    pub destination_path: PathUri,
    /// Required: true for directories.
    pub recursive: bool,
    /// What may be touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}
