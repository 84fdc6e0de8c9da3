use super::*;

/// A peer that provokes answers and reads none gets as many as fit, and costs no more than that.
#[tokio::test]
async fn provoked_resets_do_not_pile_up() {
    let (writer, mut queue) = mpsc::unbounded_channel();
    let (gone, _leavers) = mpsc::unbounded_channel();
    let (accepted, _links) = mpsc::channel(1);
    let mut table = Table::new(writer, gone, accepted, Duration::from_secs(60));
    let provoke = |table: &mut Table| {
        let payload = Bytes::from_static(&[0; 16]);
        let frame = Frame::new("nobody", Body::Data { seq: 0, payload });
        table.frame(frame, Instant::now());
    };
    for _ in 0..1000 {
        provoke(&mut table);
    }
    assert_eq!(queue.len(), 128);
    // One written, one more fits.
    drop(queue.recv().await);
    provoke(&mut table);
    provoke(&mut table);
    assert_eq!(queue.len(), 128);
}
