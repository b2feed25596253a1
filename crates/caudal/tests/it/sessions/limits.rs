//! What a session may hold.

use super::*;

#[tokio::test]
async fn whoever_sends_waits_for_a_client_that_does_not_read() {
    for share in [false, true] {
        let (mut options, mut config) = (Options::default(), Config::default());
        // So much waits in the session if it may, and a little in its peer.
        config.output = 500_000;
        options.session_bytes = if share { 10_000 } else { 1 << 30 };
        let most = if share { 100 } else { 600 };
        let site = Site::with(options, config).await;
        let mut client = site.open_polling().await;
        let peer = site.peer();
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let text = "x".repeat(1000);
        let mut sender = tokio::spawn(async move {
            for _ in 0..3_000 {
                peer.notify("tick", (&text,)).await.unwrap();
                counter.fetch_add(1, SeqCst);
            }
        });
        // It comes to a halt, and stays so.
        stays_pending("it never waits", &mut sender).await;
        let halted = sent.load(SeqCst);
        assert!(halted < most, "{halted} KB have gone somewhere");
        let mut cursor = 0;
        while cursor < 3_000 {
            let reply = client.poll(cursor).await;
            assert_eq!(reply.status, 200);
            cursor = reply.json()["cursor"].as_u64().unwrap();
        }
        within(sender).await.unwrap();
    }
}

#[tokio::test]
async fn an_event_stream_that_is_not_read_is_bounded_too() {
    let mut config = Config::default();
    config.output = 10_000;
    let site = Site::with(Options::default(), config).await;
    let client = site.open().await;
    let mut events = site.listen(&client, None).await;
    let peer = site.peer();
    let text = "x".repeat(100_000);
    let mut sender = tokio::spawn(async move {
        for _ in 0..300 {
            peer.notify("tick", (&text,)).await.unwrap();
        }
    });
    stays_pending("30 MB are in nobody's memory", &mut sender).await;
    for n in 1..=300 {
        assert_eq!(events.event().await.unwrap().id, Some(n));
    }
    within(sender).await.unwrap();
}

#[tokio::test]
async fn whoever_reads_no_events_does_not_keep_the_session() {
    let mut options = Options::default();
    (options.idle_timeout, options.header_timeout) = (ms(500), ms(500));
    options.session_timeout = Some(ms(3000));
    let site = Site::with(options, Config::default()).await;
    let client = site.open().await;
    let events = site.listen(&client, None).await;
    let peer = site.peer();
    let text = "x".repeat(1 << 20);
    // More than the system holds.
    within(async { while peer.notify("tick", (&text,)).await.is_ok() {} }).await;
    within(peer.closed()).await;
    drop(events);
}

#[tokio::test]
async fn what_waits_for_its_turn_in_a_peer_counts_too() {
    let mut options = Options::default();
    (options.session_bytes, options.sessions) = (10_000, 10);
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    assert_eq!(client.post(&[], &note("stay")).await.status, 202);
    let long = call(1, "hold", json!(["x".repeat(3_000)]));
    for _ in 0..3 {
        assert_eq!(client.post(&[ASYNC], &long).await.status, 202);
    }
    client.send("POST", "/", &[ASYNC], &long.to_string()).await;
    stays_pending("9 KB wait, and 3 more have come in", client.raw.reply()).await;
    // Each has a share for itself, and no more.
    let mut other = site.open().await;
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(other.post(&[], &add).await.json(), ok(1, json!(3)));
    assert_eq!(other.post(&[], &note("stay")).await.status, 202);
    let short = call(2, "hold", json!(["x".repeat(600)]));
    assert_eq!(other.post(&[ASYNC], &short).await.status, 202);
    let mut again = site.again(&other).await;
    again.send("POST", "/", &[ASYNC], &short.to_string()).await;
    stays_pending(
        "the share is taken, and more has come in",
        again.raw.reply(),
    )
    .await;
    // An answer waits for nothing, and keeps nothing waiting.
    let answer = ok(77, json!("x".repeat(600)));
    assert_eq!(other.post(&[], &answer).await.status, 202);
    site.gate.add_permits(20);
    assert_eq!(client.raw.reply().await.status, 202);
    assert_eq!(again.raw.reply().await.status, 202);
    assert_eq!(client.post(&[ASYNC], &long).await.status, 202);
}

