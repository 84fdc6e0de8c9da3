//! Byte strings: standard base64 with padding, nothing else.

use mainstay_wire::base64::{Base64, decode, decode_into, encode_into, encoded_len};

#[test]
fn strict() {
    for (text, expected) in [
        ("", Ok(&b""[..])),
        ("eA==", Ok(b"x")),
        ("eHk=", Ok(b"xy")),
        ("eHl6", Ok(b"xyz")),
        ("+/+/", Ok(b"\xfb\xff\xbf")),
        ("!!!notb64", Err("Invalid symbol 33, offset 0.")),
        ("eA", Err("Invalid padding")),
        ("eA=", Err("Invalid padding")),
        ("zzz", Err("Invalid padding")),
        ("eHl6e", Err("Invalid input length: 5")),
        ("eA===", Err("Invalid symbol 61, offset 2.")),
        ("=", Err("Invalid padding")),
        ("====", Err("Invalid symbol 61, offset 0.")),
        ("eA==eA==", Err("Invalid symbol 61, offset 2.")),
        ("eB==", Err("Invalid last symbol 66, offset 1.")),
        ("-_-_", Err("Invalid symbol 45, offset 0.")),
        ("eHl6\n", Err("Invalid symbol 10, offset 4.")),
        (" eHl6", Err("Invalid symbol 32, offset 0.")),
    ] {
        let found = decode(text.as_bytes());
        assert_eq!(
            found.as_deref().map_err(ToString::to_string),
            expected.map_err(ToOwned::to_owned),
            "{text:?}"
        );
        let mut out = b"kept".to_vec();
        assert_eq!(
            decode_into(text.as_bytes(), &mut out).is_ok(),
            expected.is_ok(),
            "{text:?}"
        );
        assert_eq!(out, [b"kept", expected.unwrap_or_default()].concat());
    }
}

#[test]
fn lengths() {
    for bytes in 0..20 {
        let mut text = String::new();
        encode_into(&vec![7; bytes], &mut text);
        assert_eq!(text.len(), encoded_len(bytes));
    }
}

#[test]
fn contents_stay_out_of_debug() {
    assert_eq!(
        format!("{:?}", Base64::from(&b"secret"[..])),
        "Base64(6 bytes)"
    );
}
