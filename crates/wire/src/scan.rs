//! The strictness serde lacks: repeated keys, number of values, nesting, half surrogate pairs where nobody looks, in one
//! pass over the text.
//!
//! Nothing is built but the keys of the objects that are open, and strings are skipped as fast as memory allows: a
//! message is mostly one long base64 string. The grammar is serde's business; for a text that is no JSON this finds
//! something or nothing, in linear time and bounded memory.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::limits;
use crate::text;

/// Up to so many keys, comparing them all is faster than hashing them.
const FEW_KEYS: usize = 16;

/// What is too much in a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Excess {
    /// A key twice in one object.
    #[error("duplicate JSON object key `{key}`")]
    DuplicateKey {
        /// The key, shortened.
        key: String,
    },
    /// More than 262,144 values.
    #[error("too many JSON values: the limit is {}", limits::JSON_VALUES)]
    TooManyValues,
    /// Deeper than 127.
    #[error("recursion limit exceeded")]
    TooDeep,
    /// An escape that stands for half a character.
    #[error("lone surrogate in hex escape")]
    LoneSurrogate,
}

/// Checks `text` against [`limits::JSON_VALUES`], [`limits::JSON_DEPTH`] and for repeated keys.
///
/// ```
/// use mainstay_wire::scan::{Excess, scan};
/// assert_eq!(scan(r#"{"a":[1,{"a":2}]}"#), Ok(()));
/// assert_eq!(scan(r#"{"a":1,"\u0061":2}"#), Err(Excess::DuplicateKey { key: "a".into() }));
/// ```
pub fn scan(text: &str) -> Result<(), Excess> {
    Scanner {
        text,
        values: 0,
        keys_seen: 0,
        open: Vec::new(),
        keys: Vec::new(),
    }
    .run()
}

struct Scanner<'a> {
    text: &'a str,
    /// Values begun so far, the root included.
    values: usize,
    /// Keys so far. In JSON they are fewer than the values; in other texts this bounds them.
    keys_seen: usize,
    /// Containers around the current place.
    open: Vec<Container<'a>>,
    /// Keys of all open objects, outermost first.
    keys: Vec<Cow<'a, str>>,
}

enum Container<'a> {
    Array,
    Object {
        /// Where its keys begin in `Scanner::keys`.
        from: usize,
        /// Its keys, once there are many.
        many: Option<HashSet<Cow<'a, str>>>,
        /// Whether the next string is a key.
        key_next: bool,
    },
}

