//! The server's messages by webhook.

use tokio::net::TcpListener;

use super::*;

/// Where a client is called.
struct Hook {
    listener: TcpListener,
    body: String,
}

impl Hook {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let body = json!({ "url": url }).to_string();
        Self { listener, body }
    }

    /// A call: what was said, and who waits for the answer.
    async fn called(&self) -> (String, Raw) {
        let mut raw = Raw::accept(&self.listener).await;
        (raw.request().await, raw)
    }
}

fn private() -> Options {
    let mut options = Options::default();
    options.private_webhooks = true;
    options
}

async fn open(site: &Site, hook: &Hook) -> Client {
    let mut raw = site.raw().await;
    let reply = raw.ask("PUT", "/", &[JSON], &hook.body).await;
    assert_eq!(reply.status, 201);
    let session = reply.session();
    Client { raw, session }
}

#[tokio::test]
async fn a_webhook_that_was_replaced_does_not_end_its_session() {
    let site = Site::with(private(), Config::default()).await;
    let (old, new) = (Hook::new().await, Hook::new().await);
    let mut client = open(&site, &old).await;
    site.peer().notify("tick", (1,)).await.unwrap();
    let (_, mut waits) = old.called().await;
    assert_eq!(client.ask("PUT", "/", &[], &new.body).await.status, 201);
    let (said, mut raw) = new.called().await;
    assert_eq!(said, tick(1).to_string());
    raw.answer(204).await;
    waits.answer(410).await;
    // Its connection ends, however that is.
    waits.rest().await;
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(client.post(&[], &add).await.json(), ok(1, json!(3)));
}

#[tokio::test]
async fn a_webhook_that_is_gone_ends_its_session() {
    let site = Site::with(private(), Config::default()).await;
    let hook = Hook::new().await;
    let _client = open(&site, &hook).await;
    site.peer().notify("tick", (1,)).await.unwrap();
    let (_, mut waits) = hook.called().await;
    waits.answer(410).await;
    eventually("it has ended", || site.server.peers().is_empty()).await;
}

#[tokio::test]
async fn a_session_with_a_webhook_expires_and_says_so() {
    let mut options = private();
    options.session_timeout = Some(ms(100));
    let site = Site::with(options, Config::default()).await;
    let hook = Hook::new().await;
    let mut client = open(&site, &hook).await;
    let (said, mut raw) = hook.called().await;
    assert_eq!(said, "", "the last delivery is empty");
    raw.answer(204).await;
    eventually("it has ended", || site.server.peers().is_empty()).await;
    client.send("HEAD", "/", &[], "").await;
    assert_eq!(client.raw.head().await.status, 404);
}

#[tokio::test]
async fn a_shutdown_waits_for_the_last_delivery() {
    let site = Site::with(private(), Config::default()).await;
    let hook = Hook::new().await;
    let _client = open(&site, &hook).await;
    let server = site.server.clone();
    let mut end = tokio::spawn(async move { server.shutdown(Duration::from_secs(600)).await });
    let (said, mut raw) = hook.called().await;
    assert_eq!(said, "");
    stays_pending("the end", &mut end).await;
    raw.answer(204).await;
    within(end).await.unwrap();
}

#[tokio::test]
async fn a_shutdown_waits_for_a_receiver_that_never_answers_to_its_limit_and_no_longer() {
    let site = Site::with(private(), Config::default()).await;
    let hook = Hook::new().await;
    let _client = open(&site, &hook).await;
    site.peer().notify("tick", (1,)).await.unwrap();
    let (_, _silent) = hook.called().await;
    let end = site.server.shutdown(ms(1000));
    let mut end = std::pin::pin!(end);
    stays_pending("the end", &mut end).await;
    within(end).await;
}

#[tokio::test]
async fn a_put_that_does_not_end_is_told_so() {
    let mut config = Config::default();
    config.message_timeout = Some(ms(100));
    let site = Site::with(private(), config).await;
    let mut raw = site.raw().await;
    // The rest of its body never comes.
    raw.send_part("PUT", "/", &[JSON], r#"{"url":"#, 100).await;
    assert_eq!(raw.head().await.status, 408);
}

#[tokio::test]
async fn a_webhook_begins_after_a_message_that_went_over_a_post() {
    let site = Site::with(private(), Config::default()).await;
    let mut client = site.open().await;
    let peer = site.peer();
    let mut events = site.listen(&client, None).await;
    peer.notify("tick", (1,)).await.unwrap();
    assert_eq!(events.event().await.unwrap().id, Some(1));
    drop(events);
    eventually("it is gone", || site.server.connections() == 2).await;
    let mut post = site.again(&client).await;
    let hold = call(1, "hold", json!([])).to_string();
    post.send("POST", "/", &[ACCEPT_BOTH], &hold).await;
    assert!(post.raw.head().await.is_stream());
    peer.notify("tick", (2,)).await.unwrap();
    assert_eq!(post.raw.event().await.unwrap().json(), tick(2));
    client
        .ask("GET", "/", &[ACCEPT_JSON, "Prefer: wait=0"], "")
        .await;
    peer.notify("tick", (3,)).await.unwrap();
    let page = client.poll(0).await.json();
    assert_eq!(page["cursor"], 3);
    let hook = Hook::new().await;
    let registered = client.ask("PUT", "/", &[], &hook.body).await;
    // A receiver takes no message with one missing before it.
    assert_eq!(registered.json()["cursor"], 2);
    assert_eq!(hook.called().await.0, tick(3).to_string());
}
