//! Requests and answers when all goes well.

use super::*;

#[tokio::test]
async fn an_answer_finds_its_call() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let body = Bytes::from_static(b"hello");
    let (offset, ()) = tokio::join!(send(&f.connection, &f.env, &body), async {
        let request = f.script.request().await;
        assert_eq!((request.code, request.flag, request.language), (310, 0, LanguageCode::RUST));
        assert_eq!((request.version, request.serialize_type), (Version::V5_3_3, SerializeType::Json));
        assert_eq!(request.field("b"), Some("topic"));
        assert_eq!(&request.body[..], b"hello");
        f.script.send(&stored(&request, 77)).await;
    });
    assert_eq!(offset.expect("answered"), 77);
    assert_clean(&f.connection);
}

#[tokio::test]
async fn answers_may_come_in_any_order() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let (connection, env) = (f.connection.clone(), f.env.clone());
            f.env.spawn(async move { send(&connection, &env, &Bytes::new()).await })
        })
        .collect();
    let mut requests = Vec::new();
    for _ in 0..100 {
        requests.push(f.script.request().await);
    }
    for request in requests.iter().rev() {
        f.script.send(&stored(request, request.opaque.into())).await;
    }
    let mut offsets = Vec::new();
    for task in tasks {
        offsets.push(task.await.expect("not cancelled").expect("answered"));
    }
    // Slots are used in order, and the callers ran in order.
    assert_eq!(offsets, (0..100).collect::<Vec<_>>());
    assert_clean(&f.connection);
}
