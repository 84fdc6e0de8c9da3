//! Path URIs, from section 8 of the protocol and the recorded answers T30 and T34.

use mainstay_wire::PathUri;
use mainstay_wire::path::PathUriError;

#[track_caller]
fn normal(text: &str, uri: &str, native: &str) {
    let parsed = PathUri::parse(text).unwrap();
    assert_eq!(parsed.as_str(), uri);
    assert_eq!(parsed.to_native_bytes().unwrap(), native.as_bytes());
}

#[test]
fn accepted_forms() {
    normal("file:///a/b", "file:///a/b", "/a/b");
    normal("file:/a/b", "file:///a/b", "/a/b");
    normal("FILE:///a/b", "file:///a/b", "/a/b");
    normal("file://LocalHost/a/b", "file:///a/b", "/a/b");
    normal("file://", "file:///", "/");
    normal("file:///", "file:///", "/");
    normal("file:///a b/é", "file:///a%20b/%C3%A9", "/a b/é");
    normal(
        "file:///a%20b%23%3F%25",
        "file:///a%20b%23%3F%25",
        "/a b#?%",
    );
    normal("file:///%7Et", "file:///%7Et", "/~t");
    normal("file:///a/./b/../c", "file:///a/c", "/a/c");
    normal("file:///a/%2E%2E/c", "file:///c", "/c");
    normal("file:///dlink/../a", "file:///a", "/a");
    normal("file:///a%2Fb", "file:///a%2Fb", "/a/b");
    normal("file:///100%", "file:///100%", "/100%");
    normal("file:", "file:///", "/");
    normal("file:x", "file:///x", "/x");
    normal("  file:///a\\b  ", "file:///a/b", "/a/b");
    normal("file:///a\tb", "file:///ab", "/ab");
    normal("file:///a//b/", "file:///a//b/", "/a//b/");
    normal(
        "file:///a[b]{c}^`\"<>|",
        "file:///a[b]%7Bc%7D^%60%22%3C%3E|",
        "/a[b]{c}^`\"<>|",
    );
    normal("file:///%c3%a9", "file:///%c3%a9", "/é");
    normal("file:///..", "file:///", "/");
}

#[test]
fn refused_while_decoding() {
    for (text, message) in [
        ("", "invalid URI: relative URL without a base"),
        ("/workspace", "invalid URI: relative URL without a base"),
        ("relative/dir", "invalid URI: relative URL without a base"),
        (
            "http://example.test/x",
            "unsupported path URI scheme `http`",
        ),
        (
            "file:///a.txt?q=1",
            "query parameters are not allowed in path URIs",
        ),
        ("file:///a.txt#f", "fragments are not allowed in path URIs"),
        (
            "file://u:p@localhost/x",
            "invalid URI: invalid international domain name",
        ),
    ] {
        assert_eq!(
            PathUri::parse(text).unwrap_err().to_string(),
            message,
            "{text}"
        );
    }
    assert_eq!(
        PathUri::parse("mailto:a@b"),
        Err(PathUriError::Scheme("mailto".to_owned()))
    );
}

#[test]
#[cfg(target_os = "linux")]
fn refused_as_native_paths() {
    for (text, message) in [
        (
            "file://relative",
            "'file://relative/' is invalid on 'linux'",
        ),
        (
            "file://host/share",
            "'file://host/share' is invalid on 'linux'",
        ),
        (
            "file:///C:/Windows",
            "'file:///C:/Windows' is invalid on 'linux'",
        ),
        ("file:///c:/x", "'file:///C:/x' is invalid on 'linux'"),
        ("file:///C%3A/x", "'file:///C%3A/x' is invalid on 'linux'"),
        ("file:C:/x", "'file:///C:/x' is invalid on 'linux'"),
        (
            "file://127.0.0.1/x",
            "'file://127.0.0.1/x' is invalid on 'linux'",
        ),
        ("file://../x", "'file://../x' is invalid on 'linux'"),
    ] {
        assert_eq!(
            PathUri::parse(text)
                .unwrap()
                .to_native_bytes()
                .unwrap_err()
                .to_string(),
            message,
            "{text}"
        );
    }
    // NUL is refused while decoding (T30 and a probe of the reference).
    for text in ["file:///workspace/a%00b", "file:///workspace/a\0b"] {
        let refused = PathUri::parse(text).unwrap_err().to_string();
        assert_eq!(refused, "'file:///workspace/a%00b' is invalid on 'linux'");
    }
    // Only a whole first segment is a drive.
    assert!(
        PathUri::parse("file:///d|/x")
            .unwrap()
            .to_native_bytes()
            .is_ok()
    );
    assert!(
        PathUri::parse("file:///%43:/x")
            .unwrap()
            .to_native_bytes()
            .is_ok()
    );
    assert!(
        PathUri::parse("file:///cc:/x")
            .unwrap()
            .to_native_bytes()
            .is_ok()
    );
    assert!(
        PathUri::parse("file:///a/c:/x")
            .unwrap()
            .to_native_bytes()
            .is_ok()
    );
}

