use mainstay_noise::{Identity, Initiator, Prologue, Responder, Suite};
use proptest::prelude::*;

use super::*;

/// A peer that provokes answers and reads none gets as many as fit, and costs no more than that.
#[tokio::test]
async fn provoked_resets_do_not_pile_up() {
    let (writer, mut queue) = mpsc::unbounded_channel();
    let (gone, _leavers) = mpsc::unbounded_channel();
    let (accepted, _links) = mpsc::channel(1);
    let mut table = Table::new(writer, gone, accepted, Duration::from_secs(60));
    let provoke = |table: &mut Table| {
        let payload = Bytes::from_static(&[0; 16]);
        let frame = Frame::new("nobody", Body::Data { seq: 0, payload });
        table.frame(frame, Instant::now());
    };
    for _ in 0..1000 {
        provoke(&mut table);
    }
    assert_eq!(queue.len(), 128);
    // One written, one more fits.
    drop(queue.recv().await);
    provoke(&mut table);
    provoke(&mut table);
    assert_eq!(queue.len(), 128);
}

/// What may happen to a table, and its clock.
#[derive(Clone, Copy, Debug)]
enum Step {
    Handshake(usize),
    Data(usize),
    Reset(usize),
    Ignored(usize),
    /// The examination started for this stream last, or the one before it, ends.
    Examined(usize, usize, Verdict),
    /// The link accepted for this stream last, or the one before it, is dropped.
    Gone(usize, usize),
    Later,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    Ready,
    Rejected,
    Failed,
}

fn step() -> impl Strategy<Value = Step> {
    let verdict = prop_oneof![
        Just(Verdict::Ready),
        Just(Verdict::Rejected),
        Just(Verdict::Failed)
    ];
    prop_oneof![
        6 => (0..3usize).prop_map(Step::Handshake),
        2 => (0..3usize).prop_map(Step::Data),
        1 => (0..3usize).prop_map(Step::Reset),
        1 => (0..3usize).prop_map(Step::Ignored),
        6 => (0..3usize, 0..2usize, verdict).prop_map(|(id, back, verdict)| Step::Examined(id, back, verdict)),
        2 => (0..3usize, 0..2usize).prop_map(|(id, back)| Step::Gone(id, back)),
        1 => Just(Step::Later),
    ]
}

/// A stream as the table of noise-relay.md 6.1 has it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Model {
    Unknown,
    Pending(Instance),
    Active(Instance),
}

fn ready() -> Outcome {
    let identity = Identity::generate().unwrap();
    let prologue = Prologue::new(Suite::Ik, "e", "r", "s");
    let key = identity.public(Suite::Ik);
    let (_, message_1) = Initiator::start(&identity, &key, &prologue, "").unwrap();
    let responder = Responder::read(&identity, &prologue, &message_1).unwrap();
    let (message_2, channel) = responder.accept().unwrap();
    Outcome::Ready {
        message_2: message_2.into(),
        channel: Box::new(channel),
        harness_key: key,
    }
}

