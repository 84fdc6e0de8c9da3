//! Files, and the log of a process (`session.md` 8.5, `environment.md` 6).

use std::time::Duration;

use futures_util::StreamExt;
use mainstay::ErrorKind;
use serde_json::json;

use crate::script::Peer;

#[tokio::test]
async fn a9_without_write_streaming_nothing_is_sent_and_reading_says_so() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let files = environment.files();
    let refused = files.create("/file").await.unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::Protocol { .. }),
        "{refused}"
    );
    let opening = tokio::spawn(async move { files.open("/file").await });
    // The first message of all: the refused one was never sent.
    let asked = peer.expect("fs/open").await;
    assert_eq!(asked.params["mode"], "read");
    let id = asked.params["handleId"].as_str().unwrap();
    assert!(
        id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{id}"
    );
    peer.answer(&asked.id, json!({"handleId": id})).await;
    drop(opening.await.unwrap().unwrap());
    let closed = peer.expect("fs/close").await;
    assert_eq!(closed.params["handleId"], asked.params["handleId"]);
}

#[tokio::test]
async fn a_lost_process_answers_reads_with_its_failure() {
    let (environment, _session, mut peer) = Peer::session(json!({})).await;
    let mut process = peer.start(&environment, "p").await;
    let mut events = process.events();
    peer.output("p", 1, "one").await;
    events.next().await.unwrap();
    let asked = {
        let read = process.read_log(1, None, Duration::from_secs(60));
        tokio::pin!(read);
        tokio::select! {
            asked = peer.expect("process/read") => {
                assert_eq!(asked.params["afterSeq"], 1);
            }
            answer = &mut read => panic!("{answer:?}"),
        }
        environment.shutdown().await;
        read.await.unwrap()
    };
    process.wait().await;
    let later = process.read_log(7, None, Duration::ZERO).await.unwrap();
    for answer in [asked, later] {
        assert!(answer.closed && answer.exited && answer.failure.is_some());
        assert_eq!((answer.exit_code, answer.chunks.len()), (None, 0));
        // One event, and the failure.
        assert_eq!(answer.next_seq, 3);
    }
}
