//! Directories, removal, copies.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use mainstay_executor::files;
use mainstay_executor::lane::Lane;
use rustix::process::Resource;
use serde_json::json;

use crate::{EXISTS, HAS_LINK, NOT_A_DIRECTORY, NOT_FOUND, Tree, fails, params};

const NOT_EMPTY: &str = "Directory not empty (os error 39)";

#[tokio::test]
async fn t31_create_directory() {
    let tree = Tree::new();
    let create = |path: &str, recursive: bool, follow: bool| {
        files::create_directory(
            Lane::default(),
            params(
                json!({ "path": tree.uri(path), "recursive": recursive, "followSymlinks": follow }),
            ),
        )
    };
    files::create_directory(
        Lane::default(),
        params(json!({ "path": tree.uri("n1/n2") })),
    )
    .await
    .unwrap();
    assert!(tree.path("n1/n2").is_dir());
    for follow in [true, false] {
        create("n1/n2", true, follow).await.unwrap();
        create("sub", true, follow).await.unwrap();
        fails!(create("n1/n2", false, follow), -32603, EXISTS);
        fails!(create("a.txt", false, follow), -32603, EXISTS);
        fails!(create("a.txt/x", true, follow), -32603, NOT_A_DIRECTORY);
        fails!(create("no/dir", false, follow), -32004, NOT_FOUND);
    }
    fails!(create("a.txt", true, true), -32603, EXISTS);
    fails!(create("a.txt", true, false), -32603, NOT_A_DIRECTORY);
    fails!(create("broken", true, true), -32603, EXISTS);

    create("dlink", true, true).await.unwrap();
    create("dlink/made", true, true).await.unwrap();
    assert!(tree.path("sub/made").is_dir());
    for recursive in [true, false] {
        fails!(create("dlink/n", recursive, false), -32603, NOT_A_DIRECTORY);
        fails!(
            create("dlink/deep", recursive, false),
            -32603,
            NOT_A_DIRECTORY
        );
    }
    fails!(create("dlink", true, false), -32603, NOT_A_DIRECTORY);
    assert!(!tree.path("sub/n").exists());
    create("new/a/b", true, false).await.unwrap();
    create("new/a/c", false, false).await.unwrap();
    assert!(tree.path("new/a/b").is_dir() && tree.path("new/a/c").is_dir());
    fails!(
        files::create_directory(
            Lane::default(),
            params(json!({ "path": "file:///", "recursive": false }))
        ),
        -32603,
        EXISTS
    );
    files::create_directory(Lane::default(), params(json!({ "path": "file:///" })))
        .await
        .unwrap();
}

#[tokio::test]
async fn t31_read_directory() {
    let tree = Tree::new();
    symlink("loop", tree.path("loop")).unwrap();
    let list = |path: &str| {
        files::read_directory(Lane::default(), params(json!({ "path": tree.uri(path) })))
    };
    let mut entries: Vec<_> = list("").await.unwrap().answer.entries;
    entries.sort_by(|a, b| a.file_name.cmp(&b.file_name));
    let entries: Vec<_> = entries
        .iter()
        .map(|entry| (entry.file_name.as_str(), entry.is_directory, entry.is_file))
        .collect();
    // Links are told as what they point to; `broken` and `loop` point to nothing.
    assert_eq!(
        entries,
        [
            (".hid", true, false),
            (".hidden", false, true),
            ("a.txt", false, true),
            ("dlink", true, false),
            ("fifo", false, false),
            ("link.txt", false, true),
            ("sp ace é%.txt", false, true),
            ("sub", true, false),
        ]
    );
    assert_eq!(list("dlink").await.unwrap().entries.len(), 2);
    fails!(list("a.txt"), -32603, NOT_A_DIRECTORY);
    fails!(list("none"), -32004, NOT_FOUND);
}

