//! `fs/watchMissing`, row by row of protocol.md 9.4.
#![allow(missing_docs)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Duration;

use mainstay_executor::lane::Lane;
use mainstay_executor::notice_sink::NoticeSink;
use mainstay_executor::watch_missing::MissingWatch;
use mainstay_wire::{PathUri, limits};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;

#[derive(Clone)]
struct Peer(mpsc::UnboundedSender<u64>);

impl NoticeSink for Peer {
    async fn send_notice(&self, frame: String) -> bool {
        let message: serde_json::Value = serde_json::from_str(&frame).unwrap();
        assert_eq!(message["method"], "fs/missingChanged");
        self.0
            .send(message["params"]["watchId"].as_u64().unwrap())
            .is_ok()
    }
}

struct Connection {
    _folder: TempDir,
    folder: PathBuf,
    watch: MissingWatch,
    peer: Peer,
    fired: mpsc::UnboundedReceiver<u64>,
    next: u64,
}

impl Connection {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        fs::write(path.join("exists"), "x").unwrap();
        fs::create_dir(path.join("dir")).unwrap();
        let (sender, fired) = mpsc::unbounded_channel();
        Self {
            _folder: folder,
            folder: path,
            watch: MissingWatch::default(),
            peer: Peer(sender),
            fired,
            next: 0,
        }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.join(below)
    }

    fn uri(&self, below: &str) -> PathUri {
        PathUri::from_native(&self.path(below)).unwrap()
    }

    /// Registers a watch with an id of its own.
    async fn register(&mut self, id: u64, missing: &[&str], present: Option<&str>) -> bool {
        let missing: Vec<_> = missing.iter().map(|path| self.uri(path)).collect();
        let present = present.map(|path| self.uri(path));
        let params = json!({ "watchId": id, "missing": missing, "present": present });
        let (answer, watch) = self
            .watch
            .watch(Lane::default(), serde_json::from_value(params).unwrap())
            .await
            .unwrap();
        assert_eq!(answer.watching, watch.is_some());
        if let Some(watch) = watch {
            tokio::spawn(watch.run(self.peer.clone()));
        }
        answer.watching
    }

    /// Registers a watch with the next id.
    async fn watch(&mut self, missing: &[&str], present: Option<&str>) -> bool {
        self.next += 1;
        self.register(self.next, missing, present).await
    }

    /// Waits until the last watch has fired.
    async fn fires(&mut self) {
        assert_eq!(self.fired.recv().await, Some(self.next));
    }

    /// Waits until nothing can be under way any more.
    async fn stays_silent(&mut self) {
        let silence = tokio::time::timeout(Duration::from_millis(60), self.fired.recv()).await;
        assert!(silence.is_err(), "{silence:?}");
    }
}

#[tokio::test]
async fn t52_a_listed_path_or_its_first_missing_ancestor_appears() {
    let mut c = Connection::new();
    assert!(c.watch(&["none.txt"], None).await);
    fs::write(c.path("none.txt"), "").unwrap();
    c.fires().await;
    // Once: the watch is spent.
    fs::remove_file(c.path("none.txt")).unwrap();
    fs::write(c.path("none.txt"), "").unwrap();
    c.stays_silent().await;

    assert!(c.watch(&["a/b/c"], None).await);
    fs::create_dir(c.path("a")).unwrap();
    c.fires().await;
    assert!(c.watch(&["a/b/c"], None).await);
    fs::create_dir_all(c.path("a/b/c")).unwrap();
    c.fires().await;
    assert!(c.watch(&["n4", "n5", "n5"], None).await);
    fs::write(c.path("sibling"), "").unwrap();
    c.stays_silent().await;
    fs::rename(c.path("sibling"), c.path("n5")).unwrap();
    c.fires().await;
    assert!(c.watch(&["n6"], None).await);
    symlink("nowhere", c.path("n6")).unwrap();
    c.fires().await;
}

#[tokio::test]
async fn t52_a_newer_registration_replaces_the_older() {
    let mut c = Connection::new();
    assert!(c.watch(&["n1"], None).await);
    assert!(c.watch(&["n2"], None).await);
    fs::write(c.path("n1"), "").unwrap();
    c.stays_silent().await;
    fs::write(c.path("n2"), "").unwrap();
    c.fires().await;
    // Also one that does not stand itself.
    assert!(c.watch(&["n3"], None).await);
    assert!(!c.watch(&["exists"], None).await);
    fs::write(c.path("n3"), "").unwrap();
    c.stays_silent().await;
}

#[tokio::test]
async fn t52_what_cannot_be_watched() {
    let mut c = Connection::new();
    symlink("dir", c.path("link")).unwrap();
    symlink("nowhere", c.path("broken")).unwrap();
    for missing in [
        "exists",
        "dir",
        "",
        "exists/below",
        "link/n",
        "broken",
        "broken/n",
    ] {
        assert!(!c.watch(&[missing], None).await, "{missing}");
        assert!(!c.watch(&["none", missing], None).await, "{missing}");
    }
    assert!(!c.watch(&["none"], Some("none")).await);
    // What it leads to could change unseen.
    assert!(!c.watch(&["none"], Some("link")).await);
    assert!(!c.watch(&[], Some("exists")).await);
    for foreign in ["file:///c:/x", "file://host/x"] {
        c.next += 1;
        let params = json!({ "watchId": c.next, "missing": [foreign] });
        let (answer, _) = c
            .watch
            .watch(Lane::default(), serde_json::from_value(params).unwrap())
            .await
            .unwrap();
        assert!(!answer.watching);
    }
}

