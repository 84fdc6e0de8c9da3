//! The tokens file: made, read, read again.

use mainstay_registry::{
    BindError, Config, Registry, TokenSource,
    tokens::{Role, TokenError, Tokens, issue},
};
use secrecy::ExposeSecret;
use serde_json::json;
use tempfile::tempdir;

use crate::support::{http, hybrid_key};

#[test]
fn a_token_is_shown_once_and_only_its_digest_is_kept() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("tokens");
    let first = issue(&path, "build", Role::Executor).unwrap();
    let second = issue(&path, "build", Role::Harness).unwrap();
    assert_ne!(first.expose_secret(), second.expose_secret());
    assert!(first.expose_secret().len() >= 64);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert!(text.starts_with("build executor "));
    for secret in [&first, &second] {
        assert!(!text.contains(&secret.expose_secret()[4..]));
    }
    assert_eq!(Tokens::read(&path).unwrap().len(), 2);

    // A line somebody left unfinished is not glued to the next.
    std::fs::write(&path, text.trim_end()).unwrap();
    issue(&path, "build", Role::Harness).unwrap();
    assert_eq!(Tokens::read(&path).unwrap().len(), 3);

    for bad in ["", "a/b", " build", "é", &"x".repeat(65)] {
        assert!(matches!(
            issue(&path, bad, Role::Harness),
            Err(TokenError::Environment)
        ));
    }
}

#[cfg(unix)]
#[test]
fn the_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().unwrap();
    let path = folder.path().join("tokens");
    issue(&path, "build", Role::Executor).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    assert!(matches!(Tokens::read(&path), Err(TokenError::Mode(0o640))));
    assert!(matches!(
        issue(&path, "build", Role::Executor),
        Err(TokenError::Mode(0o640))
    ));
}

#[tokio::test]
async fn without_its_file_a_registry_does_not_start() {
    let folder = tempdir().unwrap();
    let tokens = TokenSource::File(folder.path().join("tokens"));
    let config = Config::new("127.0.0.1:0".parse().unwrap(), tokens);
    assert!(matches!(
        Registry::bind(config).await,
        Err(BindError::Tokens(TokenError::Io(_)))
    ));
}

#[tokio::test]
async fn an_address_for_everybody_needs_a_public_url() {
    let tokens = TokenSource::Memory(Tokens::new().into());
    let mut config = Config::new("0.0.0.0:0".parse().unwrap(), tokens);
    assert!(matches!(
        Registry::bind(config.clone()).await,
        Err(BindError::PublicUrl(_))
    ));
    config.public_url = Some("https://registry.example/base/".into());
    let registry = Registry::bind(config).await.unwrap();
    assert_eq!(registry.url(), "https://registry.example/base");
}

#[tokio::test]
async fn a_reload_takes_new_tokens_in_and_a_broken_file_changes_nothing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("tokens");
    let first = issue(&path, "one", Role::Harness).unwrap();
    let config = Config::new(
        "127.0.0.1:0".parse().unwrap(),
        TokenSource::File(path.clone()),
    );
    let registry = Registry::bind(config).await.unwrap();
    let second = issue(&path, "two", Role::Harness).unwrap();
    let body = json!({ "harness_public_key": hybrid_key(2) }).to_string();
    let status = async |environment: &str, token: &str| {
        let request = format!(
            "POST /cloud/environment/{environment}/connect HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
        );
        http(registry.local_addr(), &request, body.as_bytes())
            .await
            .status
    };
    assert_eq!(status("one", first.expose_secret()).await, 409);
    assert_eq!(status("two", second.expose_secret()).await, 401);
    registry.reload().unwrap();
    assert_eq!(status("two", second.expose_secret()).await, 409);
    std::fs::write(&path, "nonsense\n").unwrap();
    assert!(matches!(registry.reload(), Err(TokenError::Line(1))));
    assert_eq!(status("one", first.expose_secret()).await, 409);
    std::fs::write(&path, "").unwrap();
    registry.reload().unwrap();
    assert_eq!(status("one", first.expose_secret()).await, 401);
}
