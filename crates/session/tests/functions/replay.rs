use mainstay_session::config::OnGap;
use mainstay_session::replay::ReplayError;
use mainstay_session::sequence::*;
use mainstay_wire::process::ReadAnswer;

use crate::order::*;

fn replay(
    order: &mut Sequencer,
    answer: ReadAnswer,
    on_gap: OnGap,
) -> Result<Vec<Published>, ReplayError> {
    let before = order.clone();
    let mut published = Vec::new();
    let result = order.replay(answer, on_gap, &mut published);
    if result.is_err() {
        // Validated first: an error has changed nothing (W7).
        assert_eq!((&published, &*order), (&vec![], &before));
    }
    result.map(|()| published)
}

fn gap(first: u64, last: u64) -> Published {
    Published::Gap { first, last }
}

/// A process of which everything up to `last` was published.
fn at(last: u64) -> Sequencer {
    let mut order = sequencer();
    feed(&mut order, (1..=last).map(|seq| (seq, out(seq))));
    order
}

const BOTH: [OnGap; 2] = [OnGap::Mark, OnGap::Fail];

#[test]
fn missed_output_is_published_and_wakes() {
    for on_gap in BOTH {
        let mut order = at(2);
        let published = replay(&mut order, answer([3, 4], 5), on_gap);
        assert_eq!(published, Ok(vec![event(3, out(3)), event(4, out(4))]));
        assert_eq!((order.last(), order.wake()), (4, 4));
    }
}

#[test]
fn nothing_new_changes_nothing() {
    for on_gap in BOTH {
        let mut order = at(4);
        let before = order.clone();
        assert_eq!(replay(&mut order, answer([3, 4], 5), on_gap), Ok(vec![]));
        assert_eq!(replay(&mut order, answer([], 0), on_gap), Ok(vec![]));
        assert_eq!(order, before);
    }
}

#[test]
fn a_finished_process_is_left_alone() {
    let mut order = at(1);
    order.fail();
    assert_eq!(replay(&mut order, answer([2], 3), OnGap::Fail), Ok(vec![]));
    let mut order = sequencer();
    feed(&mut order, [(1, exit(0)), (2, Fact::Closed)]);
    assert_eq!(replay(&mut order, answer([], 9), OnGap::Fail), Ok(vec![]));
}

#[test]
fn a18_the_hole_before_the_output_is_the_exit() {
    for on_gap in BOTH {
        let mut order = sequencer();
        feed(&mut order, [(259, Fact::Closed)]);
        let published =
            replay(&mut order, exited(answer(2..=258, 259), 3), on_gap).expect("complete");
        assert_eq!(published.len(), 259);
        assert_eq!(published[0], event(1, exit(3)));
        assert_eq!(published[258], event(259, Fact::Closed));
        assert_eq!(order.held(), (0, 0));
    }
}

#[test]
fn the_exit_is_the_one_hole_wherever_it_is() {
    for on_gap in BOTH {
        let mut order = at(1);
        let published = replay(&mut order, closed(exited(answer([2, 4], 6), 0)), on_gap);
        let expected = [
            event(2, out(2)),
            event(3, exit(0)),
            event(4, out(4)),
            event(5, Fact::Closed),
        ];
        assert_eq!(published, Ok(expected.to_vec()));
        let mut order = at(1);
        let published = replay(&mut order, exited(answer([2], 4), 7), on_gap);
        assert_eq!(published, Ok(vec![event(2, out(2)), event(3, exit(7))]));
    }
}

#[test]
fn a19_output_at_the_closed_seq_is_a_conflict() {
    for on_gap in BOTH {
        let result = replay(&mut at(1), closed(exited(answer([2, 3], 4), 0)), on_gap);
        assert_eq!(result, Err(ReplayError::Conflict { seq: 3 }));
        let mut order = at(1);
        feed(&mut order, [(3, out(3))]);
        let result = replay(&mut order, closed(exited(answer([], 4), 0)), on_gap);
        assert_eq!(result, Err(ReplayError::Conflict { seq: 3 }));
    }
}

#[test]
fn a20_a_pending_exit_gets_the_sandbox_flag() {
    for (live, told, expected) in [
        (None, true, true),
        (None, false, false),
        (Some(true), false, true),
        (Some(false), true, true),
    ] {
        let mut order = at(1);
        feed(
            &mut order,
            [(
                3,
                Fact::Exited {
                    code: 9,
                    sandbox_denied: live,
                },
            )],
        );
        let mut answer = exited(answer([2], 4), 9);
        answer.sandbox_denied = told;
        let published = replay(&mut order, answer, OnGap::Fail).expect("complete");
        let exit = Fact::Exited {
            code: 9,
            sandbox_denied: Some(expected),
        };
        assert_eq!(published, [event(2, out(2)), event(3, exit)]);
    }
}

