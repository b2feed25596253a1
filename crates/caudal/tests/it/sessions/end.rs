//! How sessions end, and what is not lost then.

use super::*;

#[tokio::test]
async fn a_shutdown_loses_no_answer() {
    let site = Site::new().await;
    let mut streams = site.open().await;
    let mut events = site.listen(&streams, None).await;
    let mut polls = site.open_polling().await;
    let mut waits = site.open().await;
    let mut late = site.open().await;
    let (hold, server) = (call(1, "hold", json!([])), site.server.clone());
    assert_eq!(streams.post(&[ASYNC], &hold).await.status, 202);
    let mut posts = site.again(&polls).await;
    for _ in 0..2 {
        assert_eq!(posts.post(&[ASYNC], &hold).await.status, 202);
    }
    polls.send("GET", "/", &[ACCEPT_JSON], "").await;
    waits
        .send("POST", "/", &[ACCEPT_JSON], &hold.to_string())
        .await;
    late.send("POST", "/", &[ACCEPT_BOTH], &hold.to_string())
        .await;
    assert!(late.raw.head().await.is_stream());
    eventually("all run", || server.stats().in_flight == 5).await;
    let end = tokio::spawn(async move { server.shutdown(Duration::from_secs(20)).await });
    events.silence().await;
    polls.raw.silence().await;
    site.gate.add_permits(5);
    let held = ok(1, json!("held"));
    assert_eq!(events.event().await.unwrap().json(), held);
    assert_eq!(events.event().await, None);
    assert_eq!(waits.raw.reply().await.json(), held);
    assert_eq!(late.raw.event().await.unwrap().json(), held);
    assert_eq!(late.raw.event().await, None);
    let mut page = polls.raw.reply().await.json();
    if page["cursor"] == 1 {
        assert_eq!(page, json!({"cursor": 1, "messages": [held]}));
        page = site.again(&polls).await.poll(1).await.json();
        assert_eq!(page, json!({"cursor": 2, "messages": [held]}));
    } else {
        assert_eq!(page, json!({"cursor": 2, "messages": [held, held]}));
    }
    within(end).await.unwrap();
}

/// Nobody waits for an answer to what is not sent.
#[tokio::test]
async fn a_handler_may_call_a_client_that_polls_while_the_server_stops() {
    let site = Site::new().await;
    let mut polls = site.open_polling().await;
    let mut posts = site.again(&polls).await;
    let ask = call(1, "ask_later", json!([]));
    assert_eq!(posts.post(&[ASYNC], &ask).await.status, 202);
    polls.send("GET", "/", &[ACCEPT_JSON], "").await;
    polls.raw.silence().await;
    let server = site.server.clone();
    eventually("it runs", || server.stats().in_flight == 1).await;
    let end = tokio::spawn(async move { server.shutdown(Duration::from_secs(20)).await });
    polls.raw.silence().await;
    site.gate.add_permits(1);
    let page = polls.raw.reply().await.json();
    assert_eq!(page["messages"][0]["method"], "question");
    let answer = json!({
        "jsonrpc": "2.0",
        "id": page["messages"][0]["id"],
        "result": "an answer",
    });
    let mut again = site.again(&polls).await;
    assert_eq!(again.post(&[], &answer).await.status, 202);
    let page = site.again(&polls).await.poll(1).await.json();
    assert_eq!(page["messages"], json!([ok(1, json!("an answer"))]));
    within(end).await.unwrap();
}

#[tokio::test]
async fn idle_sessions_do_not_hold_up_the_end() {
    let site = Site::new().await;
    let client = site.open().await;
    let mut polls = site.open_polling().await;
    polls.send("GET", "/", &[ACCEPT_JSON], "").await;
    let mut events = site.listen(&client, None).await;
    events.silence().await;
    within(site.server.shutdown(Duration::from_secs(600))).await;
    assert_eq!(events.event().await, None);
    assert_eq!(polls.raw.reply().await.status, 410);
}

/// Ends a server.
fn shut_down(site: &Site, limit: Duration) -> tokio::task::JoinHandle<()> {
    let server = site.server.clone();
    tokio::spawn(async move { server.shutdown(limit).await })
}

/// Ends a server while a request of this client runs, which is then answered.
pub(super) async fn answer_at_the_end(
    site: &Site,
    client: &Client,
    limit: Duration,
) -> tokio::task::JoinHandle<()> {
    let hold = call(1, "hold", json!([]));
    let mut posts = site.again(client).await;
    assert_eq!(posts.post(&[ASYNC], &hold).await.status, 202);
    let server = site.server.clone();
    eventually("it runs", || server.stats().in_flight == 1).await;
    let peer = site.peer();
    let end = shut_down(site, limit);
    eventually("it ends", || is_draining(&peer)).await;
    site.gate.add_permits(1);
    eventually("it is done", || server.stats().in_flight == 0).await;
    end
}

