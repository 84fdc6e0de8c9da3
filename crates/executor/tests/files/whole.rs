//! Whole files, metadata, canonical paths.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use mainstay_executor::files;
use mainstay_executor::lane::Lane;
use mainstay_wire::limits;
use serde_json::json;

use crate::{HAS_LINK, LINK_LOOP, NOT_A_DIRECTORY, NOT_FOUND, Tree, fails, params};

#[tokio::test]
async fn t30_read_file() {
    let tree = Tree::new();
    let read =
        |path: &str| files::read_file(Lane::default(), params(json!({ "path": tree.uri(path) })));
    let plain = |path: &str| {
        files::read_file(
            Lane::default(),
            params(json!({ "path": tree.uri(path), "followSymlinks": false })),
        )
    };

    for path in ["a.txt", "link.txt"] {
        assert_eq!(&*read(path).await.unwrap().data_base64, b"hello world");
    }
    assert_eq!(&*read("sp ace é%.txt").await.unwrap().data_base64, b"s");
    assert_eq!(&*read("dlink/b.txt").await.unwrap().data_base64, b"bee");
    assert_eq!(&*plain("a.txt").await.unwrap().data_base64, b"hello world");

    fails!(read("missing.txt"), -32004, NOT_FOUND);
    fails!(read("broken"), -32004, NOT_FOUND);
    fails!(
        read("sub"),
        -32600,
        format!("path `{}` is not a file", tree.path("sub").display())
    );
    fails!(
        read("fifo"),
        -32600,
        format!("path `{}` is not a file", tree.path("fifo").display())
    );
    fails!(read("a.txt/x"), -32603, NOT_A_DIRECTORY);
    fails!(plain("link.txt"), -32603, LINK_LOOP);
    fails!(plain("broken"), -32603, LINK_LOOP);
    fails!(plain("dlink/b.txt"), -32603, NOT_A_DIRECTORY);
    fails!(
        read(&"x".repeat(300)),
        -32603,
        "Filename too long (os error 36)"
    );

    let elsewhere = files::read_file(Lane::default(), params(json!({ "path": "file:///c:/x" })));
    fails!(elsewhere, -32600, "'file:///C:/x' is invalid on 'linux'");
    let device = files::read_file(
        Lane::default(),
        params(json!({ "path": "file:///dev/null" })),
    );
    fails!(device, -32600, "path `/dev/null` is not a file");
    // No size in its metadata, yet content.
    let version = files::read_file(
        Lane::default(),
        params(json!({ "path": "file:///proc/version" })),
    )
    .await
    .unwrap();
    assert!(version.data_base64.starts_with(b"Linux"));
}

#[tokio::test]
async fn t34_names_that_are_not_utf8_are_reached_by_escapes() {
    let tree = Tree::new();
    fs::write(
        tree.root.join(std::ffi::OsStr::from_bytes(b"\xff\xfe.txt")),
        "raw",
    )
    .unwrap();
    let path = format!("{}/%FF%FE.txt", tree.uri(""));
    let read = files::read_file(Lane::default(), params(json!({ "path": path })))
        .await
        .unwrap();
    assert_eq!(&*read.data_base64, b"raw");
    let canonical = files::canonicalize(Lane::default(), params(json!({ "path": path })))
        .await
        .unwrap();
    assert_eq!(canonical.path.as_str(), path);
}

#[tokio::test]
async fn limit_read_file_is_what_fits_one_message() {
    let tree = Tree::new();
    let file = fs::File::create(tree.path("big")).unwrap();
    let read = || files::read_file(Lane::default(), params(json!({ "path": tree.uri("big") })));

    file.set_len(limits::READ_FILE_ANSWER).unwrap();
    let answer = read().await.unwrap();
    assert_eq!(answer.data_base64.len() as u64, limits::READ_FILE_ANSWER);
    let message = mainstay_wire::envelope::success(
        &mainstay_wire::envelope::RequestId::Int(i64::MIN),
        &answer.answer,
    );
    assert!(message.len() <= limits::MESSAGE);
    drop((answer, message));

    file.set_len(limits::READ_FILE_ANSWER + 1).unwrap();
    let text = format!(
        "file is too large to read: limit is {} bytes",
        limits::READ_FILE_ANSWER
    );
    fails!(read(), -32600, text);
}

