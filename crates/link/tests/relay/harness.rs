//! A harness's link, with the test as router and executor (noise-relay.md 7).

use std::time::Duration;

use bytes::Bytes;
use mainstay_link::relay::{BadBundle, Bundle, RelayError, dial, harness};
use mainstay_link::{Close, DialOptions, Link, LinkError};
use mainstay_noise::{Channel, Identity, Prologue, Responder, Suite};
use mainstay_wire::registry::ConnectAnswer;
use mainstay_wire::relay::Body;
use tokio::task::JoinHandle;
use tokio::time::advance;
use uuid::Uuid;

use crate::far::{ENVIRONMENT, Far, REGISTRATION, Stream, frozen, listen};

/// A harness at work, and everything that it needs.
struct Call {
    far: Far,
    executor: Identity,
    harness: Identity,
    link: JoinHandle<Result<Link, RelayError>>,
    stream: String,
    message_1: Bytes,
}

impl Call {
    async fn new(suite: Suite) -> Call {
        let (executor, identity) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let (url, accepted) = listen().await;
        let bundle = Bundle {
            url,
            environment: ENVIRONMENT.to_owned(),
            registration: REGISTRATION.to_owned(),
            executor_key: executor.public(suite),
            authorization: "authorization".to_owned(),
        };
        let own = identity.clone();
        let link = tokio::spawn(async move {
            let socket = dial(&bundle, &DialOptions::default()).await.unwrap();
            harness(socket, &own, &bundle).await
        });
        let mut far = Far {
            socket: accepted.await,
        };
        let (stream, resume) = far.next().await;
        assert_eq!(resume, Body::Resume { next_seq: 0 });
        assert_eq!(Uuid::try_parse(&stream).unwrap().to_string(), stream);
        let message_1 = far.expect_handshake(&stream).await;
        Call {
            far,
            executor,
            harness: identity,
            link,
            stream,
            message_1,
        }
    }

    fn respond(&self) -> Responder {
        let suite = match self.message_1.len() {
            109 => Suite::Ik,
            _ => Suite::HybridIk,
        };
        let prologue = Prologue::new(suite, ENVIRONMENT, REGISTRATION, &self.stream);
        let responder = Responder::read(&self.executor, &prologue, &self.message_1).unwrap();
        assert_eq!(responder.authorization(), "authorization");
        assert_eq!(responder.harness_key(), &self.harness.public(suite));
        responder
    }

    async fn accept(&mut self) -> Channel {
        let (message_2, channel) = self.respond().accept().unwrap();
        let stream = self.stream.clone();
        self.far.handshake(&stream, message_2).await;
        channel
    }

    async fn failure(self) -> String {
        self.link.await.unwrap().unwrap_err().to_string()
    }

    /// A link that works, and the test's end of it.
    async fn ready(mut self) -> (Stream, Far) {
        let channel = self.accept().await;
        let link = self.link.await.unwrap().unwrap();
        (Stream::new(&self.stream, channel, link), self.far)
    }
}

async fn end(stream: &mut Stream) -> String {
    stream.link.source.recv().await.unwrap_err().to_string()
}

#[tokio::test]
async fn n7_resume_then_message_1_then_a_link_in_either_suite() {
    for suite in Suite::ALL {
        let mut call = Call::new(suite).await;
        // What may come before message 2.
        let id = call.stream.clone();
        for body in [Body::Ack, Body::Heartbeat, Body::Resume { next_seq: 1 }] {
            call.far.send(&id, body).await;
        }
        call.far.data("another", 0, vec![0; 16]).await;
        let reason = "x".to_owned();
        call.far.send("another", Body::Reset { reason }).await;
        let (mut stream, mut far) = call.ready().await;
        stream.send(&mut far, "there").await;
        assert_eq!(stream.link.source.recv().await.unwrap().unwrap(), "there");
        stream.link.sink.send("back".to_owned()).await.unwrap();
        stream.link.sink.flush().await.unwrap();
        let (_, body) = far.next().await;
        assert_eq!(stream.take(body).unwrap(), "back");
    }
}