#[tokio::test]
async fn answers_that_http_cannot_send_count_too() {
    let (mut options, mut config) = (Options::default(), Config::default());
    options.session_bytes = 30 << 20;
    // No limit but that of all sessions.
    config.output = 1 << 30;
    let site = Site::with(options, config).await;
    let client = site.open().await;
    let large = call(1, "large", json!([12 << 20])).to_string();
    // More than the system holds.
    let mut unread = Vec::new();
    for _ in 0..2 {
        let mut one = site.again(&client).await;
        one.send("POST", "/", &[], &large).await;
        assert_eq!(within(one.raw.head()).await.status, 200);
        unread.push(one);
    }
    let mut late = site.again(&client).await;
    late.send("POST", "/", &[], &large).await;
    stays_pending("24 MB are there, and 12 more have come", late.raw.head()).await;
    // Others have their share.
    let mut other = site.open().await;
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(other.post(&[], &add).await.json(), ok(1, json!(3)));
    drop(unread);
    assert_eq!(within(late.raw.head()).await.status, 200);
}

#[tokio::test]
async fn a_poll_that_is_not_read_gives_way_to_the_next() {
    let mut config = Config::default();
    config.output = 1 << 20;
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open_polling().await;
    let large = call(1, "large", json!([12 << 20]));
    assert_eq!(client.post(&[ASYNC], &large).await.status, 202);
    // More than the system holds, over connections that may be cut for all we know.
    let mut unread = Vec::new();
    for _ in 0..3 {
        let mut one = site.again(&client).await;
        one.send("GET", "/", &[ACCEPT_JSON], "").await;
        assert_eq!(within(one.raw.head()).await.status, 200);
        unread.push(one);
    }
    let reply = within(client.poll(0)).await;
    assert_eq!(reply.status, 200);
    let messages = [ok(1, "x".repeat(12 << 20).into())];
    assert!(reply.json() == json!({"cursor": 1, "messages": messages}));
    // Nobody takes what was left of the others for a page.
    for one in &mut unread {
        assert!(within(one.raw.rest()).await < 12 << 20);
    }
    let at_once = [ACCEPT_JSON, "Prefer: wait=0"];
    let reply = client.ask("GET", "/?cursor=1", &at_once, "").await;
    assert_eq!(reply.status, 204, "it was the only one");
}

/// Trivial calls and one that waits: all answers wait for that one.
pub(super) fn slow_batch(first: i64) -> Value {
    let add = |id| call(id, "add", json!([id, 1]));
    let mut all: Vec<_> = (first..first + 999).map(add).collect();
    all.push(call(first + 999, "hold", json!([])));
    Value::Array(all)
}

fn slow_answer(first: i64) -> Value {
    let sum = |id| ok(id, json!(id + 1));
    let mut all: Vec<_> = (first..first + 999).map(sum).collect();
    all.push(ok(first + 999, json!("held")));
    Value::Array(all)
}

#[tokio::test]
async fn every_answer_finds_its_post_among_many_batches() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let firsts: Vec<_> = (1..=15).map(|place| place * 1000).collect();
    let mut open = Vec::new();
    for first in &firsts {
        let mut one = site.again(&client).await;
        let body = slow_batch(*first).to_string();
        one.send("POST", "/", &[], &body).await;
        open.push(one);
    }
    let server = site.server.clone();
    eventually("all run", || server.stats().in_flight == 15).await;
    let fast: Vec<_> = (1..1000)
        .map(|id| call(id, "add", json!([id, 1])))
        .collect();
    let sums: Vec<_> = (1..1000).map(|id| ok(id, json!(id + 1))).collect();
    let reply = client.post(&[], &Value::Array(fast)).await;
    assert_eq!(reply.json(), Value::Array(sums));
    let one = client.post(&[], &call(1000, "add", json!([1, 2]))).await;
    assert_eq!(one.json(), ok(1000, json!(3)), "that of a batch is another");
    site.gate.add_permits(15);
    for (one, first) in open.iter_mut().zip(firsts) {
        assert_eq!(one.raw.reply().await.json(), slow_answer(first));
    }
}

#[tokio::test]
async fn what_waits_on_posts_is_bounded() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut open = Vec::new();
    let refused = loop {
        assert!(open.len() < 20, "20,000 ids wait");
        let first = (open.len() as i64 + 1) * 1000;
        let mut one = site.again(&client).await;
        let body = slow_batch(first).to_string();
        one.send("POST", "/", &[], &body).await;
        // It is refused, or it runs.
        tokio::select! {
            reply = one.raw.reply() => break reply,
            () = eventually("it runs", || site.running() > open.len()) => {}
        }
        open.push((one, first));
    };
    assert!(open.len() > 4, "{} were too many", open.len());
    assert_eq!(refused.status, 200);
    let refused = refused.json();
    assert_eq!(refused.as_array().unwrap().len(), 1000);
    for answer in refused.as_array().unwrap() {
        assert_eq!(answer["error"]["code"], -32000);
        assert_eq!(answer["error"]["message"], "Server overloaded");
    }
    // Nothing of it has run, and all else goes on.
    assert_eq!(site.server.stats().in_flight, open.len() as u64);
    assert_eq!(client.post(&[], &note("note")).await.status, 202);
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(client.post(&[ASYNC], &add).await.status, 202);
    let mut other = site.open().await;
    assert_eq!(other.post(&[], &add).await.json(), ok(1, json!(3)));
    site.gate.add_permits(open.len() + 1);
    for (one, first) in &mut open {
        assert_eq!(one.raw.reply().await.json(), slow_answer(*first));
    }
    let reply = client.post(&[], &slow_batch(1000)).await;
    assert_eq!(reply.json(), slow_answer(1000));
}