#[test]
fn an_answer_that_contradicts_itself_is_refused() {
    for on_gap in BOTH {
        let mut failure = answer([2], 3);
        failure.failure = Some("lost".to_owned());
        assert_eq!(
            replay(&mut at(1), failure, on_gap),
            Err(ReplayError::Failure)
        );
        assert_eq!(
            replay(&mut at(1), answer([2, 5], 4), on_gap),
            Err(ReplayError::Beyond { seq: 5, target: 3 })
        );
        let mut codeless = exited(answer([2], 4), 0);
        codeless.exit_code = None;
        assert_eq!(
            replay(&mut at(1), codeless, on_gap),
            Err(ReplayError::NoExitCode)
        );
        assert_eq!(
            replay(&mut at(1), exited(answer([2, 3], 4), 0), on_gap),
            Err(ReplayError::NoPlaceForExit)
        );
        let mut big = answer([2], 3);
        big.chunks[0].chunk.0 = vec![0; (1 << 20) + 1].into();
        assert_eq!(
            replay(&mut at(1), big, on_gap),
            Err(ReplayError::TooLarge {
                seq: 2,
                bytes: (1 << 20) + 1
            })
        );
    }
}

#[test]
fn w07_evicted_output_never_becomes_a_false_exit() {
    let evicted = || closed(exited(answer([5, 6], 9), 0));
    assert_eq!(
        replay(&mut at(1), evicted(), OnGap::Fail),
        Err(ReplayError::Gap { target: 8 })
    );
}

#[test]
fn w08_evicted_output_is_a_gap_in_its_place_and_the_exit_follows() {
    let mut order = at(1);
    let published = replay(
        &mut order,
        closed(exited(answer([5, 6], 9), 4)),
        OnGap::Mark,
    );
    let exit = Published::Exited {
        code: 4,
        sandbox_denied: Some(false),
    };
    let expected = [
        gap(2, 4),
        event(5, out(5)),
        event(6, out(6)),
        gap(7, 7),
        exit,
        event(8, Fact::Closed),
    ];
    assert_eq!(published, Ok(expected.to_vec()));
    assert!(order.closed() && order.exited());
}

#[test]
fn w08_a_running_process_goes_on_after_a_gap() {
    let mut order = at(1);
    feed(&mut order, [(9, out(9)), (6, out(6))]);
    let published = replay(&mut order, answer([4, 5], 8), OnGap::Mark);
    let expected = [
        gap(2, 3),
        event(4, out(4)),
        event(5, out(5)),
        event(6, out(6)),
        gap(7, 7),
    ];
    assert_eq!(published, Ok(expected.to_vec()));
    let live = feed(&mut order, [(8, out(8))]);
    assert_eq!(live, [event(8, out(8)), event(9, out(9))]);
}

#[test]
fn w08_a_single_hole_is_a_gap_when_the_exit_is_known() {
    let mut order = at(1);
    feed(&mut order, [(4, exit(0))]);
    let published = replay(&mut order, exited(answer([3], 5), 0), OnGap::Mark);
    assert_eq!(
        published,
        Ok(vec![gap(2, 2), event(3, out(3)), event(4, exit(0))])
    );
}

#[test]
fn live_events_of_the_new_link_may_overtake_the_answer() {
    for on_gap in BOTH {
        let mut order = at(1);
        assert_eq!(feed(&mut order, [(6, out(6)), (3, out(3))]), []);
        let published = replay(&mut order, answer([2, 3, 4, 5], 6), on_gap).expect("complete");
        assert_eq!(
            published,
            (2..=6).map(|seq| event(seq, out(seq))).collect::<Vec<_>>()
        );
        assert_eq!(
            feed(&mut order, [(5, out(5)), (7, out(7))]),
            [event(7, out(7))]
        );
    }
}

#[test]
fn a_hostile_answer_cannot_publish_after_the_close() {
    let mut order = at(1);
    feed(&mut order, [(3, Fact::Closed)]);
    let published = replay(&mut order, answer([2, 4, 5], 6), OnGap::Mark)
        .expect("consistent as far as it says");
    assert_eq!(published, [event(2, out(2)), event(3, Fact::Closed)]);
}