/// What the writer was told, as stream and kind.
fn written(queue: &mut mpsc::UnboundedReceiver<Outbound>) -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    while let Ok(Outbound::Control(control)) = queue.try_recv() {
        let frame = Frame::decode(control.frame).unwrap();
        let kind = match frame.body {
            Body::Reset { .. } => "reset",
            Body::Handshake { .. } => "message 2",
            other => panic!("never sent: {other:?}"),
        };
        all.push((frame.stream_id, kind));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any history: each stream is what the specification says, and is told exactly what it says.
    #[test]
    fn every_history_follows_the_specification(steps in prop::collection::vec(step(), 1..120)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let (writer, mut queue) = mpsc::unbounded_channel();
        let (gone, _leavers) = mpsc::unbounded_channel();
        let (accepted, mut links) = mpsc::channel(256);
        let mut table = Table::new(writer, gone, accepted, Duration::from_secs(60));
        let mut kept = Vec::new();
        let mut now = Instant::now();
        let mut streams = [Model::Unknown; 3];
        let mut started: [Vec<Instance>; 3] = Default::default();
        let mut opened: [Vec<Instance>; 3] = Default::default();
        let (mut failures, mut refusing_until) = (0, now);
        for step in steps {
            let mut expected = Vec::new();
            let mut failed = false;
            match step {
                Step::Handshake(id) => {
                    let payload = Bytes::from_static(b"message 1");
                    let frame = Frame::new(id.to_string(), Body::Handshake { payload });
                    let wanted = table.frame(frame, now);
                    match streams[id] {
                        Model::Active(_) => expected.push((id, "reset")),
                        Model::Pending(_) => {
                            streams[id] = Model::Unknown;
                            failed = true;
                            expected.push((id, "reset"));
                        }
                        Model::Unknown if now < refusing_until => expected.push((id, "reset")),
                        Model::Unknown => {
                            let Wanted::Examine { instance, stream_id, .. } = wanted else {
                                panic!("not examined");
                            };
                            let task = runtime.spawn(std::future::pending::<()>()).abort_handle();
                            table.pending(stream_id, instance, task);
                            started[id].push(instance);
                            streams[id] = Model::Pending(instance);
                        }
                    }
                }
                Step::Data(id) => {
                    let payload = Bytes::from_static(&[0; 20]);
                    table.frame(Frame::new(id.to_string(), Body::Data { seq: 0, payload }), now);
                    failed = matches!(streams[id], Model::Pending(_));
                    streams[id] = Model::Unknown;
                    expected.push((id, "reset"));
                }
                Step::Reset(id) => {
                    table.frame(Frame::reset(id.to_string()), now);
                    streams[id] = Model::Unknown;
                }
                Step::Ignored(id) => {
                    table.frame(Frame::new(id.to_string(), Body::Heartbeat), now);
                }
                Step::Examined(id, back, verdict) => {
                    let Some(&instance) = started[id].iter().rev().nth(back) else { continue };
                    let outcome = match verdict {
                        Verdict::Ready => ready(),
                        Verdict::Rejected => Outcome::Rejected { message_2: Bytes::from_static(b"no") },
                        Verdict::Failed => Outcome::Failed,
                    };
                    table.examined(id.to_string(), instance, outcome, now);
                    if streams[id] == Model::Pending(instance) {
                        failed = !matches!(verdict, Verdict::Ready);
                        (streams[id], expected) = match verdict {
                            Verdict::Ready => {
                                opened[id].push(instance);
                                (Model::Active(instance), vec![(id, "message 2")])
                            }
                            Verdict::Rejected => (Model::Unknown, vec![(id, "message 2")]),
                            Verdict::Failed => (Model::Unknown, vec![(id, "reset")]),
                        };
                    }
                }
                Step::Gone(id, back) => {
                    let Some(&instance) = opened[id].iter().rev().nth(back) else { continue };
                    table.gone(Gone { stream_id: id.to_string(), instance });
                    if streams[id] == Model::Active(instance) {
                        streams[id] = Model::Unknown;
                        expected.push((id, "reset"));
                    }
                }
                Step::Later => now += Duration::from_secs(3),
            }
            if failed && now >= refusing_until {
                failures += 1;
                if failures == 8 {
                    failures = 0;
                    refusing_until = now + Duration::from_secs(10);
                }
            }
            let expected: Vec<_> = expected.into_iter().map(|(id, kind)| (id.to_string(), kind)).collect();
            prop_assert_eq!(written(&mut queue), expected, "{:?}", step);
            while let Ok(accepted) = links.try_recv() {
                kept.push(accepted);
            }
            let active = streams.iter().filter(|stream| matches!(stream, Model::Active(_))).count();
            let known = streams.iter().filter(|stream| **stream != Model::Unknown).count();
            prop_assert_eq!((table.active, table.slots.len()), (active, known));
        }
    }
}