#[tokio::test]
async fn so_many_posts_wait_and_others_are_told_to_come_later() {
    let mut config = Config::default();
    config.queue = 100_000;
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    assert_eq!(client.post(&[], &note("stay")).await.status, 202);
    let long = call(1, "hold", json!(["x".repeat(40_000)])).to_string();
    let mut posts = Vec::new();
    for _ in 0..16 {
        let mut one = site.again(&client).await;
        one.send("POST", "/", &[ASYNC], &long).await;
        posts.push(tokio::spawn(async move { one.raw.reply().await }));
    }
    eventually("some are told", || {
        posts.iter().filter(|post| post.is_finished()).count() >= 12
    })
    .await;
    site.gate.add_permits(50);
    let mut refused = 0;
    for post in posts {
        let reply = within(post).await.unwrap();
        if reply.status == 503 {
            assert_eq!(reply.header("retry-after"), Some("1"));
            refused += 1;
        } else {
            assert_eq!(reply.status, 202);
        }
    }
    // Two are in the session, and two wait.
    assert_eq!(refused, 12);
}

#[tokio::test]
async fn a_stream_that_is_not_read_gives_way_to_the_next() {
    let mut config = Config::default();
    config.output = 1 << 20;
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let large = call(1, "large", json!([12 << 20]));
    assert_eq!(client.post(&[ASYNC], &large).await.status, 202);
    let data = ok(1, "x".repeat(12 << 20).into());
    let last = format!("Last-Event-ID: {}.0", client.session);
    // Whether the client names the session or the last event does, or neither.
    for is_named in [true, false] {
        let mut unread = site.listen(&client, None).await;
        tokio::time::sleep(ms(300)).await;
        let mut next = match is_named {
            true => site.listen(&client, None).await,
            false => {
                let mut next = site.raw().await;
                next.send("GET", "/", &[ACCEPT_EVENTS, &last], "").await;
                assert_eq!(within(next.head()).await.status, 200);
                assert_eq!(next.block().await.unwrap(), "retry: 1000");
                next
            }
        };
        assert_eq!(within(unread.event()).await, None, "it ends, and is none");
        let event = within(next.event()).await.unwrap();
        assert!(event.json() == data, "it comes whole");
    }
}

#[tokio::test]
async fn answers_that_nobody_takes_keep_nobody_from_listening() {
    let mut config = Config::default();
    config.output = 1 << 20;
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let large = call(1, "large", json!([12 << 20])).to_string();
    // More than the system holds.
    let mut unread = site.again(&client).await;
    unread.send("POST", "/", &[], &large).await;
    assert_eq!(within(unread.raw.head()).await.status, 200);
    let mut events = site.listen(&client, None).await;
    let add = call(2, "add", json!([1, 2]));
    assert_eq!(client.post(&[ASYNC], &add).await.status, 202);
    assert_eq!(
        within(events.event()).await.unwrap().json(),
        ok(2, json!(3))
    );
}

#[tokio::test]
async fn who_was_cut_listens_again_however_much_all_sessions_hold() {
    let mut options = Options::default();
    options.session_bytes = 1 << 20;
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    let large = call(1, "large", json!([12 << 20]));
    assert_eq!(client.post(&[ASYNC], &large).await.status, 202);
    let data = ok(1, "x".repeat(12 << 20).into());
    let _unread = site.listen(&client, None).await;
    tokio::time::sleep(ms(300)).await;
    let mut next = site.listen(&client, None).await;
    let event = within(next.event()).await.unwrap();
    assert!(event.json() == data, "it comes whole");
}

#[tokio::test]
async fn who_was_cut_listens_again_however_little_may_wait() {
    let mut config = Config::default();
    config.output = 32_000;
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let large = call(1, "large", json!([12 << 20]));
    assert_eq!(client.post(&[ASYNC], &large).await.status, 202);
    let _unread = site.listen(&client, None).await;
    tokio::time::sleep(ms(300)).await;
    let mut next = site.listen(&client, None).await;
    assert_eq!(within(next.event()).await.unwrap().id, Some(1));
}
