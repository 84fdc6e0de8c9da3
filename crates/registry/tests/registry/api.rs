//! The three calls of the registry: answers, bodies, roles.

use std::time::Duration;

use mainstay_registry::Limits;
use mainstay_wire::registry::{PROFILE_HYBRID, PROFILE_IK};
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::support::{ENVIRONMENT, http, hybrid_key, ik_key, registration, rig, rig_with, text};

#[tokio::test]
async fn register_connect_and_validate_bring_a_harness_to_its_executor() {
    let rig = rig().await;
    let answer = rig.register(&hybrid_key(1)).await;
    assert_eq!(answer["environment_id"], ENVIRONMENT);
    assert_eq!(answer["security_profile"], PROFILE_HYBRID);
    let url = text(&answer, "url");
    let expected = rig.registry.url().replace("http", "ws");
    assert!(
        url.starts_with(&format!("{expected}/rendezvous?role=executor&")),
        "{url}"
    );

    let (_executor, registration) = rig.executor(&hybrid_key(1)).await;
    assert_eq!(registration, text(&answer, "executor_registration_id"));
    let bundle = rig.connect(&hybrid_key(2)).await;
    assert_eq!(bundle["environment_id"], ENVIRONMENT);
    assert_eq!(bundle["security_profile"], PROFILE_HYBRID);
    assert_eq!(bundle["executor_registration_id"], registration);
    assert_eq!(bundle["executor_public_key"], json!(hybrid_key(1)));
    assert!(text(&bundle, "url").contains("role=harness&"));
    let authorization = text(&bundle, "harness_key_authorization");
    assert!((1..=4096).contains(&authorization.len()));

    let valid = json!({ "valid": true });
    let invalid = json!({ "valid": false });
    assert_eq!(
        rig.validate(&registration, &hybrid_key(2), authorization)
            .await,
        valid
    );
    assert_eq!(
        rig.validate(&registration, &hybrid_key(3), authorization)
            .await,
        invalid
    );
    assert_eq!(
        rig.validate("else", &hybrid_key(2), authorization).await,
        invalid
    );
    assert_eq!(
        rig.validate(&registration, &hybrid_key(2), "").await,
        invalid
    );
    let tampered = authorization.replace("v1.", "v1.9");
    assert_eq!(
        rig.validate(&registration, &hybrid_key(2), &tampered).await,
        invalid
    );
}

#[tokio::test]
async fn an_authorization_that_has_expired_is_not_valid() {
    let rig = rig_with(Limits {
        authorization_lifetime: Duration::ZERO,
        ..Limits::default()
    })
    .await;
    let (_executor, registration) = rig.executor(&hybrid_key(1)).await;
    let bundle = rig.connect(&hybrid_key(2)).await;
    let authorization = text(&bundle, "harness_key_authorization");
    let answer = rig
        .validate(&registration, &hybrid_key(2), authorization)
        .await;
    assert_eq!(answer, json!({ "valid": false }));
}

#[tokio::test]
async fn connect_is_offline_until_the_executors_socket_is_open_and_after_it_closed() {
    let rig = rig().await;
    let body = json!({ "harness_public_key": hybrid_key(2) });
    let offline = (409, "environment_offline".to_owned());
    assert_eq!(
        rig.post("connect", &rig.harness, &body).await.refusal(),
        offline
    );
    rig.register(&hybrid_key(1)).await;
    assert_eq!(
        rig.post("connect", &rig.harness, &body).await.refusal(),
        offline
    );
    let (executor, _) = rig.executor(&hybrid_key(1)).await;
    assert_eq!(rig.post("connect", &rig.harness, &body).await.status, 200);
    drop(executor);
    while rig.post("connect", &rig.harness, &body).await.status == 200 {}
    assert_eq!(
        rig.post("connect", &rig.harness, &body).await.refusal(),
        offline
    );
}

