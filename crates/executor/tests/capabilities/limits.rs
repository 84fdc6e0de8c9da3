//! How much is looked at and told.

use std::fs;

use mainstay_wire::limits;
use serde_json::json;

use crate::Host;

#[tokio::test]
async fn limit_capability_file() {
    let host = Host::new();
    let size = usize::try_from(limits::CAPABILITY_FILE).unwrap();
    host.write("r/fits/SKILL.md", "x".repeat(size));
    host.write("r/more/SKILL.md", "x".repeat(size + 1));
    host.write("r/binary/SKILL.md", b"\xff\xfe");
    let root = host.one("r").await;
    assert_eq!(host.skills(&root), ["r/fits/SKILL.md"]);
    let warnings = [
        format!(
            "capability file {} is not UTF-8: invalid utf-8 sequence of 1 bytes from index 0",
            host.uri("r/binary/SKILL.md")
        ),
        format!(
            "capability file {} exceeds the 1048576-byte limit",
            host.uri("r/more/SKILL.md")
        ),
    ];
    assert_eq!(root.warnings, warnings);
}

#[tokio::test]
async fn limit_capability_bundle_and_answer() {
    let host = Host::new();
    let file = "x".repeat(limits::MIB);
    let per_root = limits::CAPABILITY_BUNDLE / limits::MIB;
    for number in 0..=per_root {
        host.write(&format!("r/s{number:03}/SKILL.md"), &file);
    }
    let roots = host.roots(&["r", "r", "r"]).await;
    let warning = vec!["capability root bundle exceeds the 16777216-byte limit".to_owned()];
    for (root, skills) in roots.iter().zip([per_root, per_root, 0]) {
        assert_eq!(
            (root.skills.len(), &root.warnings, &root.error),
            (skills, &warning, &None)
        );
    }
}

#[tokio::test]
async fn limit_capability_roots() {
    let host = Host::new();
    let roots = |count: usize| json!(vec![json!({ "id": "a", "path": host.uri("none") }); count]);
    assert_eq!(
        host.try_roots(roots(limits::CAPABILITY_ROOTS))
            .await
            .unwrap()
            .len(),
        limits::CAPABILITY_ROOTS
    );
    let error = host
        .try_roots(roots(limits::CAPABILITY_ROOTS + 1))
        .await
        .unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (
            -32600,
            "capability root discovery accepts at most 128 roots"
        )
    );
}

#[tokio::test]
async fn limit_capability_scan() {
    let host = Host::new();
    let directories = limits::CAPABILITY_DIRECTORIES;
    // The root is one of them.
    for number in 1..directories {
        fs::create_dir_all(host.root.join(format!("r/d{number:04}"))).unwrap();
    }
    host.skill(&format!("r/d{:04}", directories - 1), "last");
    let root = host.one("r").await;
    assert_eq!((root.skills.len(), root.warnings.len()), (1, 0));
    fs::create_dir_all(host.root.join("r/d0000")).unwrap();
    let root = host.one("r").await;
    let warning = format!(
        "capability scan reached its traversal limit (root: {})",
        host.uri("r")
    );
    assert_eq!((root.skills.len(), root.warnings), (0, vec![warning]));
}

#[tokio::test]
async fn limit_capability_warnings() {
    let host = Host::new();
    for number in 0..limits::CAPABILITY_WARNINGS + 2 {
        host.write(&format!("r/s{number:03}/SKILL.md"), b"\xff");
    }
    let warnings = host.one("r").await.warnings;
    assert_eq!(warnings.len(), limits::CAPABILITY_WARNINGS);
    assert_eq!(warnings.last().unwrap(), "and 3 warnings more");
}