#[tokio::test]
async fn n7_how_a_handshake_fails_and_what_it_says() {
    const PREFIX: &str = "Noise harness handshake failed before connection became ready: ";

    let mut call = Call::new(Suite::Ik).await;
    let id = call.stream.clone();
    let reason = "a secret of the relay".to_owned();
    call.far.send(&id, Body::Reset { reason }).await;
    assert_eq!(
        call.failure().await,
        format!("{PREFIX}Noise relay stream reset")
    );

    let mut call = Call::new(Suite::Ik).await;
    call.far.data(&id, 0, vec![0; 16]).await;
    let id = call.stream.clone();
    call.far.data(&id, 0, vec![0; 16]).await;
    let text = "Noise relay received data before handshake completion";
    assert_eq!(call.failure().await, format!("{PREFIX}{text}"));

    let mut call = Call::new(Suite::Ik).await;
    let id = call.stream.clone();
    call.far.handshake(&id, vec![1; 48]).await;
    let failure = call.failure().await;
    assert!(
        failure.starts_with(&format!("{PREFIX}Noise relay handshake failed: ")),
        "{failure}"
    );

    let mut call = Call::new(Suite::Ik).await;
    call.far.send_bytes(vec![0xff; 9].into()).await;
    let failure = call.failure().await;
    assert_eq!(
        failure,
        format!("{PREFIX}transport protocol violated: relay frame does not decode")
    );

    let mut call = Call::new(Suite::Ik).await;
    call.far
        .socket
        .sink
        .feed_text("{}".to_owned())
        .await
        .unwrap();
    call.far.socket.sink.flush().await.unwrap();
    let failure = call.failure().await;
    assert_eq!(
        failure,
        format!("{PREFIX}transport protocol violated: text on a relay socket")
    );

    let mut call = Call::new(Suite::Ik).await;
    call.far.socket.sink.close(Close::normal()).await.unwrap();
    assert_eq!(call.failure().await, format!("{PREFIX}connection closed"));

    let Call { far, link, .. } = Call::new(Suite::Ik).await;
    drop(far);
    let failure = link.await.unwrap().unwrap_err().to_string();
    assert!(
        failure.starts_with(&format!("{PREFIX}connection lost")),
        "{failure}"
    );
}

#[tokio::test]
async fn n5_4_payloads_of_message_2() {
    let mut call = Call::new(Suite::HybridIk).await;
    let message_2 = call.respond().reject_credentials().unwrap();
    let id = call.stream.clone();
    call.far.handshake(&id, message_2).await;
    let failure = call.link.await.unwrap().unwrap_err();
    assert!(
        matches!(failure, RelayError::CredentialsRejected),
        "{failure}"
    );
    assert_eq!(failure.to_string(), "executor credentials rejected");

    let mut call = Call::new(Suite::HybridIk).await;
    let mut entropy = mainstay_noise::SystemEntropy;
    let (message_2, _) = call.respond().respond_with(b"?", &mut entropy).unwrap();
    let id = call.stream.clone();
    call.far.handshake(&id, message_2).await;
    let failure = call.failure().await;
    assert!(
        failure.ends_with("handshake response payload must be empty"),
        "{failure}"
    );
}

#[tokio::test]
async fn n7_what_a_ready_link_ignores() {
    let (mut stream, mut far) = Call::new(Suite::Ik).await.ready().await;
    let id = stream.id.clone();
    let records: Vec<_> = ["0", "1", "2"]
        .into_iter()
        .flat_map(|text| stream.seal(text))
        .collect();
    for (seq, record) in [
        &records[2],
        &records[0],
        &records[0],
        &records[1],
        &records[2],
    ] {
        far.data(&id, *seq, record.clone()).await;
        far.send(&id, Body::Heartbeat).await;
        far.data("another", 0, vec![0; 16]).await;
        far.handshake("another", vec![0; 16]).await;
    }
    for expected in ["0", "1", "2"] {
        assert_eq!(stream.link.source.recv().await.unwrap().unwrap(), expected);
    }
}

