//! Registry bodies (`noise-relay.md` 2 and 9.1).

use mainstay_wire::registry::*;
use serde_json::json;

fn hybrid() -> serde_json::Value {
    json!({"suite": SUITE_HYBRID, "x25519_public_key": b64(32), "mlkem768_public_key": b64(1184)})
}

fn b64(bytes: usize) -> String {
    let mut text = String::new();
    mainstay_wire::base64::encode_into(&vec![7; bytes], &mut text);
    text
}

#[test]
fn keys_are_strict() {
    let key = |value: serde_json::Value| serde_json::from_str::<PublicKey>(&value.to_string());
    let good = key(hybrid()).unwrap();
    assert_eq!(good.check(), Ok(()));
    assert_eq!(good.profile(), Some(PROFILE_HYBRID));
    // Order on the wire.
    let text = serde_json::to_string(&good).unwrap();
    assert!(
        text.starts_with(r#"{"suite":"#)
            && text.find("x25519").unwrap() < text.find("mlkem768").unwrap()
    );
    let mut more = hybrid();
    more["comment"] = json!("x");
    assert!(key(more).unwrap_err().to_string().contains("unknown field"));
    let mut sloppy = hybrid();
    sloppy["x25519_public_key"] = json!(b64(32).trim_end_matches('='));
    assert!(key(sloppy).is_err());
    let with = |suite: &str, x: usize, kem: Option<usize>| {
        let mut value = json!({"suite": suite, "x25519_public_key": b64(x)});
        if let Some(kem) = kem {
            value["mlkem768_public_key"] = json!(b64(kem));
        }
        key(value).unwrap().check()
    };
    assert_eq!(with(SUITE_IK, 32, None), Ok(()));
    assert_eq!(with(SUITE_IK, 32, Some(1184)), Err(BadPublicKey::Shape));
    assert_eq!(with(SUITE_IK, 31, None), Err(BadPublicKey::Shape));
    assert_eq!(with(SUITE_HYBRID, 32, None), Err(BadPublicKey::Shape));
    assert_eq!(with(SUITE_HYBRID, 32, Some(1183)), Err(BadPublicKey::Shape));
    assert_eq!(with(SUITE_HYBRID, 33, Some(1184)), Err(BadPublicKey::Shape));
    assert_eq!(with("moon", 32, None), Err(BadPublicKey::Suite));
}

#[test]
fn register_sends_exactly_two_members() {
    let request = RegisterRequest {
        security_profile: PROFILE_HYBRID.into(),
        executor_public_key: serde_json::from_value(hybrid()).unwrap(),
        mainstay_further_keys: vec![],
    };
    assert_eq!(
        serde_json::to_value(&request).unwrap(),
        json!({"security_profile": PROFILE_HYBRID, "executor_public_key": hybrid()})
    );
}

#[test]
fn answers_ignore_what_they_do_not_know_and_miss_what_is_missing() {
    let answer = json!({"environment_id": "e", "url": "ws://x/?sig=s3cret", "security_profile": PROFILE_HYBRID,
        "executor_registration_id": "r", "transport_policy": {"version": 1}});
    let register: RegisterAnswer = serde_json::from_value(answer.clone()).unwrap();
    assert!(!format!("{register:?}").contains("s3cret"));
    let mut null = answer.clone();
    null["security_profile"] = json!(null);
    assert!(serde_json::from_value::<RegisterAnswer>(null).is_err());
    let mut connect = answer;
    connect["executor_public_key"] = hybrid();
    assert!(serde_json::from_value::<ConnectAnswer>(connect.clone()).is_err());
    connect["harness_key_authorization"] = json!("s3cret");
    let bundle: ConnectAnswer = serde_json::from_value(connect).unwrap();
    assert!(bundle.is_complete() && !format!("{bundle:?}").contains("s3cret"));
    assert!(
        !ConnectAnswer {
            url: " ".into(),
            ..bundle.clone()
        }
        .is_complete()
    );
    assert!(
        !ConnectAnswer {
            executor_registration_id: String::new(),
            ..bundle.clone()
        }
        .is_complete()
    );
    assert!(
        !ConnectAnswer {
            harness_key_authorization: "\n".into(),
            ..bundle
        }
        .is_complete()
    );
    assert!(serde_json::from_str::<ValidateAnswer>("{}").is_err());
    assert!(
        serde_json::from_str::<ValidateAnswer>(r#"{"valid":true,"x":1}"#)
            .unwrap()
            .valid
    );
}

#[test]
fn environment_ids_are_one_path_component() {
    assert_eq!(
        EnvironmentId::parse(" env-1_A ").unwrap().as_str(),
        "env-1_A"
    );
    assert!(EnvironmentId::parse(&"e".repeat(256)).is_ok());
    for bad in ["", "  ", "a/b", "a b", "..", "a?b", "é", &"e".repeat(257)] {
        assert!(EnvironmentId::parse(bad).is_err(), "{bad}");
    }
    let id = EnvironmentId::parse("e1").unwrap();
    assert_eq!(register_path(&id), "/cloud/environment/e1/register");
    assert_eq!(connect_path(&id), "/cloud/environment/e1/connect");
    assert_eq!(validate_path(&id), "/cloud/environment/e1/validate");
}

#[test]
fn s2_4_error_bodies() {
    let read = |body: &str| read_error(body.as_bytes(), "empty or malformed error body");
    let text = |text: &str| text.to_owned();
    assert_eq!(
        read(r#"{"error":{"code":"c","message":"m"}}"#),
        (Some(text("c")), text("m"))
    );
    assert_eq!(read(r#"{"error":{"message":"m"}}"#), (None, text("m")));
    assert_eq!(
        read(r#"{"error":{"code":"c"}}"#),
        (Some(text("c")), text(r#"{"error":{"code":"c"}}"#))
    );
    assert_eq!(read(" upstream down \n"), (None, text("upstream down")));
    assert_eq!(read(" \n"), (None, text("empty or malformed error body")));
    assert_eq!(read(&"é".repeat(5000)).1, "é".repeat(4096));
    assert_eq!(
        serde_json::to_value(ErrorBody::new(CODE_OFFLINE, "no executor")).unwrap(),
        json!({"error": {"code": "environment_offline", "message": "no executor"}})
    );
}