#[tokio::test]
async fn t31_write_file() {
    let tree = Tree::new();
    let write = |path: &str, data: &str, follow: bool| {
        files::write_file(
            Lane::default(),
            params(json!({ "path": tree.uri(path), "dataBase64": data, "followSymlinks": follow })),
        )
    };
    write("w.txt", "ZGF0YQ==", true).await.unwrap();
    assert_eq!(fs::read(tree.path("w.txt")).unwrap(), b"data");
    write("w.txt", "eA==", false).await.unwrap();
    assert_eq!(fs::read(tree.path("w.txt")).unwrap(), b"x");
    write("link.txt", "eQ==", true).await.unwrap();
    assert_eq!(fs::read(tree.path("a.txt")).unwrap(), b"y");
    write("broken", "eg==", true).await.unwrap();
    assert_eq!(fs::read(tree.path("nowhere")).unwrap(), b"z");

    let text = "fs/writeFile requires valid base64 dataBase64: Invalid symbol 42, offset 0.";
    fails!(write("w.txt", "***", true), -32600, text);
    fails!(write("no/dir/w.txt", "", true), -32004, NOT_FOUND);
    fails!(
        write("sub", "", true),
        -32603,
        "Is a directory (os error 21)"
    );
    fails!(write("a.txt/x", "", true), -32603, NOT_A_DIRECTORY);
    fails!(write("link.txt", "eA==", false), -32603, LINK_LOOP);
    fails!(write("dlink/n", "eA==", false), -32603, NOT_A_DIRECTORY);
    // Nobody reads it; waiting for a reader would take a thread for ever.
    fails!(
        write("fifo", "eA==", true),
        -32603,
        "No such device or address (os error 6)"
    );
    assert!(!tree.path("sub/n").exists());
    assert_eq!(fs::read(tree.path("a.txt")).unwrap(), b"y");
}

#[tokio::test]
async fn t31_get_metadata() {
    let tree = Tree::new();
    let get = |path: &str| {
        files::get_metadata(Lane::default(), params(json!({ "path": tree.uri(path) })))
    };
    let plain = |path: &str| {
        files::get_metadata(
            Lane::default(),
            params(json!({ "path": tree.uri(path), "followSymlinks": false })),
        )
    };
    let facts = |metadata: &mainstay_wire::fs::Metadata| {
        (
            metadata.is_directory,
            metadata.is_file,
            metadata.is_symlink,
            metadata.size,
        )
    };

    let file = get("a.txt").await.unwrap().answer;
    assert_eq!(facts(&file), (false, true, false, 11));
    let modified = fs::metadata(tree.path("a.txt"))
        .unwrap()
        .modified()
        .unwrap();
    let modified = modified
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis();
    assert_eq!(i128::from(file.modified_at_ms), modified.cast_signed());
    assert_eq!(plain("a.txt").await.unwrap().answer, file);

    let directory = get("sub").await.unwrap();
    assert!(directory.is_directory && !directory.is_file && !directory.is_symlink);
    assert_eq!(
        facts(&get("link.txt").await.unwrap()),
        (false, true, true, 11)
    );
    let link = get("dlink").await.unwrap();
    assert!(link.is_directory && link.is_symlink);
    assert_eq!(facts(&get("fifo").await.unwrap()), (false, false, false, 0));
    assert_eq!(
        facts(&get("dlink/b.txt").await.unwrap()),
        (false, true, false, 3)
    );

    fails!(get("broken"), -32004, NOT_FOUND);
    fails!(get("none"), -32004, NOT_FOUND);
    fails!(get("a.txt/x"), -32603, NOT_A_DIRECTORY);
    fails!(plain("link.txt"), -32600, HAS_LINK);
    fails!(plain("broken"), -32600, HAS_LINK);
    fails!(plain("dlink/b.txt"), -32603, NOT_A_DIRECTORY);
    fails!(plain("none/x"), -32004, NOT_FOUND);
}

