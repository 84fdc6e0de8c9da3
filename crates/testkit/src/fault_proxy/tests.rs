use super::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A target that sends `bytes` bytes to everyone, then echoes.
async fn sender(bytes: usize) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            tokio::spawn(async move {
                peer.write_all(&vec![7; bytes]).await.unwrap();
                let (mut read, mut write) = peer.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    addr
}

#[tokio::test]
async fn forwards_faithfully_and_counts() {
    let proxy = FaultProxy::transparent(sender(5).await).await.unwrap();
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    client.write_all(b"abc").await.unwrap();
    client.shutdown().await.unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, [7, 7, 7, 7, 7, b'a', b'b', b'c']);
    let counters = proxy.until(|c| c.ended == 1).await;
    assert_eq!(
        (counters.accepted, counters.cut, counters.up, counters.down),
        (1, 0, 3, 8)
    );
}

#[tokio::test]
async fn cuts_after_exactly_the_bytes_of_its_seed() {
    let plan = Plan::cut_after_bytes(Counted::Down, 1000..=90_000)
        .with_mode(Mode::Close)
        .at_most(2);
    let target = sender(100_000).await;
    let proxy = FaultProxy::start(target, plan, Seed::new(1)).await.unwrap();
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
        let mut got = vec![0; 100_000];
        let mut length = 0;
        while length < got.len() {
            match client.read(&mut got[length..]).await.unwrap() {
                0 => break,
                n => length += n,
            }
        }
        lengths.push(length as u64);
    }
    let mut seed = Seed::new(1);
    assert_eq!(
        lengths,
        [
            seed.within(&(1000..=90_000)),
            seed.within(&(1000..=90_000)),
            100_000
        ],
        "two cuts, then a free one"
    );
    assert_eq!(proxy.counters().cut, 2);
}

#[tokio::test]
async fn abort_resets_and_silence_says_nothing() {
    let proxy = FaultProxy::transparent(sender(1).await).await.unwrap();
    let mut first = TcpStream::connect(proxy.addr()).await.unwrap();
    first.read_u8().await.unwrap();
    proxy.cut_and_wait(Mode::Abort).await;
    assert_eq!(
        first.read_u8().await.unwrap_err().kind(),
        std::io::ErrorKind::ConnectionReset
    );

    let mut second = TcpStream::connect(proxy.addr()).await.unwrap();
    second.read_u8().await.unwrap();
    proxy.cut_and_wait(Mode::Silence).await;
    second.write_all(b"x").await.unwrap();
    let mut byte = [0];
    tokio::select! {
        biased;
        read = second.read(&mut byte) => panic!("half-open, but read {read:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(proxy.counters().up, 0, "nothing passes a silent connection");
    proxy.cut(Mode::Abort);
    assert!(second.read_u8().await.is_err());
}

#[tokio::test]
async fn a_refusing_door_resets_and_a_silent_one_holds() {
    let proxy = FaultProxy::transparent(sender(1).await).await.unwrap();
    proxy.set_door(Door::Refuse);
    let mut refused = TcpStream::connect(proxy.addr()).await.unwrap();
    assert!(refused.read_u8().await.is_err());
    proxy.set_door(Door::Open);
    let mut open = TcpStream::connect(proxy.addr()).await.unwrap();
    assert_eq!(open.read_u8().await.unwrap(), 7);
}