#[tokio::test]
async fn n7_what_ends_a_ready_link() {
    let (mut stream, mut far) = Call::new(Suite::Ik).await.ready().await;
    let (id, reason) = (stream.id.clone(), "never shown".to_owned());
    far.send(&id, Body::Reset { reason }).await;
    assert_eq!(end(&mut stream).await, "Noise relay stream reset");

    let (mut stream, mut far) = Call::new(Suite::Ik).await.ready().await;
    let id = stream.id.clone();
    far.handshake(&id, vec![0; 48]).await;
    assert_eq!(
        end(&mut stream).await,
        "transport protocol violated: second Noise handshake"
    );

    let (mut stream, mut far) = Call::new(Suite::Ik).await.ready().await;
    let id = stream.id.clone();
    far.data(&id, 0, vec![0; 32]).await;
    assert!(
        end(&mut stream)
            .await
            .contains("record does not authenticate")
    );

    let (mut stream, mut far) = Call::new(Suite::Ik).await.ready().await;
    far.socket.sink.feed_text("{}".to_owned()).await.unwrap();
    far.socket.sink.flush().await.unwrap();
    assert!(end(&mut stream).await.contains("text on a relay socket"));

    let (mut stream, mut far) = Call::new(Suite::Ik).await.ready().await;
    far.send_bytes(Bytes::from_static(b"junk")).await;
    assert!(end(&mut stream).await.contains("relay frame"));

    let (mut stream, mut far) = Call::new(Suite::Ik).await.ready().await;
    let restart = Close::restart(Duration::from_millis(300));
    far.socket.sink.close(restart.clone()).await.unwrap();
    assert_eq!(stream.link.source.recv().await.unwrap(), None);
    assert_eq!(stream.link.source.closed(), Some(&restart));

    let (mut stream, far) = Call::new(Suite::Ik).await.ready().await;
    drop(far);
    assert!(end(&mut stream).await.starts_with("connection lost"));
}

#[tokio::test]
async fn a_closed_link_tells_the_executor_first_and_then_the_router() {
    let (mut stream, mut far) = Call::new(Suite::Ik).await.ready().await;
    stream.link.sink.send("last".to_owned()).await.unwrap();
    stream.link.sink.close(Close::normal()).await.unwrap();
    let (_, body) = far.next().await;
    assert_eq!(stream.take(body).unwrap(), "last");
    far.expect_reset(&stream.id).await;
    assert_eq!(far.socket.source.recv().await.unwrap(), None);
    assert_eq!(far.socket.source.closed(), Some(&Close::normal()));
}

#[test]
fn n3_a_router_that_answers_no_ping_is_left() {
    frozen(async {
        let (stream, far) = Call::new(Suite::Ik).await.ready().await;
        let Link {
            mut sink,
            mut source,
        } = stream.link;
        let beating = tokio::spawn(async move {
            loop {
                sink.keepalive().await?;
            }
            #[allow(unreachable_code)]
            Ok::<(), LinkError>(())
        });
        let listening = tokio::spawn(async move { source.recv().await });
        advance(Duration::from_millis(30_010)).await;
        tokio::task::yield_now().await;
        assert!(!listening.is_finished());
        advance(Duration::from_millis(60_010)).await;
        let end = listening.await.unwrap().unwrap_err();
        assert!(matches!(end, LinkError::PongTimeout(_)), "{end}");
        beating.abort();
        drop(far);
    });
}

#[test]
fn n2_2_which_answers_of_a_registry_are_bundles() {
    let identity = Identity::generate().unwrap();
    let answer = |profile: &str, suite| ConnectAnswer {
        environment_id: "env".to_owned(),
        url: "wss://relay.example/?sig=secret".to_owned(),
        security_profile: profile.to_owned(),
        executor_registration_id: "reg".to_owned(),
        executor_public_key: identity.public(suite).to_wire(),
        harness_key_authorization: "secret".to_owned(),
    };
    for suite in Suite::ALL {
        let bundle = Bundle::try_from(answer(suite.profile(), suite)).unwrap();
        assert_eq!(bundle.executor_key, identity.public(suite));
        let shown = format!("{bundle:?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
    // The profile decides, and never falls back.
    let refused = Bundle::try_from(answer("noise_ik_v1", Suite::HybridIk)).unwrap_err();
    assert_eq!(refused, BadBundle::Suite);
    let refused = Bundle::try_from(answer("none", Suite::HybridIk)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "environment registry returned unsupported security profile `none`"
    );
    let mut blank = answer("noise_hybrid_ik_v1", Suite::HybridIk);
    blank.url = " ".to_owned();
    assert_eq!(
        Bundle::try_from(blank).unwrap_err().to_string(),
        "environment registry returned incomplete Noise connection data"
    );
    let mut short = answer("noise_hybrid_ik_v1", Suite::HybridIk);
    short.executor_public_key.mlkem768_public_key = None;
    assert!(matches!(Bundle::try_from(short), Err(BadBundle::Key(_))));
}
