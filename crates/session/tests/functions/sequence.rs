use mainstay_session::sequence::*;
use mainstay_wire::process::Stream;

use crate::order::*;

fn sized(bytes: usize) -> Fact {
    Fact::Output {
        stream: Stream::Stdout,
        data: vec![0; bytes].into(),
    }
}

#[test]
fn a10_reordered_events_come_out_in_order_with_the_sandbox_flag() {
    let mut order = sequencer();
    let denied = Fact::Exited {
        code: 1,
        sandbox_denied: Some(true),
    };
    let events = [
        (4, Fact::Closed),
        (1, out(1)),
        (3, denied.clone()),
        (2, out(2)),
    ];
    let published = feed(&mut order, events);
    assert_eq!(
        published,
        [
            event(1, out(1)),
            event(2, out(2)),
            event(3, denied),
            event(4, Fact::Closed)
        ]
    );
    assert!(order.closed() && order.exited());
}

#[test]
fn duplicates_and_latecomers_are_dropped() {
    let mut order = sequencer();
    let published = feed(
        &mut order,
        [
            (2, out(2)),
            (2, out(9)),
            (1, out(1)),
            (1, out(8)),
            (2, out(7)),
            (0, out(6)),
        ],
    );
    assert_eq!(published, [event(1, out(1)), event(2, out(2))]);
    assert_eq!(order.held(), (0, 0));
}

#[test]
fn nothing_follows_the_close() {
    let mut order = sequencer();
    let published = feed(
        &mut order,
        [(2, out(2)), (3, out(3)), (1, Fact::Closed), (4, out(4))],
    );
    assert_eq!(published, [event(1, Fact::Closed)]);
    assert_eq!(order.held(), (0, 0));
    assert!(!order.fail());
}

#[test]
fn a16_an_event_above_the_limit_is_an_error_even_if_it_is_next() {
    let mut order = sequencer();
    let mut published = Vec::new();
    let bytes = (1 << 20) + 1;
    assert_eq!(
        order.accept(1, sized(bytes), &mut published),
        Err(SequenceError::TooLarge { seq: 1, bytes })
    );
    assert_eq!((published, order.over(), order.wake()), (vec![], true, 1));
}

#[test]
fn a17_the_gap_closing_event_may_exceed_the_buffer() {
    let mut order = sequencer();
    // 256 events at exactly 1 MiB.
    let held = feed(&mut order, (2..=257).map(|seq| (seq, sized(4096))));
    assert_eq!((held, order.held()), (vec![], (256, 1 << 20)));
    let published = feed(&mut order, [(1, sized(1 << 20))]);
    assert_eq!(published.len(), 257);
    assert_eq!(order.held(), (0, 0));
}

#[test]
fn the_buffer_is_bounded_by_events_and_by_bytes() {
    let mut order = sequencer();
    feed(&mut order, (2..=257).map(|seq| (seq, sized(1))));
    let mut published = Vec::new();
    assert_eq!(
        order.accept(258, sized(1), &mut published),
        Err(SequenceError::Overflow { missing: 1 })
    );
    assert_eq!((order.over(), order.held()), (true, (0, 0)));
    let mut order = sequencer();
    feed(&mut order, [(2, sized(1 << 20))]);
    assert_eq!(
        order.accept(3, sized(1), &mut published),
        Err(SequenceError::Overflow { missing: 1 })
    );
    assert_eq!(published, []);
}

#[test]
fn the_wake_counter_follows_accepted_events_and_one_failure() {
    let mut order = sequencer();
    feed(&mut order, [(3, out(3))]);
    assert_eq!((order.wake(), order.last()), (3, 0));
    feed(&mut order, [(1, out(1)), (3, out(3))]);
    assert_eq!((order.wake(), order.last()), (3, 1));
    assert!(order.fail());
    assert!(!order.fail());
    assert_eq!(order.wake(), 4);
    assert_eq!(feed(&mut order, [(2, out(2))]), []);
}

#[test]
fn the_last_possible_seq_does_no_harm() {
    let mut order = sequencer();
    feed(&mut order, [(u64::MAX, out(1))]);
    let mut published = Vec::new();
    order
        .replay(answer([], u64::MAX), Default::default(), &mut published)
        .expect("a gap");
    assert_eq!(order.last(), u64::MAX);
    feed(&mut order, [(u64::MAX, out(1)), (1, out(1))]);
}
