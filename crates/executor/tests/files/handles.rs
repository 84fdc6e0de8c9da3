//! File handles.

use std::fs;

use mainstay_executor::files::Handles;
use mainstay_executor::lane::Lane;
use mainstay_wire::base64::Base64;
use mainstay_wire::fs::ReadBlockAnswer;
use mainstay_wire::{RpcError, limits};
use serde_json::json;

use crate::{NOT_FOUND, Tree, fails, params};

const BAD_DESCRIPTOR: &str = "Bad file descriptor (os error 9)";

struct Connection {
    tree: Tree,
    handles: Handles,
}

impl Connection {
    fn new() -> Self {
        let tree = Tree::new();
        fs::write(tree.path("big.bin"), "0123456789abcdef".repeat(8)).unwrap();
        Self {
            tree,
            handles: Handles::default(),
        }
    }

    fn open(
        &mut self,
        id: &str,
        path: &str,
        mode: &str,
    ) -> impl Future<Output = Result<(), RpcError>> + use<> {
        let params = json!({ "handleId": id, "path": self.tree.uri(path), "mode": mode });
        let call = self.handles.open(Lane::default(), crate::params(params));
        let id = id.to_owned();
        async move { call.await.map(|answer| assert_eq!(answer.handle_id, id)) }
    }

