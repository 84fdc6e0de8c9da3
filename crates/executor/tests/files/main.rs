//! The file methods, row by row of protocol.md 9.
#![allow(missing_docs)]

mod handles;
mod races;
mod tree;
mod walk;
mod whole;

use std::fs;
use std::future::Future;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use mainstay_wire::{PathUri, RpcError};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;

/// The tree of the recorded conversations (T30 to T32).
pub(crate) struct Tree {
    _folder: TempDir,
    pub(crate) root: PathBuf,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("fsroot");
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::create_dir(root.join(".hid")).unwrap();
        fs::write(root.join("a.txt"), "hello world").unwrap();
        fs::write(root.join("sub/b.txt"), "bee").unwrap();
        fs::write(root.join(".hidden"), "h").unwrap();
        fs::write(root.join(".hid/x"), "x").unwrap();
        fs::write(root.join("sp ace é%.txt"), "s").unwrap();
        symlink("a.txt", root.join("link.txt")).unwrap();
        symlink("sub", root.join("dlink")).unwrap();
        symlink("nowhere", root.join("broken")).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            root.join("fifo"),
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();
        Self {
            _folder: folder,
            root,
        }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    pub(crate) fn uri(&self, below: &str) -> String {
        uri(&self.path(below))
    }
}

pub(crate) fn uri(path: &Path) -> String {
    PathUri::from_native(path).unwrap().as_str().to_owned()
}

/// Params as a peer sends them.
pub(crate) fn params<P: DeserializeOwned>(json: Value) -> P {
    serde_json::from_value(json).unwrap()
}

/// The code and text of a failure.
pub(crate) async fn failure<T: std::fmt::Debug>(
    call: impl Future<Output = Result<T, RpcError>>,
) -> (i64, String) {
    let error = call.await.unwrap_err();
    (error.code, error.message)
}

/// Asserts the code and text of a failure.
macro_rules! fails {
    ($call:expr, $code:expr, $text:expr $(,)?) => {
        assert_eq!(
            $crate::failure($call).await,
            ($code, String::from($text)),
            "{}",
            stringify!($call)
        )
    };
}
pub(crate) use fails;

pub(crate) const NOT_FOUND: &str = "No such file or directory (os error 2)";
pub(crate) const NOT_A_DIRECTORY: &str = "Not a directory (os error 20)";
pub(crate) const LINK_LOOP: &str = "Symbolic link loop (os error 40)";
pub(crate) const EXISTS: &str = "File exists (os error 17)";
pub(crate) const HAS_LINK: &str = "path contains a symbolic link";
