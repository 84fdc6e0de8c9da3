//! Somebody swaps directories for links while trees are copied and removed: nothing outside may be touched.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use mainstay_executor::files;
use mainstay_executor::lane::Lane;
use rustix::fs::{CWD, RenameFlags};
use serde_json::json;

use crate::{params, uri};

/// Rounds of each race; `MAINSTAY_TEST_ALL` makes it longer.
fn rounds() -> usize {
    if std::env::var_os("MAINSTAY_TEST_ALL").is_some() {
        2000
    } else {
        150
    }
}

/// Exchanges two paths for each other, without a pause, until dropped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    /// Returns once the first exchange is done.
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let swap = move || rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
        swap().unwrap();
        let (running, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            running.send(()).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                // Fails while one of them is missing.
                let _ = swap();
            }
        });
        started.recv().unwrap();
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// What must survive every round.
fn outside(folder: &Path) -> PathBuf {
    let outside = folder.join("outside");
    fs::create_dir_all(outside.join("below")).unwrap();
    fs::write(outside.join("precious"), "precious").unwrap();
    fs::write(outside.join("below/precious"), "precious").unwrap();
    outside
}

fn assert_untouched(outside: &Path) {
    assert_eq!(fs::read(outside.join("precious")).unwrap(), b"precious");
    assert_eq!(
        fs::read(outside.join("below/precious")).unwrap(),
        b"precious"
    );
    assert_eq!(fs::read_dir(outside).unwrap().count(), 2);
}

#[tokio::test]
async fn a_directory_swapped_for_a_link_does_not_lead_a_removal_outside() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let outside = outside(&folder);
    let tree = folder.join("tree");
    for _ in 0..rounds() {
        fs::create_dir_all(tree.join("a/b/below")).unwrap();
        fs::write(tree.join("a/b/precious"), "x").unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        let swapper = Swapper::start(tree.join("a/b"), folder.join("link"));
        // Whether it succeeds does not matter here.
        let _ = files::remove(Lane::default(), params(json!({ "path": uri(&tree) }))).await;
        drop(swapper);
        assert_untouched(&outside);
        for left in [&tree, &folder.join("link")] {
            files::remove(Lane::default(), params(json!({ "path": uri(left) })))
                .await
                .unwrap();
        }
        assert_untouched(&outside);
    }
}

#[tokio::test]
async fn a_directory_swapped_for_a_link_does_not_lead_a_copy_outside() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let outside = outside(&folder);
    let (source, target) = (folder.join("source"), folder.join("target"));
    fs::create_dir_all(source.join("a/b/below")).unwrap();
    fs::write(source.join("a/b/plain"), "plain").unwrap();
    for round in 0..rounds() {
        symlink(&outside, folder.join("link")).unwrap();
        // Reading: the link's content must not appear in the copy. Writing: the link's place must not get any.
        let swapped = if round % 2 == 0 {
            source.join("a/b")
        } else {
            target.join("a/b")
        };
        fs::create_dir_all(target.join("a/b")).unwrap();
        let swapper = Swapper::start(swapped.clone(), folder.join("link"));
        let _ = files::copy(
            Lane::default(),
            params(json!({
                "sourcePath": uri(&source), "destinationPath": uri(&target), "recursive": true,
            })),
        )
        .await;
        drop(swapper);
        assert_untouched(&outside);
        if round % 2 == 0 {
            let inside = target.join("a/b");
            assert!(
                inside.is_symlink() || !inside.join("precious").exists(),
                "round {round}"
            );
        }
        if swapped.is_symlink() {
            rustix::fs::renameat_with(
                CWD,
                &swapped,
                CWD,
                folder.join("link"),
                RenameFlags::EXCHANGE,
            )
            .unwrap();
        }
        fs::remove_file(folder.join("link")).unwrap();
        fs::remove_dir_all(&target).unwrap();
    }
}

#[tokio::test]
async fn a_directory_swapped_for_a_link_does_not_lead_a_plain_write_outside() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let outside = outside(&folder);
    fs::create_dir_all(folder.join("a/b/below")).unwrap();
    symlink(&outside, folder.join("link")).unwrap();
    let swapper = Swapper::start(folder.join("a/b"), folder.join("link"));
    let below = uri(&folder.join("a/b/below/new"));
    for _ in 0..rounds() {
        let _ = files::write_file(
            Lane::default(),
            params(json!({ "path": below, "dataBase64": "eA==", "followSymlinks": false })),
        )
        .await;
        let _ = files::create_directory(
            Lane::default(),
            params(json!({
                "path": format!("{below}dir/x"), "followSymlinks": false,
            })),
        )
        .await;
        let removal = json!({ "path": uri(&folder.join("a/b/precious")), "followSymlinks": false });
        let _ = files::remove(Lane::default(), params(removal)).await;
        let read = json!({ "path": uri(&folder.join("a/b/precious")), "followSymlinks": false });
        assert!(
            files::read_file(Lane::default(), params(read))
                .await
                .is_err()
        );
    }
    drop(swapper);
    assert_untouched(&outside);
    assert_eq!(fs::read_dir(outside.join("below")).unwrap().count(), 1);
}

#[tokio::test]
async fn a_walk_that_does_not_follow_links_stays_inside() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let outside = outside(&folder);
    let tree = folder.join("tree");
    // Many directories stand between the listing of the last one and its turn.
    for number in 0..200 {
        fs::create_dir_all(tree.join(format!("d{number:03}"))).unwrap();
    }
    fs::create_dir(tree.join("last")).unwrap();
    symlink(&outside, folder.join("link")).unwrap();
    let swapper = Swapper::start(tree.join("last"), folder.join("link"));
    let mut refused = 0;
    for _ in 0..rounds() {
        let found = files::walk(Lane::default(), params(json!({
            "path": uri(&tree),
            "options": { "maxDepth": 9, "maxDirectories": 999, "maxEntries": 999, "followDirectorySymlinks": false },
        })))
        .await
        .unwrap();
        assert!(
            found
                .entries
                .iter()
                .all(|entry| !entry.path.as_str().contains("precious")),
            "{found:?}"
        );
        // Listed as a directory, a link when its turn came.
        refused += found.errors.len();
    }
    drop(swapper);
    assert!(refused > 0, "it was never swapped in time");
}

#[tokio::test]
async fn a_destination_moved_into_its_source_ends_the_copy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let (source, target) = (folder.join("source"), folder.join("target"));
    for _ in 0..rounds() / 5 {
        fs::create_dir_all(source.join("a/b")).unwrap();
        for number in 0..20 {
            fs::write(source.join(format!("a/f{number}")), "x").unwrap();
        }
        fs::create_dir(&target).unwrap();
        fs::create_dir(source.join("a/z")).unwrap();
        let swapper = Swapper::start(target.clone(), source.join("a/z"));
        let copying = files::copy(
            Lane::default(),
            params(json!({
                "sourcePath": uri(&source), "destinationPath": uri(&target), "recursive": true,
            })),
        );
        // Whether it succeeds does not matter here: a copy that copies itself never ends.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(60), copying)
            .await
            .unwrap();
        drop(swapper);
        for left in [&source, &target] {
            files::remove(Lane::default(), params(json!({ "path": uri(left) })))
                .await
                .unwrap();
        }
    }
}