impl<'a> Scanner<'a> {
    fn run(mut self) -> Result<(), Excess> {
        let bytes = self.text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += 1;
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b':' => {}
                b'"' => {
                    let end = string_end(bytes, at)?;
                    match self.open.last_mut() {
                        Some(Container::Object { key_next, .. }) if *key_next => {
                            *key_next = false;
                            self.key(at, end)?;
                        }
                        _ => self.value()?,
                    }
                    at = end + 1;
                }
                b'{' => {
                    self.value()?;
                    let from = self.keys.len();
                    self.enter(Container::Object {
                        from,
                        many: None,
                        key_next: true,
                    })?;
                }
                b'[' => {
                    self.value()?;
                    self.enter(Container::Array)?;
                }
                b'}' | b']' => {
                    if let Some(Container::Object { from, .. }) = self.open.pop() {
                        self.keys.truncate(from);
                    }
                }
                b',' => {
                    if let Some(Container::Object { key_next, .. }) = self.open.last_mut() {
                        *key_next = true;
                    }
                }
                _ => {
                    self.value()?;
                    while bytes.get(at).is_some_and(|byte| !ends_scalar(*byte)) {
                        at += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn value(&mut self) -> Result<(), Excess> {
        self.values += 1;
        if self.values > limits::JSON_VALUES {
            Err(Excess::TooManyValues)
        } else {
            Ok(())
        }
    }

    fn enter(&mut self, container: Container<'a>) -> Result<(), Excess> {
        if self.open.len() == limits::JSON_DEPTH {
            return Err(Excess::TooDeep);
        }
        self.open.push(container);
        Ok(())
    }

    /// Notes the key between `start` and `end` in the innermost object.
    fn key(&mut self, start: usize, end: usize) -> Result<(), Excess> {
        self.keys_seen += 1;
        if self.keys_seen > limits::JSON_VALUES {
            return Err(Excess::TooManyValues);
        }
        let raw = self.text.get(start..end).unwrap_or_default();
        let key = if raw.contains('\\') {
            let quoted = self.text.get(start - 1..=end).unwrap_or_default();
            match serde_json::from_str::<String>(quoted) {
                Ok(key) => Cow::Owned(key),
                // A bad escape: serde says so.
                Err(_) => return Ok(()),
            }
        } else {
            Cow::Borrowed(raw)
        };
        let Some(Container::Object { from, many, .. }) = self.open.last_mut() else {
            return Ok(());
        };
        let new = match many {
            Some(many) => many.insert(key.clone()),
            None => {
                let keys = &self.keys[*from..];
                let new = !keys.contains(&key);
                if keys.len() == FEW_KEYS {
                    let mut set: HashSet<Cow<'a, str>> = keys.iter().cloned().collect();
                    set.insert(key.clone());
                    *many = Some(set);
                    self.keys.truncate(*from);
                } else {
                    self.keys.push(key.clone());
                }
                new
            }
        };
        if new {
            Ok(())
        } else {
            Err(Excess::DuplicateKey {
                key: text::shorten(&key).into_owned(),
            })
        }
    }
}

/// Where the string that begins before `at` ends: the place of its closing quote, or the end of the text.
fn string_end(bytes: &[u8], mut at: usize) -> Result<usize, Excess> {
    while let Some(rest) = bytes.get(at..) {
        match memchr::memchr2(b'"', b'\\', rest) {
            Some(ahead) if rest[ahead] == b'"' => return Ok(at + ahead),
            Some(ahead) => at += ahead + escape_len(&rest[ahead..])?,
            None => break,
        }
    }
    Ok(bytes.len())
}

/// Length of the escape at the beginning of `text`; both halves of a surrogate pair are one.
fn escape_len(text: &[u8]) -> Result<usize, Excess> {
    match (
        code_unit(text),
        code_unit(text.get(6..).unwrap_or_default()),
    ) {
        (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => Ok(12),
        (Some(0xD800..=0xDFFF), _) => Err(Excess::LoneSurrogate),
        _ => Ok(2),
    }
}

/// The UTF-16 code unit of a `\uXXXX` at the beginning of `text`.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn ends_scalar(byte: u8) -> bool {
    matches!(
        byte,
        b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' | b'"' | b'[' | b'{' | b':'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duplicate(key: &str) -> Result<(), Excess> {
        Err(Excess::DuplicateKey {
            key: key.to_owned(),
        })
    }

    #[test]
    fn a_key_may_repeat_in_another_object_only() {
        assert_eq!(scan(r#"{"a":{"a":1},"b":[{"a":1},{"a":1}]}"#), Ok(()));
        assert_eq!(scan(r#"{"a":{"b":1,"c":2,"b":3}}"#), duplicate("b"));
        assert_eq!(scan(r#"{"x":{"p":1},"y":2,"x":3}"#), duplicate("x"));
        assert_eq!(scan(r#"[{"":1,"":2}]"#), duplicate(""));
    }

    #[test]
    fn keys_are_compared_unescaped_and_values_are_not_keys() {
        assert_eq!(scan(r#"{"caf\u00e9":1,"café":2}"#), duplicate("café"));
        assert_eq!(scan(r#"{"a\"b":1,"a\\b":2}"#), Ok(()));
        assert_eq!(scan(r#"{"a":"b","b":"a","c":["a","a"]}"#), Ok(()));
    }

    #[test]
    fn many_keys_are_watched_too() {
        let object = |keys: &[usize]| {
            let members: Vec<String> = keys
                .iter()
                .map(|key| format!("\"k{key}\":{{\"k1\":0}}"))
                .collect();
            format!("{{{}}}", members.join(","))
        };
        let keys: Vec<usize> = (0..100).collect();
        assert_eq!(scan(&object(&keys)), Ok(()));
        for repeated in [0, FEW_KEYS - 1, FEW_KEYS, FEW_KEYS + 1, 99] {
            let keys: Vec<usize> = (0..100).chain([repeated]).collect();
            assert_eq!(scan(&object(&keys)), duplicate(&format!("k{repeated}")));
        }
    }

    #[test]
    fn s2_values_are_counted_up_to_the_limit() {
        // The root, id, method and the array: the recorded request carried 262,139 items beside five others.
        let message = |items: usize| {
            let items = vec!["0"; items].join(",");
            format!(r#"{{"id":1,"method":"m","params":{{"x":[{items}]}}}}"#)
        };
        assert_eq!(scan(&message(262_139)), Ok(()));
        assert_eq!(scan(&message(262_140)), Err(Excess::TooManyValues));
    }

    #[test]
    fn s2_nesting_is_limited_like_serdes() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(scan(&nested(127)), Ok(()));
        assert!(serde_json::from_str::<serde_json::Value>(&nested(127)).is_ok());
        assert_eq!(scan(&nested(128)), Err(Excess::TooDeep));
        assert!(serde_json::from_str::<serde_json::Value>(&nested(128)).is_err());
        let objects = format!("{}1{}", r#"{"a":"#.repeat(128), "}".repeat(128));
        assert_eq!(scan(&objects), Err(Excess::TooDeep));
    }

    #[test]
    fn keys_without_values_do_not_pile_up() {
        let text: String = std::iter::once("{".to_owned())
            .chain((0..300_000).map(|n| format!("\"{n}\",")))
            .collect();
        assert_eq!(scan(&text), Err(Excess::TooManyValues));
    }

    #[test]
    fn surrogates_come_in_pairs() {
        for good in [
            r#""\ud83d\ude00""#,
            r#""\uD7FF\uE000""#,
            r#""\\ud800""#,
            r#""\u0041""#,
        ] {
            assert_eq!(scan(good), Ok(()), "{good}");
        }
        for bad in [
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\ud800\u0041""#,
            r#""\ud800\ud800""#,
            r#""\ud83d\\ude00""#,
            r#"{"\uDFFF":1}"#,
        ] {
            assert_eq!(scan(bad), Err(Excess::LoneSurrogate), "{bad}");
        }
    }

    #[test]
    fn broken_texts_end_somehow() {
        for text in [
            "",
            "\"",
            "\"\\",
            "{\"",
            "{\"a\\",
            "}}]]",
            "{,,}",
            "nonsense\"",
            "{\"\\u12\":1,\"\\u12\":2}",
        ] {
            let _ = scan(text);
        }
    }

    #[test]
    fn the_key_in_the_error_is_bounded() {
        let key = "ü".repeat(100_000);
        let Err(Excess::DuplicateKey { key }) = scan(&format!(r#"{{"{key}":1,"{key}":2}}"#)) else {
            panic!("missed")
        };
        assert!(key.len() < 2000);
    }
}
