//! Links over TLS. `localhost.*.der` is a self-signed certificate made for these tests, with its key.

use std::sync::Arc;

use mainstay_link::{DialError, DialOptions, Limits, Link, accept, dial};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivatePkcs8KeyDer},
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_rustls::TlsAcceptor;

const CERTIFICATE: &[u8] = include_bytes!("localhost.cert.der");
const KEY: &[u8] = include_bytes!("localhost.key.der");

/// A TLS server on a loopback port that hands upgraded sockets over.
async fn serve() -> (u16, mpsc::Receiver<Link>) {
    let server = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from(CERTIFICATE)],
            PrivatePkcs8KeyDer::from(KEY).into(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (accepted, links) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(tcp).await else {
                continue;
            };
            let accepted = accepted.clone();
            let service = hyper::service::service_fn(
                move |mut request: hyper::Request<hyper::body::Incoming>| {
                    let accepted = accepted.clone();
                    async move {
                        let (answer, socket) =
                            accept::upgrade(&mut request, Limits::direct()).unwrap();
                        tokio::spawn(async move {
                            let _ = accepted.send(socket.await.unwrap().into()).await;
                        });
                        Ok::<_, std::convert::Infallible>(answer)
                    }
                },
            );
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
                    .with_upgrades(),
            );
        }
    });
    (port, links)
}

fn trusting() -> DialOptions {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
    let client = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    DialOptions {
        tls: Some(Arc::new(client)),
        ..DialOptions::default()
    }
}

#[tokio::test]
async fn messages_pass_over_tls_by_name_and_by_address() {
    let (port, mut links) = serve().await;
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("wss://{host}:{port}/");
        let mut near = dial(&url, &trusting()).await.unwrap();
        let mut far = links.recv().await.unwrap();
        let large = "x".repeat(300_000);
        near.sink.send(large.clone()).await.unwrap();
        near.sink.flush().await.unwrap();
        assert_eq!(far.source.recv().await.unwrap().unwrap(), large);
        far.sink.send("back".into()).await.unwrap();
        far.sink.flush().await.unwrap();
        assert_eq!(near.source.recv().await.unwrap().unwrap(), "back");
    }
}

#[tokio::test]
async fn a_certificate_that_the_platform_does_not_trust_is_refused() {
    let (port, _links) = serve().await;
    let url = format!("wss://localhost:{port}/");
    match dial(&url, &DialOptions::default()).await {
        Err(DialError::Tls(_)) => {}
        other => panic!("{other:?}"),
    }
}