#[tokio::test]
async fn t31_canonicalize() {
    let tree = Tree::new();
    std::os::unix::fs::symlink("loop", tree.path("loop")).unwrap();
    let canonical = async |path: &str| {
        let answer = files::canonicalize(
            Lane::default(),
            params(json!({ "path": format!("{}/{path}", tree.uri("")) })),
        )
        .await;
        answer.map(|answer| answer.path.as_str().to_owned())
    };
    assert_eq!(
        canonical("dlink/../a.txt").await.unwrap(),
        tree.uri("a.txt")
    );
    assert_eq!(
        canonical("dlink/b.txt").await.unwrap(),
        tree.uri("sub/b.txt")
    );
    assert_eq!(canonical("link.txt").await.unwrap(), tree.uri("a.txt"));
    assert_eq!(canonical("").await.unwrap(), tree.uri(""));
    fails!(canonical("none"), -32004, NOT_FOUND);
    fails!(canonical("loop"), -32603, LINK_LOOP);
    let root = files::canonicalize(Lane::default(), params(json!({ "path": "file:///" })))
        .await
        .unwrap();
    assert_eq!(root.path.as_str(), "file:///");
    let drive = files::canonicalize(Lane::default(), params(json!({ "path": "file:///c:/x" })));
    fails!(drive, -32600, "'file:///C:/x' is invalid on 'linux'");
}

#[tokio::test]
async fn t62_a_read_only_policy_reads_and_does_not_write() {
    let tree = Tree::new();
    let sandbox = json!({
        "permissions": {
            "type": "managed",
            "file_system": {
                "type": "restricted",
                "entries": [{ "path": { "type": "special", "value": { "kind": "root" } }, "access": "read" }],
            },
            "network": "restricted",
        },
        "windowsSandboxLevel": "disabled",
    });
    let path = tree.uri("a.txt");
    let with = |members: serde_json::Value| {
        let mut params = json!({ "path": path, "sandbox": sandbox });
        params
            .as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        params
    };
    let read_only = "Read-only file system (os error 30)";
    assert!(
        files::read_file(Lane::default(), params(with(json!({}))))
            .await
            .is_ok()
    );
    assert!(
        files::get_metadata(Lane::default(), params(with(json!({}))))
            .await
            .is_ok()
    );
    fails!(
        files::write_file(
            Lane::default(),
            params(with(json!({ "dataBase64": "eA==" })))
        ),
        -32603,
        read_only
    );
    fails!(
        files::remove(Lane::default(), params(with(json!({})))),
        -32603,
        read_only
    );
    fails!(
        files::create_directory(Lane::default(), params(with(json!({})))),
        -32603,
        read_only
    );
    let mut handles = files::Handles::default();
    let open = handles.open(
        Lane::default(),
        params(with(json!({ "handleId": "x", "mode": "replace" }))),
    );
    fails!(open, -32603, read_only);
    assert_eq!(fs::read(tree.path("a.txt")).unwrap(), b"hello world");
}

/// A peer that asks for more than it takes makes the executor read only a little ahead.
#[tokio::test]
async fn what_is_read_for_a_peer_is_bounded_by_what_it_takes() {
    let tree = Tree::new();
    fs::write(tree.path("large"), vec![b'x'; 2 * limits::MIB]).unwrap();
    let lane = Lane::new((2, 1));
    let read =
        |path: &str| files::read_file(lane.clone(), params(json!({ "path": tree.uri(path) })));
    let first = read("large").await.unwrap();
    let small = read("a.txt").await.unwrap();
    let mut waiting = tokio::spawn(read("a.txt"));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(small);
    (&mut waiting).await.unwrap().unwrap();
    let second = tokio::spawn(read("large"));
    let small = read("a.txt");
    drop(first);
    assert_eq!(
        second.await.unwrap().unwrap().data_base64.len(),
        2 * limits::MIB
    );
    assert_eq!(&*small.await.unwrap().data_base64, b"hello world");
}
