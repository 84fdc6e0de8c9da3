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
        sealer.begin(text.clone()).unwrap();
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
        sealer.begin(text).unwrap();
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
fn one_message_at_a_time() {
    let (mut sealer, _) = halves();
    sealer.begin("first").unwrap();
    assert_eq!(sealer.begin("second"), Err(SealError::Busy));
    sealer.seal(&mut Vec::new()).unwrap();
    assert_eq!(sealer.upcoming(), None);
    sealer.begin("second").unwrap();
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
    assert_eq!(sealer.begin(""), Err(SealError::Empty));
    let length = RELAY_JSON + 1;
    assert_eq!(
        sealer.begin(vec![0; length]),
        Err(SealError::TooLong { length })
    );
    assert_eq!(sealer.upcoming(), None);
    sealer.begin(vec![0; RELAY_JSON]).unwrap();
}

#[test]
fn the_last_number_is_never_used() {
    let (mut sealer, _) = halves();
    sealer.seq = u32::MAX - 1;
    sealer.begin("last").unwrap();
    sealer.seal(&mut Vec::new()).unwrap();
    sealer.begin("beyond").unwrap();
    let mut out = Vec::new();
    assert_eq!(sealer.seal(&mut out), Err(SealError::Exhausted));
    assert!(out.is_empty());
}