#[tokio::test]
async fn t31_remove() {
    let tree = Tree::new();
    let remove = |path: &str, recursive: bool, force: bool, follow: bool| {
        files::remove(
            Lane::default(),
            params(json!({
                "path": tree.uri(path), "recursive": recursive, "force": force, "followSymlinks": follow,
            })),
        )
    };
    files::remove(
        Lane::default(),
        params(json!({ "path": tree.uri("a.txt") })),
    )
    .await
    .unwrap();
    assert!(!tree.path("a.txt").exists());
    files::remove(
        Lane::default(),
        params(json!({ "path": tree.uri("a.txt") })),
    )
    .await
    .unwrap();
    for recursive in [true, false] {
        for follow in [true, false] {
            remove("a.txt", recursive, true, follow).await.unwrap();
            fails!(remove("a.txt", recursive, false, follow), -32004, NOT_FOUND);
            fails!(
                remove("sub/b.txt/x", recursive, true, follow),
                -32603,
                NOT_A_DIRECTORY
            );
        }
        fails!(remove("dlink", recursive, true, false), -32600, HAS_LINK);
        fails!(remove("broken", recursive, true, false), -32600, HAS_LINK);
        fails!(
            remove("dlink/b.txt", recursive, true, false),
            -32603,
            NOT_A_DIRECTORY
        );
        fails!(
            remove("dlink/none", recursive, true, false),
            -32603,
            NOT_A_DIRECTORY
        );
    }
    fails!(remove("sub", false, true, true), -32603, NOT_EMPTY);
    fails!(remove("sub", false, true, false), -32603, NOT_EMPTY);
    // The link itself, not what it points to.
    remove("dlink", true, false, true).await.unwrap();
    assert!(tree.path("sub/b.txt").exists());
    remove("broken", true, false, true).await.unwrap();
    assert!(tree.path("broken").symlink_metadata().is_err());
    remove("fifo", true, false, true).await.unwrap();
    // The reference cannot do this one; we refuse links on the way and remove the tree.
    remove("sub", true, false, false).await.unwrap();
    assert!(!tree.path("sub").exists());
}

#[tokio::test]
async fn a_removed_tree_takes_nothing_outside_with_it() {
    let tree = Tree::new();
    fs::create_dir(tree.path("t")).unwrap();
    symlink("../sub", tree.path("t/up")).unwrap();
    symlink(tree.path("a.txt"), tree.path("t/file")).unwrap();
    files::remove(Lane::default(), params(json!({ "path": tree.uri("t") })))
        .await
        .unwrap();
    assert!(!tree.path("t").exists());
    assert!(tree.path("sub/b.txt").exists() && tree.path("a.txt").exists());
}

