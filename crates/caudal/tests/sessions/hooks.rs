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
    tokio::time::sleep(ms(100)).await;
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