#[tokio::test]
async fn t52_present_is_changed_or_removed() {
    let mut c = Connection::new();
    type Change = (&'static str, fn(&Connection));
    let changes: [Change; 6] = [
        ("exists", |c| fs::write(c.path("exists"), "longer").unwrap()),
        ("exists", |c| {
            fs::set_permissions(c.path("exists"), fs::Permissions::from_mode(0o600)).unwrap()
        }),
        ("exists", |c| {
            fs::write(c.path("new"), "").unwrap();
            fs::rename(c.path("new"), c.path("exists")).unwrap();
        }),
        ("exists", |c| {
            fs::rename(c.path("exists"), c.path("moved")).unwrap()
        }),
        ("moved", |c| fs::remove_file(c.path("moved")).unwrap()),
        ("dir", |c| {
            fs::set_permissions(c.path("dir"), fs::Permissions::from_mode(0o711)).unwrap()
        }),
    ];
    for (present, change) in changes {
        assert!(c.watch(&["none"], Some(present)).await);
        change(&c);
        c.fires().await;
    }
    // What is made in a directory does not change it, and reading changes nothing.
    assert!(c.watch(&["none"], Some("dir")).await);
    fs::write(c.path("dir/child"), "").unwrap();
    fs::read_dir(c.path("dir")).unwrap().count();
    c.stays_silent().await;
    fs::write(c.path("none"), "").unwrap();
    c.fires().await;
}

#[tokio::test]
async fn a_directory_on_the_way_that_goes_away_fires() {
    let mut c = Connection::new();
    fs::create_dir_all(c.path("x/y/z")).unwrap();
    assert!(c.watch(&["x/y/z/n"], None).await);
    fs::rename(c.path("x"), c.path("x2")).unwrap();
    c.fires().await;
    assert!(c.watch(&["x2/y/z/n"], None).await);
    fs::remove_dir_all(c.path("x2")).unwrap();
    c.fires().await;
}

#[tokio::test]
async fn t53_ids_grow() {
    let mut c = Connection::new();
    assert!(c.register(5, &["k1"], None).await);
    assert!(!c.register(5, &["k1"], None).await);
    assert!(!c.register(4, &["k1"], None).await);
    // Nothing has changed: the first one stands.
    fs::write(c.path("k1"), "").unwrap();
    assert_eq!(c.fired.recv().await, Some(5));

    assert!(c.register(6, &["k2"], None).await);
    assert!(!c.register(7, &[], None).await);
    fs::write(c.path("k2"), "").unwrap();
    c.stays_silent().await;
    assert!(!c.register(7, &["k3"], None).await);
    assert!(c.register(u64::MAX, &["k3"], None).await);
}

#[tokio::test]
async fn limit_watched_paths() {
    let mut c = Connection::new();
    let names: Vec<_> = (0..=limits::WATCH_PATHS)
        .map(|number| format!("m{number}"))
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert!(c.watch(&names[..limits::WATCH_PATHS], None).await);
    fs::write(c.path(names[limits::WATCH_PATHS - 1]), "").unwrap();
    c.fires().await;
    fs::remove_file(c.path(names[limits::WATCH_PATHS - 1])).unwrap();
    assert!(!c.watch(&names, None).await);
}

/// Whatever happens between the registration and the running of the watch is told.
#[tokio::test]
async fn nothing_is_missed_between_registration_and_running() {
    let mut c = Connection::new();
    for id in 1..=100 {
        let path = format!("n{id}");
        let params = json!({ "watchId": id, "missing": [c.uri(&path)] });
        let call = c
            .watch
            .watch(Lane::default(), serde_json::from_value(params).unwrap());
        let maker = c.path(&path);
        let making = std::thread::spawn(move || fs::write(maker, "").unwrap());
        let (answer, watch) = call.await.unwrap();
        making.join().unwrap();
        match watch {
            Some(watch) => {
                watch.run(c.peer.clone()).await;
                assert_eq!(c.fired.recv().await, Some(id));
            }
            None => assert!(!answer.watching),
        }
    }
}

#[tokio::test]
async fn a_watch_ends_with_its_connection() {
    let mut c = Connection::new();
    let params = json!({ "watchId": 1, "missing": [c.uri("none")] });
    let (_, watch) = c
        .watch
        .watch(Lane::default(), serde_json::from_value(params).unwrap())
        .await
        .unwrap();
    let running = tokio::spawn(watch.unwrap().run(c.peer.clone()));
    drop(std::mem::take(&mut c.watch));
    running.await.unwrap();
    fs::write(c.path("none"), "").unwrap();
    c.stays_silent().await;
}
