//! A program that serves over its standard input and output: nothing can bring its link back, so nothing but its end
//! ends it (`session.md` 2.3, T4).

use std::time::Duration;

use futures_util::FutureExt;
use mainstay::{ConfigQuery, ConnState, Environment, ErrorKind, Program};
use mainstay_testkit::frozen_clock::FrozenClock;

/// Answers the request before the read that times out (3) only when the next read (4) has come.
const SCRIPT: &str = r#"
info='{"shell":{"name":"sh","path":"/bin/sh"},"cwd":"file:///","executorVersion":"0.171.0"}'
read initialize
echo '{"id":1,"result":{"sessionId":"s","environmentInfo":'"$info"'}}'
read initialized; read earlier; read times_out; read next
echo '{"id":2,"result":{"path":"file:///earlier"}}'
layers='{"layers":[],"cloudInsertionIndex":0}'
echo '{"id":4,"result":{"codexHomeDir":"file:///home","config":'"$layers"',"requirements":'"$layers"'}}'
read forever
"#;

#[test]
fn a13_a_read_that_times_out_behind_another_request_costs_only_itself() {
    FrozenClock::run(|clock| async move {
        let environment = Environment::builder()
            .program(Program {
                program: "sh".into(),
                args: vec!["-c".into(), SCRIPT.into()],
                env: Vec::new(),
                cwd: None,
            })
            .spawn()
            .await
            .unwrap();
        let session = environment.session().await.unwrap();
        let watch = environment.watch().await.unwrap();
        let files = environment.files();
        let mut earlier = Box::pin(files.canonicalize("/earlier"));
        assert!((&mut earlier).now_or_never().is_none());
        let query = ConfigQuery::new("/")
            .config(["model"])
            .timeout(Duration::from_secs(5));
        let mut read = Box::pin(session.read_config(query.clone()));
        assert!((&mut read).now_or_never().is_none());
        clock.advance(Duration::from_secs(5)).await;
        let failed = read.await.unwrap_err();
        assert!(
            matches!(
                failed.kind(),
                ErrorKind::RpcTimeout {
                    method: "environmentConfig/read",
                    ..
                }
            ),
            "{failed}"
        );
        assert!((&mut earlier).now_or_never().is_none());
        // The next read is served, and with it the earlier request.
        let (next, earlier) = tokio::join!(session.read_config(query), earlier);
        assert_eq!(next.unwrap().codex_home_dir.to_string(), "file:///home");
        assert_eq!(earlier.unwrap().to_string(), "file:///earlier");
        assert_eq!(environment.state(), ConnState::Connected);
        assert!(!watch.has_changed().unwrap());
        assert!(environment.session().await.unwrap().is_same(&session));
    });
}