/// Found by fuzzing: the url crate drops the host in the second reading only.
#[test]
fn a_normal_form_stays() {
    for text in [
        "file://h//C:/x",
        "FILE://h//c:/ l",
        "file://h/C:/x",
        "file:////C:/x",
        "file:///.//c:/x",
    ] {
        let uri = PathUri::parse(text).unwrap();
        assert_eq!(PathUri::parse(uri.as_str()).as_ref(), Ok(&uri), "{text}");
    }
}

/// Observed at the reference, which writes `/c:` like that.
#[test]
#[cfg(target_os = "linux")]
fn wrapped_paths_are_read() {
    normal(
        "file:///%00/bad/path/L2M6",
        "file:///%00/bad/path/L2M6",
        "/c:",
    );
    // What has another form is no path in this one.
    let other = PathUri::parse("file:///%00/bad/path/L2V0Yw").unwrap();
    assert_eq!(
        other.to_native_bytes().unwrap_err().to_string(),
        "'file:///%00/bad/path/L2V0Yw' is invalid on 'linux'"
    );
    for bad in [
        "file:///%00/bad/path/L2V0Yw==",
        "file:///%00/bad/path/!!",
        "file://h/%00/bad/path/L2M6",
        "file:///%00/x",
    ] {
        assert!(PathUri::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn written_form() {
    for (native, uri) in [
        (&b"/"[..], "file:///"),
        (b"/a/b/", "file:///a/b"),
        (b"//a/./b/../c", "file:///a/c"),
        (b"/..", "file:///"),
        (
            b"/enc/a b#?%\xC3\xA9.txt",
            "file:///enc/a%20b%23%3F%25%C3%A9.txt",
        ),
        (b"/enc/~t", "file:///enc/~t"),
        (b"/c:/x", "file:///%63:/x"),
        (b"/x/c:", "file:///x/c:"),
        (b"/a[b]^|~@!$&'()*+,;=-_.", "file:///a[b]^|~@!$&'()*+,;=-_."),
        (
            b"/\x01\x7F\\ \"#%<>?`{}",
            "file:///%01%7F%5C%20%22%23%25%3C%3E%3F%60%7B%7D",
        ),
        (b"/enc/\xFF\xFE.txt", "file:///enc/%FF%FE.txt"),
    ] {
        assert_eq!(PathUri::from_native_bytes(native).unwrap().as_str(), uri);
    }
    assert!(PathUri::from_native_bytes(b"a/b").is_err());
    assert!(PathUri::from_native_bytes(b"").is_err());
}

#[test]
fn joined() {
    let base = PathUri::parse("file:///srv/app").unwrap();
    for (path, uri) in [
        ("sub/x", "file:///srv/app/sub/x"),
        ("../other", "file:///srv/other"),
        (".", "file:///srv/app"),
        ("", "file:///srv/app"),
        ("/etc", "file:///etc"),
        ("a?b", "file:///srv/app/a%3Fb"),
    ] {
        assert_eq!(
            base.join_native_bytes(path.as_bytes()).unwrap().as_str(),
            uri
        );
    }
    let elsewhere = PathUri::parse("file://host/share").unwrap();
    assert!(elsewhere.join_native_bytes(b"x").is_err());
}

#[test]
fn in_json() {
    let error = |json: &str| {
        serde_json::from_str::<PathUri>(json)
            .unwrap_err()
            .to_string()
    };
    assert!(error("7").starts_with("invalid type: "));
    assert!(
        error("null").starts_with("invalid type: null, expected a string"),
        "{}",
        error("null")
    );
    assert!(error(r#""x""#).starts_with("invalid URI: relative URL without a base"));
    let uri: PathUri = serde_json::from_str(r#""file:\/\/\/a""#).unwrap();
    assert_eq!(serde_json::to_string(&uri).unwrap(), r#""file:///a""#);
}
