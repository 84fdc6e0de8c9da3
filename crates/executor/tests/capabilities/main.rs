//! Capability discovery (protocol.md 13, T51, and what 0.171.0 does with other trees).
#![allow(missing_docs)]

mod discover;
mod limits;
mod roots;

use std::fs;
use std::path::PathBuf;

use mainstay_executor::capabilities;
use mainstay_executor::config_read::ConfigFiles;
use mainstay_executor::lane::Lane;
use mainstay_wire::capabilities::{DiscoverAnswer, RootAnswer};
use mainstay_wire::{PathUri, RpcError};
use serde_json::{Value, json};

/// A host with its own folder.
pub(crate) struct Host {
    _folder: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl Host {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        Self {
            _folder: folder,
            root,
        }
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn skill(&self, directory: &str, name: &str) {
        self.write(
            &format!("{directory}/SKILL.md"),
            format!("---\nname: {name}\ndescription: about {name}\n---\n"),
        );
    }

    pub(crate) fn uri(&self, path: &str) -> PathUri {
        PathUri::from_native(&self.root.join(path)).unwrap()
    }

    /// A URI without the host's folder.
    pub(crate) fn below(&self, uri: &PathUri) -> String {
        uri.as_str()
            .strip_prefix(self.uri("").as_str())
            .unwrap()
            .trim_start_matches('/')
            .to_owned()
    }

    pub(crate) async fn discover(&self) -> DiscoverAnswer {
        let files = ConfigFiles {
            home: Some(self.root.join("home")),
            codex_home: self.root.join("home/.codex"),
            system: self.root.join("etc"),
        };
        let params = json!({ "cwd": self.uri("proj") });
        capabilities::discover(
            Lane::default(),
            files,
            serde_json::from_value(params).unwrap(),
        )
        .await
        .unwrap()
        .answer
    }

    pub(crate) async fn try_roots(&self, roots: Value) -> Result<Vec<RootAnswer>, RpcError> {
        let params = serde_json::from_value(json!({ "roots": roots })).unwrap();
        capabilities::discover_roots(Lane::default(), params)
            .await
            .map(|answered| answered.answer.roots)
    }

    pub(crate) async fn roots(&self, paths: &[&str]) -> Vec<RootAnswer> {
        let roots: Vec<_> = paths
            .iter()
            .map(|path| json!({ "id": path, "path": self.uri(path) }))
            .collect();
        self.try_roots(json!(roots)).await.unwrap()
    }

    pub(crate) async fn one(&self, path: &str) -> RootAnswer {
        self.roots(&[path]).await.remove(0)
    }

    pub(crate) fn skills(&self, root: &RootAnswer) -> Vec<String> {
        root.skills
            .iter()
            .map(|skill| self.below(&skill.instructions.path))
            .collect()
    }

    pub(crate) fn namespaces(&self, root: &RootAnswer) -> Vec<String> {
        root.namespace_manifests
            .iter()
            .map(|manifest| self.below(&manifest.path))
            .collect()
    }
}
