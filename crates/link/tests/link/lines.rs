//! One message per line over a pair of byte streams.

use mainstay_link::{Close, Limits, LinkError, stdio};
use mainstay_wire::limits::MIB;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

#[tokio::test]
async fn lines_are_messages_and_blank_ones_are_nothing() {
    let input = &b"{\"id\":1}\n\n  \t\r\n{\"id\":2}\r\nlast"[..];
    let mut link = stdio(input, tokio::io::sink());
    assert_eq!(link.source.recv().await.unwrap().unwrap(), "{\"id\":1}");
    assert_eq!(link.source.recv().await.unwrap().unwrap(), "{\"id\":2}\r");
    assert_eq!(link.source.recv().await.unwrap().unwrap(), "last");
    assert_eq!(link.source.recv().await.unwrap(), None);
    assert_eq!(link.source.recv().await.unwrap(), None);
}

#[tokio::test]
async fn a_line_that_comes_in_bits_survives_a_dropped_recv() {
    let (mut theirs, ours) = duplex(64);
    let mut link = stdio(ours, tokio::io::sink());
    theirs.write_all(b"{\"a\":").await.unwrap();
    {
        let mut receiving = Box::pin(link.source.recv());
        assert!(futures_util::poll!(&mut receiving).is_pending());
    }
    theirs.write_all(b"1}\n").await.unwrap();
    assert_eq!(link.source.recv().await.unwrap().unwrap(), "{\"a\":1}");
}

#[tokio::test]
async fn a_line_above_64_mib_ends_the_link() {
    let limit = Limits::direct().message;
    assert_eq!(limit, 64 * MIB);
    let mut input = vec![b'x'; limit + 1];
    input[limit] = b'\n';
    input.extend(vec![b'y'; limit + 1]);
    let mut link = stdio(std::io::Cursor::new(input), tokio::io::sink());
    assert_eq!(link.source.recv().await.unwrap().unwrap().len(), limit);
    assert!(matches!(
        link.source.recv().await,
        Err(LinkError::TooLong { limit: named, .. }) if named == limit
    ));
}

#[tokio::test]
async fn what_is_sent_comes_out_as_lines() {
    let (ours, mut theirs) = duplex(1 << 20);
    let mut link = stdio(tokio::io::empty(), ours);
    link.sink.send("one".into()).await.unwrap();
    link.sink.send("two".into()).await.unwrap();
    assert!(matches!(
        link.sink.send("x".repeat(64 * MIB + 1)).await,
        Err(LinkError::TooLong { .. })
    ));
    link.sink.close(Close::normal()).await.unwrap();
    let mut written = String::new();
    theirs.read_to_string(&mut written).await.unwrap();
    assert_eq!(written, "one\ntwo\n");
}