#[tokio::test]
async fn tokens_open_their_role_and_environment_only() {
    let rig = rig().await;
    let register = registration(&hybrid_key(1));
    let connect = json!({ "harness_public_key": hybrid_key(2) });
    let (executor, harness, stranger) = (
        rig.executor.expose_secret(),
        rig.harness.expose_secret(),
        rig.stranger.expose_secret(),
    );
    let cases: [(&str, &str, &str, &Value, u16, &str); 9] = [
        (
            "build",
            "register",
            "mst_guess",
            &register,
            401,
            "unauthorized",
        ),
        ("build", "register", "", &register, 401, "unauthorized"),
        (
            "nowhere",
            "register",
            "mst_guess",
            &register,
            401,
            "unauthorized",
        ),
        ("build", "register", harness, &register, 403, "forbidden"),
        ("build", "validate", harness, &register, 403, "forbidden"),
        ("build", "connect", executor, &connect, 403, "forbidden"),
        ("build", "register", stranger, &register, 403, "forbidden"),
        (
            "nowhere",
            "register",
            executor,
            &register,
            404,
            "environment_not_found",
        ),
        (
            "..%2Fbuild",
            "connect",
            harness,
            &connect,
            404,
            "environment_not_found",
        ),
    ];
    for (environment, call, token, body, status, code) in cases {
        let answer = rig.post_to(environment, call, token, body).await;
        assert_eq!(
            answer.refusal(),
            (status, code.to_owned()),
            "{environment} {call}"
        );
        assert_eq!(
            answer.head.contains("www-authenticate: bearer"),
            status == 401
        );
        assert!(!String::from_utf8_lossy(&answer.body).contains("mst_"));
    }
    let path = format!("/cloud/environment/{ENVIRONMENT}/connect");
    for authorization in [
        "",
        "Authorization: Basic x\r\n",
        "Authorization: Bearer\r\n",
    ] {
        let request = format!("POST {path} HTTP/1.1\r\n{authorization}");
        let answer = http(rig.address, &request, connect.to_string().as_bytes()).await;
        assert_eq!(answer.refusal(), (401, "unauthorized".to_owned()));
    }
    let request = format!("POST {path} HTTP/1.1\r\nAuthorization: bearer   {harness} \r\n");
    let answer = http(rig.address, &request, connect.to_string().as_bytes()).await;
    assert_eq!(answer.refusal(), (409, "environment_offline".to_owned()));
}

#[tokio::test]
async fn bodies_that_are_not_understood_are_refused() {
    let rig = rig().await;
    let mut extra = json!(hybrid_key(1));
    extra["other"] = 1.into();
    let mut short = hybrid_key(1);
    short.x25519_public_key.0.truncate(31);
    let mut bare = hybrid_key(1);
    bare.mlkem768_public_key = None;
    let mut foreign = hybrid_key(1);
    foreign.suite = "Noise_XX".into();
    let mut crossed = registration(&hybrid_key(1));
    crossed["security_profile"] = PROFILE_IK.into();
    let mut twice = registration(&hybrid_key(1));
    twice["mainstay_further_keys"] = json!([hybrid_key(2)]);
    let register =
        |key: Value| json!({ "security_profile": PROFILE_HYBRID, "executor_public_key": key });
    let cases = [
        (json!({}), "invalid_request"),
        (json!([]), "invalid_request"),
        (register(extra), "invalid_request"),
        (register(json!(short)), "invalid_public_key"),
        (register(json!(bare)), "invalid_public_key"),
        (register(json!(foreign)), "unsupported_security_profile"),
        (crossed, "unsupported_security_profile"),
        (twice, "invalid_public_key"),
    ];
    for (body, code) in cases {
        let answer = rig.post("register", &rig.executor, &body).await;
        assert_eq!(answer.refusal(), (400, code.to_owned()), "{body}");
    }
    let body = json!({ "harness_public_key": short });
    let answer = rig.post("connect", &rig.harness, &body).await;
    assert_eq!(answer.refusal(), (400, "invalid_public_key".to_owned()));

    let large = json!({ "security_profile": "x".repeat(20_000) });
    let answer = rig.post("register", &rig.executor, &large).await;
    assert_eq!(answer.refusal(), (413, "payload_too_large".to_owned()));
}

#[tokio::test]
async fn the_harness_is_given_the_key_of_its_own_suite_or_none() {
    let rig = rig().await;
    let (_executor, _) = rig.executor(&hybrid_key(1)).await;
    let body = json!({ "harness_public_key": ik_key(2) });
    let answer = rig.post("connect", &rig.harness, &body).await;
    assert_eq!(
        answer.refusal(),
        (400, "unsupported_security_profile".to_owned())
    );

    let mut both = registration(&hybrid_key(1));
    both["mainstay_further_keys"] = json!([ik_key(1)]);
    assert_eq!(rig.post("register", &rig.executor, &both).await.status, 200);
    let bundle = rig.connect(&ik_key(2)).await;
    assert_eq!(bundle["security_profile"], PROFILE_IK);
    assert_eq!(bundle["executor_public_key"], json!(ik_key(1)));
    let bundle = rig.connect(&hybrid_key(2)).await;
    assert_eq!(bundle["security_profile"], PROFILE_HYBRID);
}

#[tokio::test]
async fn other_paths_methods_and_browsers() {
    let rig = rig().await;
    let get = async |request: &str| http(rig.address, request, b"").await;
    assert_eq!(get("GET /readyz HTTP/1.1\r\n").await.status, 200);
    assert_eq!(get("HEAD /readyz HTTP/1.1\r\n").await.status, 200);
    assert_eq!(
        get("GET / HTTP/1.1\r\n").await.refusal(),
        (404, "not_found".into())
    );
    let register = format!("GET /cloud/environment/{ENVIRONMENT}/register HTTP/1.1\r\n");
    assert_eq!(
        get(&register).await.refusal(),
        (405, "method_not_allowed".into())
    );
    for path in ["/readyz", "/nowhere", "/rendezvous"] {
        let answer = get(&format!("GET {path} HTTP/1.1\r\nOrigin:\r\n")).await;
        assert_eq!((answer.status, &answer.body[..]), (403, &b""[..]));
    }
}
