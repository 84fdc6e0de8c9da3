//! Walks.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use mainstay_executor::files;
use mainstay_executor::lane::Lane;
use mainstay_wire::fs::{WalkAnswer, WalkKind};
use mainstay_wire::{RpcError, limits};
use serde_json::{Value, json};

use crate::{NOT_FOUND, Tree, fails, params};

async fn walk(tree: &Tree, path: &str, changes: Value) -> Result<WalkAnswer, RpcError> {
    let mut options = json!({
        "maxDepth": 5, "maxDirectories": 100, "maxEntries": 1000, "followDirectorySymlinks": false,
    });
    options
        .as_object_mut()
        .unwrap()
        .extend(changes.as_object().unwrap().clone());
    files::walk(
        Lane::default(),
        params(json!({ "path": tree.uri(path), "options": options })),
    )
    .await
    .map(|answered| answered.answer)
}

/// The paths below the tree, directories with a slash.
fn names(tree: &Tree, answer: &WalkAnswer) -> Vec<String> {
    let name = |entry: &mainstay_wire::fs::WalkEntry| {
        let path = entry.path.to_native().unwrap();
        let name = path
            .strip_prefix(&tree.root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        match entry.kind {
            WalkKind::Directory => name + "/",
            WalkKind::File => name,
        }
    };
    answer.entries.iter().map(name).collect()
}

#[tokio::test]
async fn t32_walk() {
    let tree = Tree::new();
    fs::create_dir_all(tree.path("n1/n2")).unwrap();
    let top = [".hid/", ".hidden", "a.txt", "n1/", "sp ace é%.txt", "sub/"];
    let below = [".hid/x", "n1/n2/", "sub/b.txt", "sub/deep/"];

    for depth in [1, 5, 64] {
        let all = walk(&tree, "", json!({ "maxDepth": depth })).await.unwrap();
        assert_eq!(names(&tree, &all), [&top[..], &below].concat());
        assert!(!all.truncated && all.errors.is_empty());
    }
    let shallow = walk(&tree, "", json!({ "maxDepth": 0 })).await.unwrap();
    assert_eq!(names(&tree, &shallow), top);
    assert!(!shallow.truncated);
    let pruned = walk(&tree, "", json!({ "pruneHiddenDirectories": true }))
        .await
        .unwrap();
    assert_eq!(names(&tree, &pruned), [&top[..], &below[1..]].concat());
    assert!(!pruned.truncated);

    let few = walk(&tree, "", json!({ "maxDirectories": 1 }))
        .await
        .unwrap();
    assert_eq!(
        (names(&tree, &few), few.truncated),
        (top.map(String::from).to_vec(), true)
    );
    let enough = walk(&tree, "", json!({ "maxDirectories": 6 }))
        .await
        .unwrap();
    assert!(!enough.truncated);
    let few = walk(&tree, "", json!({ "maxDirectories": 5 }))
        .await
        .unwrap();
    assert!(few.truncated);
    let few = walk(&tree, "", json!({ "maxEntries": 2 })).await.unwrap();
    assert_eq!(
        (names(&tree, &few), few.truncated),
        (vec![".hid/".into(), ".hidden".into()], true)
    );
    // Entries that are not listed count, links that lead nowhere do not: 9 in the root, 4 below.
    let enough = walk(&tree, "", json!({ "maxEntries": 13 })).await.unwrap();
    assert!(!enough.truncated);
    let few = walk(&tree, "", json!({ "maxEntries": 12 })).await.unwrap();
    assert!(few.truncated);

    for nothing in ["a.txt", "fifo", "link.txt", "dlink"] {
        assert_eq!(
            walk(&tree, nothing, json!({})).await.unwrap(),
            WalkAnswer::default(),
            "{nothing}"
        );
    }
    fails!(walk(&tree, "none", json!({})), -32004, NOT_FOUND);
    fails!(walk(&tree, "broken", json!({})), -32004, NOT_FOUND);
    fails!(
        walk(&tree, "a.txt/x", json!({})),
        -32603,
        crate::NOT_A_DIRECTORY
    );
}

#[tokio::test]
async fn limit_walk_options() {
    let tree = Tree::new();
    let exceed =
        "filesystem walk limits exceed maximums: depth=64, directories=10000, entries=50000";
    let zero = "filesystem walk limits must be greater than zero";
    walk(
        &tree,
        "",
        json!({ "maxDepth": 64, "maxDirectories": 10_000, "maxEntries": 50_000 }),
    )
    .await
    .unwrap();
    fails!(walk(&tree, "", json!({ "maxDepth": 65 })), -32600, exceed);
    fails!(
        walk(&tree, "", json!({ "maxDirectories": 10_001 })),
        -32600,
        exceed
    );
    fails!(
        walk(&tree, "", json!({ "maxEntries": 50_001 })),
        -32600,
        exceed
    );
    fails!(
        walk(&tree, "", json!({ "maxDirectories": 0 })),
        -32600,
        zero
    );
    fails!(walk(&tree, "", json!({ "maxEntries": 0 })), -32600, zero);
}

#[tokio::test]
async fn links_to_directories_are_entered_once() {
    let tree = Tree::new();
    symlink("sub", tree.path("dlink2")).unwrap();
    symlink("..", tree.path("sub/up")).unwrap();
    fs::create_dir_all(tree.path("../ext/in")).unwrap();
    symlink("../ext", tree.path("zext")).unwrap();
    let found = walk(&tree, "", json!({ "followDirectorySymlinks": true }))
        .await
        .unwrap();
    assert_eq!(
        names(&tree, &found),
        [
            ".hid/",
            ".hidden",
            "a.txt",
            "dlink/",
            "dlink2/",
            "sp ace é%.txt",
            "sub/",
            "zext/",
            ".hid/x",
            "dlink/b.txt",
            "dlink/deep/",
            "dlink/up/",
            "zext/in/",
        ]
    );
    let below = walk(
        &tree,
        "dlink",
        json!({ "followDirectorySymlinks": true, "maxDepth": 0 }),
    )
    .await
    .unwrap();
    assert_eq!(
        names(&tree, &below),
        ["dlink/b.txt", "dlink/deep/", "dlink/up/"]
    );
}

#[tokio::test]
async fn t34_names_that_are_not_utf8_are_errors() {
    let tree = Tree::new();
    fs::create_dir(tree.path("enc")).unwrap();
    fs::write(
        tree.path("enc")
            .join(std::ffi::OsStr::from_bytes(b"\xff\xfe.txt")),
        "raw",
    )
    .unwrap();
    fs::write(tree.path("enc/~t"), "").unwrap();
    let found = walk(&tree, "enc", json!({})).await.unwrap();
    assert_eq!(names(&tree, &found), ["enc/~t"]);
    let errors: Vec<_> = found
        .errors
        .iter()
        .map(|error| (error.path.as_str(), error.message.as_str()))
        .collect();
    assert_eq!(
        errors,
        [(
            &*format!("{}/%EF%BF%BD%EF%BF%BD.txt", tree.uri("enc")),
            NOT_FOUND
        )]
    );
}

#[tokio::test]
async fn limit_walk_answer() {
    let tree = Tree::new();
    // Long names: the answer is full before the entries are.
    let long = "n".repeat(250);
    fs::create_dir(tree.path("long")).unwrap();
    let count = limits::WALK_ANSWER / 300 + 100;
    for number in 0..count {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            tree.path("long").join(format!("{long}{number:05}")),
            rustix::fs::FileType::RegularFile,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
    }
    let found = walk(&tree, "long", json!({ "maxEntries": 50_000 }))
        .await
        .unwrap();
    assert!(found.truncated);
    let bytes: usize = found
        .entries
        .iter()
        .map(|entry| entry.path.as_str().len())
        .sum();
    assert!(
        bytes < limits::WALK_ANSWER && bytes > limits::WALK_ANSWER / 2,
        "{bytes}"
    );
}