    fn read(
        &mut self,
        id: &str,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<(String, bool), RpcError>> + use<> {
        let call = self.handles.read_block(
            Lane::default(),
            params(json!({ "handleId": id, "offset": offset, "len": len })),
        );
        async move {
            let ReadBlockAnswer { chunk, eof } = call.await?.answer;
            Ok((String::from_utf8(chunk.to_vec()).unwrap(), eof))
        }
    }

    fn write(
        &mut self,
        id: &str,
        offset: u64,
        chunk: &str,
    ) -> impl Future<Output = Result<(), RpcError>> + use<> {
        let chunk = Base64::from(chunk.as_bytes());
        let call = self.handles.write_block(
            Lane::default(),
            params(json!({ "handleId": id, "offset": offset, "chunk": chunk })),
        );
        async move { call.await.map(|_| ()) }
    }

    fn close(&mut self, id: &str) -> impl Future<Output = ()> + use<> {
        let call = self.handles.close(params(json!({ "handleId": id })));
        async move { call.await.map(|_| ()).unwrap() }
    }
}

#[tokio::test]
async fn t33_read_blocks() {
    let mut c = Connection::new();
    c.open("h1", "big.bin", "read").await.unwrap();
    fails!(
        c.open("h1", "big.bin", "read"),
        -32600,
        "file handle `h1` already exists"
    );
    c.open("", "big.bin", "read").await.unwrap();
    fails!(c.open("h2", "none", "read"), -32004, NOT_FOUND);
    let text = format!("path `{}` is not a file", c.tree.path("sub").display());
    fails!(c.open("h2", "sub", "read"), -32600, text);
    let text = format!("path `{}` is not a file", c.tree.path("fifo").display());
    fails!(c.open("h2", "fifo", "read"), -32600, text);

    assert_eq!(
        c.read("h1", 0, 16).await.unwrap(),
        ("0123456789abcdef".into(), false)
    );
    assert_eq!(
        c.read("h1", 120, 8).await.unwrap(),
        ("89abcdef".into(), false)
    );
    assert_eq!(
        c.read("h1", 120, 9).await.unwrap(),
        ("89abcdef".into(), true)
    );
    assert_eq!(c.read("h1", 128, 1).await.unwrap(), (String::new(), true));
    assert_eq!(c.read("h1", 999, 16).await.unwrap(), (String::new(), true));
    fails!(c.read("nope", 0, 1), -32004, "unknown file handle `nope`");

    // Wrong use keeps the handle, a failed read closes it.
    fails!(c.write("h1", 0, "x"), -32603, BAD_DESCRIPTOR);
    assert!(c.read("h1", 0, 1).await.is_ok());
    fails!(
        c.read("h1", u64::MAX, 1),
        -32600,
        "Invalid argument (os error 22)"
    );
    fails!(c.write("h1", 0, "x"), -32004, "unknown file handle `h1`");
    fails!(c.read("h1", 0, 1), -32004, "unknown file handle `h1`");
    c.close("h1").await;
    c.close("h1").await;
    c.open("h1", "a.txt", "read").await.unwrap();
    assert_eq!(c.read("h1", 0, 5).await.unwrap(), ("hello".into(), false));
    fails!(
        c.read("h1", i64::MAX as u64, 4),
        -32600,
        "Invalid argument (os error 22)"
    );
    fails!(c.read("h1", 0, 1), -32004, "unknown file handle `h1`");
    c.open("h1", "a.txt", "read").await.unwrap();
}

#[tokio::test]
async fn t33_write_blocks() {
    let mut c = Connection::new();
    c.open("w1", "out.bin", "replace").await.unwrap();
    c.write("w1", 0, "hello").await.unwrap();
    c.write("w1", 5, " world").await.unwrap();
    c.write("w1", 100, "gap").await.unwrap();
    c.write("w1", 0, "J").await.unwrap();
    fails!(c.read("w1", 0, 4), -32603, BAD_DESCRIPTOR);
    let text = "file write range exceeds the signed 64-bit file offset limit";
    fails!(c.write("w1", u64::MAX, "x"), -32600, text);
    fails!(c.write("w1", i64::MAX as u64, "x"), -32600, text);
    c.write("w1", 10, "D").await.unwrap();
    c.close("w1").await;
    let content = fs::read(c.tree.path("out.bin")).unwrap();
    assert_eq!(
        content,
        [b"Jello worlD".as_slice(), &[0; 89], b"gap"].concat()
    );

    // Opening empties; other kinds are refused without touching them.
    c.open("w1", "out.bin", "replace").await.unwrap();
    assert_eq!(fs::metadata(c.tree.path("out.bin")).unwrap().len(), 0);
    fails!(c.open("w2", "no/out.bin", "replace"), -32004, NOT_FOUND);
    fails!(
        c.open("w2", "sub", "replace"),
        -32603,
        "Is a directory (os error 21)"
    );
    fails!(
        c.open("w2", "fifo", "replace"),
        -32603,
        "No such device or address (os error 6)"
    );
    let device = c.handles.open(
        Lane::default(),
        params(json!({ "handleId": "w2", "path": "file:///dev/null", "mode": "replace" })),
    );
    fails!(device, -32600, "path `/dev/null` is not a file");
    fails!(c.write("zz", 0, "x"), -32004, "unknown file handle `zz`");
}

#[tokio::test]
async fn limit_file_handles() {
    let mut c = Connection::new();
    for number in 0..limits::FILE_HANDLES {
        c.open(&format!("h{number}"), "big.bin", "read")
            .await
            .unwrap();
    }
    let full = "at most 128 file handles may be open per connection";
    fails!(c.open("more", "big.bin", "read"), -32600, full);
    fails!(
        c.open("h0", "big.bin", "read"),
        -32600,
        "file handle `h0` already exists"
    );
    c.close("h0").await;
    c.open("more", "big.bin", "read").await.unwrap();
    fails!(c.open("h0", "big.bin", "read"), -32600, full);
    // A failed open takes no place.
    c.close("more").await;
    fails!(c.open("more", "none", "read"), -32004, NOT_FOUND);
    c.open("more", "big.bin", "read").await.unwrap();
}

#[tokio::test]
async fn limit_file_block() {
    let mut c = Connection::new();
    let file = fs::File::create(c.tree.path("large")).unwrap();
    file.set_len(3 * limits::FILE_BLOCK as u64).unwrap();
    c.open("r", "large", "read").await.unwrap();
    c.open("w", "out", "replace").await.unwrap();
    let range = "block length must be between 1 and 1048576";

    let (block, eof) = c.read("r", 0, limits::FILE_BLOCK as u64).await.unwrap();
    assert_eq!((block.len(), eof), (limits::FILE_BLOCK, false));
    fails!(c.read("r", 0, 0), -32600, format!("file read {range}"));
    fails!(
        c.read("r", 0, limits::FILE_BLOCK as u64 + 1),
        -32600,
        format!("file read {range}")
    );
    fails!(
        c.read("r", 0, u64::MAX),
        -32600,
        format!("file read {range}")
    );
    fails!(c.read("zz", 0, 0), -32600, format!("file read {range}"));
    assert!(c.read("r", 0, 1).await.is_ok());

    c.write("w", 0, &"x".repeat(limits::FILE_BLOCK))
        .await
        .unwrap();
    fails!(c.write("w", 0, ""), -32600, format!("file write {range}"));
    fails!(
        c.write("w", 0, &"x".repeat(limits::FILE_BLOCK + 1)),
        -32600,
        format!("file write {range}")
    );
    c.write("w", 1, "y").await.unwrap();
    c.close("w").await;
    assert_eq!(
        fs::metadata(c.tree.path("out")).unwrap().len(),
        limits::FILE_BLOCK as u64
    );
}

/// Calls of one handle may be sent without waiting: they take effect in the order they came in, however they are run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_of_one_handle_keep_their_order() {
    for _ in 0..50 {
        let mut c = Connection::new();
        let open = c.open("h", "out", "replace");
        let writes: Vec<_> = (0..20)
            .map(|number| c.write("h", 0, &format!("{number:03}")))
            .collect();
        let close = c.close("h");
        let reopen = c.open("h", "out", "read");

        // The last one first.
        let close = tokio::spawn(close);
        let writes: Vec<_> = writes.into_iter().rev().map(tokio::spawn).collect();
        let open = tokio::spawn(open);
        open.await.unwrap().unwrap();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        close.await.unwrap();
        assert_eq!(fs::read(c.tree.path("out")).unwrap(), b"019");
        reopen.await.unwrap();
        assert_eq!(c.read("h", 0, 9).await.unwrap(), ("019".into(), true));
    }
}

#[tokio::test]
async fn calls_behind_a_failed_open_find_no_handle() {
    let mut c = Connection::new();
    let open = c.open("h", "none", "read");
    let read = c.read("h", 0, 1);
    fails!(open, -32004, NOT_FOUND);
    fails!(read, -32004, "unknown file handle `h`");
}

#[tokio::test]
async fn a_call_that_is_given_up_lets_the_next_one_go_on() {
    let mut c = Connection::new();
    drop(c.open("h", "big.bin", "read"));
    fails!(c.read("h", 0, 1), -32004, "unknown file handle `h`");
    c.open("h", "big.bin", "read").await.unwrap();
    drop(c.read("h", 0, 1));
    assert_eq!(c.read("h", 0, 1).await.unwrap(), ("0".into(), false));
}