/// Deeper than descriptors or a stack would allow one each.
#[tokio::test]
async fn a_very_deep_tree_is_copied_and_removed() {
    const DEPTH: usize = 1200;
    let limit = rustix::process::Rlimit {
        current: Some(1024),
        ..rustix::process::getrlimit(Resource::Nofile)
    };
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    let tree = Tree::new();
    fs::create_dir(tree.path("deep")).unwrap();
    let mut at = rustix::fs::open(
        tree.path("deep"),
        rustix::fs::OFlags::PATH,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    for _ in 0..DEPTH {
        rustix::fs::mkdirat(&at, "d", rustix::fs::Mode::RWXU).unwrap();
        at = rustix::fs::openat(
            &at,
            "d",
            rustix::fs::OFlags::PATH,
            rustix::fs::Mode::empty(),
        )
        .unwrap();
    }
    rustix::fs::symlinkat("bottom", &at, "end").unwrap();

    let depth = |top: &Path| {
        let flags = rustix::fs::OFlags::PATH;
        let mut at = rustix::fs::open(top, flags, rustix::fs::Mode::empty()).unwrap();
        let mut depth = 0;
        while let Ok(below) = rustix::fs::openat(&at, "d", flags, rustix::fs::Mode::empty()) {
            at = below;
            depth += 1;
        }
        let end = rustix::fs::readlinkat(&at, "end", Vec::new()).unwrap();
        assert_eq!(end.as_bytes(), b"bottom");
        depth
    };
    assert_eq!(depth(&tree.path("deep")), DEPTH);
    copy(&tree, "deep", "copy", true).await.unwrap();
    assert_eq!(depth(&tree.path("copy")), DEPTH);
    for top in ["deep", "copy"] {
        files::remove(Lane::default(), params(json!({ "path": tree.uri(top) })))
            .await
            .unwrap();
        assert!(!tree.path(top).exists());
    }
}

async fn copy(
    tree: &Tree,
    from: &str,
    to: &str,
    recursive: bool,
) -> Result<mainstay_wire::Empty, mainstay_wire::RpcError> {
    files::copy(
        Lane::default(),
        params(json!({
            "sourcePath": tree.uri(from), "destinationPath": tree.uri(to), "recursive": recursive,
        })),
    )
    .await
    .map(|answered| answered.answer)
}

const INTO_ITSELF: &str = "fs/copy cannot copy a directory to itself or one of its descendants";
const ONLY_PLAIN: &str = "fs/copy only supports regular files, directories, and symlinks";

#[tokio::test]
async fn t31_copy() {
    let tree = Tree::new();
    fs::set_permissions(tree.path("a.txt"), fs::Permissions::from_mode(0o754)).unwrap();
    copy(&tree, "a.txt", "c.txt", false).await.unwrap();
    assert_eq!(fs::read(tree.path("c.txt")).unwrap(), b"hello world");
    assert_eq!(
        fs::metadata(tree.path("c.txt"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o754
    );
    copy(&tree, "sub/b.txt", "c.txt", true).await.unwrap();
    assert_eq!(fs::read(tree.path("c.txt")).unwrap(), b"bee");
    copy(&tree, "link.txt", "linkcopy", false).await.unwrap();
    assert_eq!(
        fs::read_link(tree.path("linkcopy")).unwrap(),
        Path::new("a.txt")
    );
    copy(&tree, "dlink", "dlinkcopy", true).await.unwrap();
    assert_eq!(
        fs::read_link(tree.path("dlinkcopy")).unwrap(),
        Path::new("sub")
    );

    fails!(copy(&tree, "none", "z", true), -32004, NOT_FOUND);
    fails!(copy(&tree, "a.txt", "no/z", true), -32004, NOT_FOUND);
    fails!(
        copy(&tree, "a.txt", "sub", true),
        -32603,
        "Is a directory (os error 21)"
    );
    fails!(copy(&tree, "link.txt", "a.txt", true), -32603, EXISTS);
    fails!(copy(&tree, "fifo", "z", false), -32600, ONLY_PLAIN);
    // Links in paths the caller names are followed.
    copy(&tree, "dlink/b.txt", "dlink/c.txt", false)
        .await
        .unwrap();
    assert_eq!(fs::read(tree.path("sub/c.txt")).unwrap(), b"bee");
    copy(&tree, "sub/b.txt", "broken", false).await.unwrap();
    assert_eq!(fs::read(tree.path("nowhere")).unwrap(), b"bee");
}

#[tokio::test]
async fn t31_copy_directory() {
    let tree = Tree::new();
    let text = "fs/copy requires recursive: true when sourcePath is a directory";
    fails!(copy(&tree, "sub", "subcopy", false), -32600, text);
    fails!(copy(&tree, "sub", "sub", true), -32600, INTO_ITSELF);
    fails!(copy(&tree, "sub", "sub/inside", true), -32600, INTO_ITSELF);
    fails!(copy(&tree, "sub", "dlink/q", true), -32600, INTO_ITSELF);
    fails!(copy(&tree, "sub", "dlink", true), -32600, INTO_ITSELF);
    fails!(copy(&tree, "sub", "a.txt", true), -32603, EXISTS);
    assert!(!tree.path("sub/inside").exists());

    // Missing directories above are made, links copied, other kinds left out, an existing directory filled up.
    copy(&tree, "", "../new/all", true).await.unwrap();
    let new = tree.path("../new/all");
    assert_eq!(fs::read(new.join("sub/b.txt")).unwrap(), b"bee");
    assert_eq!(
        fs::read_link(new.join("broken")).unwrap(),
        Path::new("nowhere")
    );
    assert!(new.join("sub/deep").is_dir() && new.join(".hid/x").is_file());
    assert!(!new.join("fifo").exists());
    copy(&tree, "sub", ".hid", true).await.unwrap();
    assert!(tree.path(".hid/b.txt").is_file() && tree.path(".hid/x").is_file());
}

#[tokio::test]
async fn a_copied_directory_stays_as_private_as_it_was() {
    let tree = Tree::new();
    fs::create_dir(tree.path("sub/secret")).unwrap();
    fs::set_permissions(tree.path("sub/secret"), fs::Permissions::from_mode(0o700)).unwrap();
    copy(&tree, "sub", "copied", true).await.unwrap();
    assert_eq!(
        fs::metadata(tree.path("copied/secret"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o700
    );
}

#[tokio::test]
async fn a_file_copied_onto_itself_keeps_its_content() {
    let tree = Tree::new();
    copy(&tree, "a.txt", "a.txt", false).await.unwrap();
    copy(&tree, "a.txt", "link.txt", false).await.unwrap();
    assert_eq!(fs::read(tree.path("a.txt")).unwrap(), b"hello world");
}

#[tokio::test]
async fn a_copy_does_not_write_through_links_in_the_destination() {
    let tree = Tree::new();
    fs::create_dir_all(tree.path("target")).unwrap();
    symlink(tree.path("a.txt"), tree.path("target/b.txt")).unwrap();
    fails!(copy(&tree, "sub", "target", true), -32603, crate::LINK_LOOP);
    assert_eq!(fs::read(tree.path("a.txt")).unwrap(), b"hello world");

    fs::create_dir_all(tree.path("target2")).unwrap();
    fs::write(tree.path("sub/deep/f"), "f").unwrap();
    symlink(tree.path(".hid"), tree.path("target2/deep")).unwrap();
    fails!(copy(&tree, "sub", "target2", true), -32603, NOT_A_DIRECTORY);
    assert!(!tree.path(".hid/f").exists());
}
