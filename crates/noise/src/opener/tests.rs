//! What a receiver must bear and what it must refuse (noise-relay.md 5.5, 5.6).

use mainstay_wire::limits::{RECORD, WINDOW_BYTES, WINDOW_RECORDS};
use proptest::prelude::*;

use super::*;
use crate::primitives::aes_gcm;

const KEY: [u8; 32] = [9; 32];
const MIB_64: u32 = 67_108_864;

fn opener() -> Opener {
    let mut cipher = aes_gcm();
    cipher.set(&KEY);
    Opener::new(OpeningKey::Cipher(cipher))
}

fn record(seq: u32, plaintext: &[u8]) -> Bytes {
    let mut cipher = aes_gcm();
    cipher.set(&KEY);
    let mut out = vec![0; plaintext.len() + TAG_BYTES];
    cipher.encrypt(u64::from(seq), &[], plaintext, &mut out);
    out.into()
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// Everything whole that arrived, as text.
fn drain(opener: &mut Opener) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(message) = opener.message().unwrap() {
        all.push(String::from_utf8(message.to_vec()).unwrap());
    }
    all
}

#[test]
fn plaintext_is_a_byte_stream() {
    // Seven-byte records, each with parts of two messages.
    let stream = [framed(b"one"), framed(b"two, longer"), framed(b"3")].concat();
    let mut opener = opener();
    for (seq, chunk) in stream.chunks(7).enumerate() {
        opener
            .accept(seq as u32, record(seq as u32, chunk))
            .unwrap();
    }
    assert_eq!(drain(&mut opener), ["one", "two, longer", "3"]);
}

#[test]
fn an_empty_record_does_nothing() {
    let mut opener = opener();
    opener.accept(0, record(0, b"")).unwrap();
    assert_eq!(opener.message(), Ok(None));
    opener.accept(1, record(1, &framed(b"{}"))).unwrap();
    assert_eq!(drain(&mut opener), ["{}"]);
}

#[test]
fn record_lengths() {
    let mut opener = opener();
    let longest = record(0, &[0; RECORD + 1]);
    assert_eq!(opener.accept(0, longest), Err(OpenError::RecordLength));
    let no_tag = record(0, b"").slice(..15);
    assert_eq!(opener.accept(0, no_tag), Err(OpenError::RecordLength));
    assert_eq!(opener.accept(0, Bytes::new()), Err(OpenError::RecordLength));
    let mut full = framed(&[b'x'; RECORD - 4]);
    assert_eq!(full.len(), RECORD);
    opener.accept(0, record(0, &full)).unwrap();
    full.drain(..4);
    assert_eq!(opener.message().unwrap().unwrap(), full);
}

#[test]
fn message_lengths() {
    for wrong in [0, MIB_64 + 1, u32::MAX] {
        let mut opener = opener();
        opener.accept(0, record(0, &wrong.to_be_bytes())).unwrap();
        assert_eq!(opener.message(), Err(OpenError::MessageLength));
    }
    let mut opener = opener();
    opener.accept(0, record(0, &MIB_64.to_be_bytes())).unwrap();
    assert_eq!(opener.message(), Ok(None));
}

#[test]
fn an_announced_length_takes_no_memory() {
    let mut opener = opener();
    opener.accept(0, record(0, &MIB_64.to_be_bytes())).unwrap();
    opener.accept(1, record(1, &[b'x'; 1000])).unwrap();
    assert_eq!(opener.message(), Ok(None));
    assert!(opener.stream.capacity() < 16_384);
}

#[test]
fn a_changed_record_changes_nothing() {
    let mut opener = opener();
    opener.accept(0, record(0, &framed(b"first"))).unwrap();
    let good = record(1, &framed(b"second"));
    for at in 0..good.len() {
        let mut changed = good.to_vec();
        changed[at] ^= 0x80;
        assert_eq!(
            opener.accept(1, changed.into()),
            Err(OpenError::Authentication)
        );
    }
    for length in TAG_BYTES..good.len() {
        assert_eq!(
            opener.accept(1, good.slice(..length)),
            Err(OpenError::Authentication)
        );
    }
    opener.accept(1, good).unwrap();
    assert_eq!(drain(&mut opener), ["first", "second"]);
}

