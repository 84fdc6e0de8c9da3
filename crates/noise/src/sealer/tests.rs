//! How messages are cut (noise-relay.md 5.5).

use mainstay_wire::limits::{RECORD, RELAY_JSON};

use super::*;
use crate::Opener;
use crate::channel::OpeningKey;
use crate::primitives::aes_gcm;

fn halves() -> (Sealer, Opener) {
    let (mut forth, mut back) = (aes_gcm(), aes_gcm());
    forth.set(&[7; 32]);
    back.set(&[7; 32]);
    (
        Sealer::new(SealingKey::Cipher(forth)),
        Opener::new(OpeningKey::Cipher(back)),
    )
}

#[test]
fn records_are_full_but_the_last() {
    let full = RECORD + TAG_BYTES;
    for (message, lengths) in [
        (1, vec![5 + TAG_BYTES]),
        (RECORD - 4, vec![full]),
        (RECORD - 3, vec![full, 1 + TAG_BYTES]),
        (2 * RECORD - 4, vec![full, full]),
        (2 * RECORD + 96, vec![full, full, 100 + TAG_BYTES]),
    ] {
        let (mut sealer, mut opener) = halves();
        let text: Vec<u8> = (0..message).map(|at| at as u8).collect();
        sealer.push(text.clone()).unwrap();
        let mut seen = Vec::new();
        while let Some(next) = sealer.upcoming() {
            assert_eq!(next.seq as usize, seen.len());
            // Behind a header that is already there.
            let mut out = b"header".to_vec();
            sealer.seal(&mut out).unwrap();
            assert_eq!(&out[..6], b"header");
            assert_eq!(out.len(), 6 + next.len);
            opener.accept(next.seq, out.split_off(6).into()).unwrap();
            seen.push(next.len);
        }
        assert_eq!(seen, lengths);
        assert_eq!(opener.message().unwrap().unwrap(), text);
    }
}

#[test]
fn numbers_go_on_from_message_to_message() {
    let (mut sealer, mut opener) = halves();
    let mut numbers = Vec::new();
    for text in ["a", "b", "c"] {
        sealer.push(text).unwrap();
        let next = sealer.upcoming().unwrap();
        numbers.push(next.seq);
        let mut out = Vec::new();
        sealer.seal(&mut out).unwrap();
        opener.accept(next.seq, out.into()).unwrap();
        assert_eq!(opener.message().unwrap().unwrap(), text);
    }
    assert_eq!(numbers, [0, 1, 2]);
}

#[test]
fn messages_queued_together_share_records() {
    let (mut sealer, mut opener) = halves();
    for text in ["one", "two", "three"] {
        sealer.push(text).unwrap();
    }
    assert_eq!(sealer.upcoming().unwrap().len, 3 * 4 + 11 + TAG_BYTES);
    let mut out = Vec::new();
    sealer.seal(&mut out).unwrap();
    assert_eq!(sealer.upcoming(), None);
    opener.accept(0, out.into()).unwrap();
    for text in ["one", "two", "three"] {
        assert_eq!(opener.message().unwrap().unwrap(), text);
    }
}

/// A record may end anywhere, inside a length prefix too.
#[test]
fn records_end_where_they_are_full() {
    for first in RECORD - 12..RECORD {
        let (mut sealer, mut opener) = halves();
        let messages = [vec![1; first], vec![2; 1], vec![3; 2 * RECORD], vec![4; 5]];
        for message in &messages {
            sealer.push(message.clone()).unwrap();
        }
        let mut lengths = Vec::new();
        while let Some(next) = sealer.upcoming() {
            assert_eq!(sealer.is_full(), next.len == RECORD + TAG_BYTES);
            let mut out = Vec::new();
            sealer.seal(&mut out).unwrap();
            assert_eq!(out.len(), next.len);
            lengths.push(next.len - TAG_BYTES);
            opener.accept(next.seq, out.into()).unwrap();
        }
        let rest = first + 4 + 5 + 4 + 9 - RECORD;
        assert_eq!(lengths, [vec![RECORD; 3], vec![rest]].concat());
        for message in messages {
            assert_eq!(opener.message().unwrap().unwrap(), message);
        }
    }
}

#[test]
fn nothing_to_seal_writes_nothing() {
    let (mut sealer, _) = halves();
    let mut out = Vec::new();
    sealer.seal(&mut out).unwrap();
    assert!(out.is_empty());
}

#[test]
fn message_lengths() {
    let (mut sealer, _) = halves();
    assert_eq!(sealer.push(""), Err(SealError::Empty));
    let length = RELAY_JSON + 1;
    assert_eq!(
        sealer.push(vec![0; length]),
        Err(SealError::TooLong { length })
    );
    assert_eq!(sealer.upcoming(), None);
    sealer.push(vec![0; RELAY_JSON]).unwrap();
}

#[test]
fn the_last_number_is_never_used() {
    let (mut sealer, _) = halves();
    sealer.seq = u32::MAX - 1;
    sealer.push("last").unwrap();
    sealer.seal(&mut Vec::new()).unwrap();
    sealer.push("beyond").unwrap();
    let mut out = Vec::new();
    assert_eq!(sealer.seal(&mut out), Err(SealError::Exhausted));
    assert!(out.is_empty());
}
