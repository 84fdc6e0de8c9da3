//! Direct links over loopback sockets.

use std::net::SocketAddr;

use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use mainstay_link::{Close, DialOptions, Limits, Link, RawSocket, accept, dial};
use tokio::{net::TcpListener, sync::mpsc};

async fn serve(limits: Limits) -> (SocketAddr, mpsc::Receiver<RawSocket>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (accepted, sockets) = mpsc::channel(8);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let accepted = accepted.clone();
            let service = service_fn(move |mut request: Request<Incoming>| {
                let accepted = accepted.clone();
                async move {
                    if let Some(refusal) = accept::refuse_origin(request.headers()) {
                        return Ok::<_, std::convert::Infallible>(refusal);
                    }
                    let (answer, socket) = match accept::upgrade(&mut request, limits) {
                        Ok(upgraded) => upgraded,
                        Err(refusal) => return Ok(refusal),
                    };
                    tokio::spawn(async move {
                        if let Ok(socket) = socket.await {
                            let _ = accepted.send(socket).await;
                        }
                    });
                    Ok(answer)
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades(),
            );
        }
    });
    (address, sockets)
}

#[tokio::test]
async fn messages_pass_both_ways_and_the_close_reason_arrives() {
    let (address, mut sockets) = serve(Limits::direct()).await;
    let mut near = dial(&format!("ws://{address}/?a=b"), &DialOptions::default())
        .await
        .unwrap();
    let mut far = Link::from(sockets.recv().await.unwrap());

    near.sink.send("{\"id\":1}".into()).await.unwrap();
    near.sink.send("{\"id\":2}".into()).await.unwrap();
    near.sink.flush().await.unwrap();
    assert_eq!(
        &far.source.recv().await.unwrap().unwrap()[..],
        b"{\"id\":1}"
    );
    assert_eq!(
        &far.source.recv().await.unwrap().unwrap()[..],
        b"{\"id\":2}"
    );

    far.sink.send("{}".into()).await.unwrap();
    far.sink.flush().await.unwrap();
    assert_eq!(&near.source.recv().await.unwrap().unwrap()[..], b"{}");

    let window = std::time::Duration::from_millis(1500);
    far.sink.close(Close::restart(window)).await.unwrap();
    assert!(near.source.recv().await.unwrap().is_none());
    assert_eq!(near.source.closed().unwrap().code, 1012);
    assert_eq!(near.source.closed().unwrap().restart_window(), Some(window));
}