#[test]
fn a_record_under_another_number_does_not_open() {
    let mut opener = opener();
    let first = record(0, &framed(b"first"));
    opener.accept(0, first.clone()).unwrap();
    assert_eq!(
        opener.accept(1, first.clone()),
        Err(OpenError::Authentication)
    );
    // Replayed under its own number it is silently ignored, whatever its bytes.
    opener.accept(0, first).unwrap();
    opener.accept(0, record(7, b"else")).unwrap();
    opener.accept(1, record(1, &framed(b"second"))).unwrap();
    assert_eq!(drain(&mut opener), ["first", "second"]);
}

#[test]
fn how_far_ahead_a_record_may_be() {
    let mut opener = opener();
    let garbage = Bytes::from_static(&[0; TAG_BYTES]);
    assert_eq!(
        opener.accept(65, garbage.clone()),
        Err(OpenError::TooFarAhead)
    );
    assert_eq!(
        opener.accept(u32::MAX, garbage),
        Err(OpenError::TooFarAhead)
    );
    for seq in (1..=WINDOW_RECORDS as u32).rev() {
        let text = seq.to_string();
        opener
            .accept(seq, record(seq, &framed(text.as_bytes())))
            .unwrap();
    }
    opener.accept(64, Bytes::from_static(&[1; 20])).unwrap();
    assert_eq!(opener.message(), Ok(None));
    opener.accept(0, record(0, &framed(b"0"))).unwrap();
    let all: Vec<String> = (0..=64).map(|seq| seq.to_string()).collect();
    assert_eq!(drain(&mut opener), all);
    // The window moved on.
    opener.accept(65 + 64, record(129, b"")).unwrap();
    assert_eq!(
        opener.accept(65 + 65, record(130, b"")),
        Err(OpenError::TooFarAhead)
    );
}

#[test]
fn how_many_early_bytes_are_held() {
    let longest = RECORD + TAG_BYTES;
    let rest = WINDOW_BYTES - 17 * longest;
    let mut opener = opener();
    for seq in 1..=17 {
        opener.accept(seq, vec![0; longest].into()).unwrap();
    }
    assert_eq!(
        opener.accept(18, vec![0; rest + 1].into()),
        Err(OpenError::WindowFull)
    );
    // Exactly the limit is accepted.
    opener.accept(18, vec![0; rest].into()).unwrap();
    assert_eq!(
        opener.accept(19, vec![0; TAG_BYTES].into()),
        Err(OpenError::WindowFull)
    );
}

#[test]
fn released_records_make_room_for_others() {
    let longest = vec![b'x'; RECORD];
    let mut opener = opener();
    opener.stream.extend_from_slice(&MIB_64.to_be_bytes());
    for round in 0..3 {
        let first = round * 18;
        for seq in first + 1..first + 18 {
            opener.accept(seq, record(seq, &longest)).unwrap();
        }
        opener.accept(first, record(first, &longest)).unwrap();
    }
    assert_eq!(opener.stream.len(), 4 + 3 * 18 * RECORD);
}

#[test]
fn the_last_number_ends_the_stream() {
    let mut opener = opener();
    opener.window = Window::starting_at(u32::MAX - 1);
    opener
        .accept(u32::MAX - 1, record(u32::MAX - 1, b""))
        .unwrap();
    assert_eq!(
        opener.accept(u32::MAX, record(u32::MAX, b"")),
        Err(OpenError::Exhausted)
    );
}

proptest! {
    /// Any messages, any chunks, any order within the window, with repeats: the same messages.
    #[test]
    fn order_and_cuts_do_not_matter(
        messages in prop::collection::vec("[a-z]{1,200}", 1..20),
        cuts in prop::collection::vec(0usize..300, 1..60),
        order in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        let stream: Vec<u8> = messages.iter().flat_map(|text| framed(text.as_bytes())).collect();
        let mut rest = stream.as_slice();
        let mut chunks = Vec::new();
        for cut in cuts {
            let (chunk, others) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk);
            rest = others;
        }
        chunks.push(rest);
        let mut records: Vec<(u32, Bytes)> =
            chunks.iter().enumerate().map(|(seq, chunk)| (seq as u32, record(seq as u32, chunk))).collect();
        for (at, other) in order.iter().enumerate() {
            let count = records.len();
            records.swap(at % count, other.index(count));
        }
        let mut opener = opener();
        let mut got = Vec::new();
        for (seq, record) in &records {
            opener.accept(*seq, record.clone()).unwrap();
            opener.accept(*seq, record.clone()).unwrap();
            got.append(&mut drain(&mut opener));
        }
        prop_assert_eq!(got, messages);
    }
}