#[tokio::test]
async fn what_a_poll_has_lost_comes_again_while_the_server_stops() {
    let site = Site::new().await;
    let mut client = site.open_polling().await;
    client.send("GET", "/", &[ACCEPT_JSON], "").await;
    client.raw.silence().await;
    let end = answer_at_the_end(&site, &client, Duration::from_secs(20)).await;
    let held = json!({"cursor": 1, "messages": [ok(1, json!("held"))]});
    assert_eq!(client.raw.reply().await.json(), held);
    for _ in 0..3 {
        assert_eq!(site.again(&client).await.poll(0).await.json(), held);
    }
    assert_eq!(site.again(&client).await.poll(1).await.status, 410);
    within(end).await.unwrap();
}

#[tokio::test]
async fn an_event_stream_that_was_cut_may_be_taken_up_while_the_server_stops() {
    let site = Site::new().await;
    let client = site.open().await;
    drop(site.listen(&client, None).await);
    let end = answer_at_the_end(&site, &client, Duration::from_secs(20)).await;
    let mut events = site.listen(&client, Some(0)).await;
    let held = events.event().await.unwrap();
    assert_eq!(held.json(), ok(1, json!("held")));
    assert_eq!(events.event().await, None);
    within(end).await.unwrap();
}

#[tokio::test]
async fn whoever_comes_late_and_says_nothing_does_not_hold_up_the_end() {
    let mut options = Options::default();
    options.header_timeout = Duration::from_secs(3600);
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    // While this runs, the server takes connections in.
    let held = client.post(&[ASYNC], &call(1, "hold", json!([]))).await;
    assert_eq!(held.status, 202);
    let peer = site.peer();
    let end = shut_down(&site, ms(2000));
    eventually("it ends", || is_draining(&peer)).await;
    let _silent = site.raw().await;
    within(end).await.unwrap();
}

#[tokio::test]
async fn when_the_application_closes_a_session_its_streams_end() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    let hold = call(1, "hold", json!([])).to_string();
    let mut waits = site.again(&client).await;
    waits.send("POST", "/", &[], &hold).await;
    let peer = site.peer();
    eventually("it runs", || peer.stats().in_flight == 1).await;
    peer.notify("tick", (1,)).await.unwrap();
    peer.close();
    assert_eq!(events.event().await.unwrap().json(), tick(1));
    assert_eq!(events.event().await, None);
    assert_eq!(waits.raw.reply().await.status, 404);
    assert_eq!(client.poll(0).await.status, 404);
}

#[tokio::test]
async fn no_session_is_opened_while_the_server_stops() {
    let http = Http::new(router(&Arc::new(Semaphore::new(0)), &Arc::default()));
    let request = |verb: &str, accept: &str| {
        let request = http::Request::builder()
            .method(verb)
            .uri("http://localhost/")
            .header("accept", accept);
        match verb {
            "POST" => request
                .header("content-type", "application/json")
                .body(INITIALIZE.to_owned()),
            _ => request.body(String::new()),
        }
        .unwrap()
    };
    let opened = http.answer(request("POST", "application/json")).await;
    assert_eq!(opened.status(), 200);
    assert_eq!(http.peers().len(), 1);
    within(http.shutdown(Duration::from_secs(20))).await;
    for (verb, accept) in [
        ("POST", "application/json"),
        ("GET", "application/json"),
        ("GET", "text/event-stream"),
    ] {
        let refused = http.answer(request(verb, accept)).await;
        assert_eq!(refused.status(), 503, "{verb} {accept}");
    }
}

#[tokio::test]
async fn sessions_end_with_the_service() {
    let http = Http::new(router(&Arc::new(Semaphore::new(0)), &Arc::default()));
    let request = http::Request::get("http://localhost/")
        .header("accept", "application/json")
        .body(String::new())
        .unwrap();
    let opened = http.answer(request).await;
    assert_eq!(opened.status(), 200);
    let peer = http.peers().pop().unwrap();
    assert!(!peer.state().is_closed());
    drop(http);
    eventually("it is closed", || peer.state().is_closed()).await;
}

#[tokio::test]
async fn requests_that_were_accepted_and_have_not_begun_are_answered_at_the_end() {
    let mut config = Config::default();
    config.in_flight = 1;
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    assert_eq!(client.post(&[], &note("stay")).await.status, 202);
    for id in 1..=5 {
        let add = call(id, "add", json!([id, 1]));
        assert_eq!(client.post(&[ASYNC], &add).await.status, 202);
    }
    let mut waits = site.again(&client).await;
    let add = call(6, "add", json!([6, 1])).to_string();
    waits.send("POST", "/", &[], &add).await;
    waits.raw.silence().await;
    let end = shut_down(&site, ms(300));
    let refused = |id: i64| {
        let error = json!({"code": -32010, "message": "Server is shutting down"});
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    };
    let mut last = Value::Null;
    while let Some(event) = events.event().await {
        if !event.data.is_empty() {
            last = event.json();
        }
    }
    assert_eq!(last, refused(5));
    assert_eq!(waits.raw.reply().await.json(), refused(6));
    within(end).await.unwrap();
}
