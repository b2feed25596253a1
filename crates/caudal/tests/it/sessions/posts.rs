//! The client's messages: POSTs in a session.

use super::*;

#[tokio::test]
async fn what_wants_no_answer_is_accepted() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let bodies = [
        note("note"),
        json!([note("note"), note("note")]),
        ok(77, json!("nobody asked")),
        json!({"jsonrpc": "2.0", "id": 77, "result": 1, "error": {"code": 1, "message": ""}}),
    ];
    for body in bodies {
        let reply = client.post(&[ASYNC], &body).await;
        assert_eq!((reply.status, &*reply.body), (202, ""), "{body}");
        assert_eq!(reply.header("preference-applied"), None);
    }
    eventually("three notes", || site.notes.load(SeqCst) == 3).await;
}

#[tokio::test]
async fn answers_that_nobody_waits_for_come_among_the_messages_in_order() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    let reply = client.post(&[ASYNC], &call(1, "count", json!([2]))).await;
    assert_eq!(reply.status, 202);
    assert_eq!(reply.header("preference-applied"), Some("respond-async"));
    for (id, message) in [(1, tick(1)), (2, tick(2)), (3, ok(1, json!(2)))] {
        let event = events.event().await.unwrap();
        assert_eq!((event.id, event.json()), (Some(id), message));
    }
    let batch = json!([call(2, "add", json!([1, 1])), note("note")]);
    assert_eq!(client.post(&[ASYNC], &batch).await.status, 202);
    let event = events.event().await.unwrap();
    assert_eq!(event.json(), json!([ok(2, json!(2))]));
}

/// Proves: J27
#[tokio::test]
async fn the_application_chooses_the_status_of_answers_in_a_session() {
    let mut options = Options::default();
    options.status = Some(Arc::new(|reply: caudal::http::Reply<'_>| {
        match reply.error_code() {
            Some(-32601) => StatusCode::NOT_FOUND,
            Some(_) => StatusCode::BAD_REQUEST,
            None => reply.default_status(),
        }
    }));
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    for (body, status) in [
        (&*call(1, "add", json!([1, 2])).to_string(), 200),
        (&*call(2, "add", json!(["x"])).to_string(), 400),
        ("{", 400),
        // 404 would say that there is no such session.
        (&*call(3, "nothing", json!([])).to_string(), 200),
        // What is accepted is not answered.
        (&*note("note").to_string(), 202),
    ] {
        let reply = client.ask("POST", "/", &[], body).await;
        assert_eq!(reply.status, status, "{body}");
    }
}

#[tokio::test]
async fn what_is_no_message_is_answered_where_it_came() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut events = site.listen(&client, None).await;
    for (body, code) in [
        ("{", -32700),
        ("", -32700),
        ("[]", -32600),
        ("1", -32600),
        (r#"{"jsonrpc":"2.0","id":[],"method":"add"}"#, -32600),
    ] {
        for prefer in [ASYNC, "X: y"] {
            let reply = client.ask("POST", "/", &[prefer], body).await;
            assert_eq!(reply.status, 200, "{body}");
            assert_eq!(reply.json()["error"]["code"], code, "{body}");
            assert_eq!(reply.json()["id"], Value::Null, "{body}");
        }
    }
    let reply = client.ask("POST", "/", &[], "[1, 2]").await.json();
    assert_eq!(reply.as_array().unwrap().len(), 2);
    assert_eq!(reply[1]["error"]["code"], -32600);
    let mixed = json!([7, call(3, "add", json!([1, 2])), note("note")]);
    let reply = client.post(&[], &mixed).await.json();
    assert_eq!(reply[0]["error"]["code"], -32600);
    assert_eq!(reply[1], ok(3, json!(3)));
    let null = r#"{"jsonrpc":"2.0","id":null,"method":"add","params":[1,2]}"#;
    let reply = client.ask("POST", "/", &[], null).await.json();
    assert_eq!(reply, json!({"jsonrpc": "2.0", "id": null, "result": 3}));
    events.silence().await;
}

#[tokio::test]
async fn an_id_is_known_by_its_text() {
    let site = Site::new().await;
    let mut client = site.open().await;
    for id in [
        "1.0",
        "1e2",
        "18446744073709551616",
        r#""\u0061""#,
        r#""a""#,
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"add","params":[1,2]}}"#);
        let reply = client.ask("POST", "/", &[], &text).await;
        assert_eq!(
            reply.body,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":3}}"#)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_many_posts_gets_its_own_answer() {
    let site = Site::new().await;
    let client = site.open().await;
    let mut tasks = Vec::new();
    for i in 0..20 {
        let mut other = site.again(&client).await;
        tasks.push(tokio::spawn(async move {
            for j in 0..20 {
                // Ids of one digit are in use many times at once.
                let id = if i % 2 == 0 { j } else { i * 1000 + j };
                let accept = [ACCEPT_JSON, ACCEPT_BOTH][(i % 3 == 0) as usize];
                let reply = other
                    .post(&[accept], &call(id, "add", json!([id, id])))
                    .await;
                assert_eq!(reply.answer(), ok(id, json!(2 * id)));
            }
        }));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
}

#[tokio::test]
async fn a_late_answer_is_the_end_of_an_event_stream() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let hold = call(1, "hold", json!([])).to_string();
    client.send("POST", "/", &[ACCEPT_BOTH], &hold).await;
    let head = client.raw.head().await;
    assert!(head.is_stream());
    assert_eq!(head.header("cache-control"), Some("no-store"));
    assert_eq!(head.header("x-accel-buffering"), Some("no"));
    site.gate.add_permits(1);
    let event = client.raw.event().await.unwrap();
    assert_eq!((event.id, event.json()), (None, ok(1, json!("held"))));
    assert_eq!(client.raw.event().await, None);
    // Who does not accept events waits for JSON.
    client.send("POST", "/", &[ACCEPT_JSON], &hold).await;
    client.raw.silence().await;
    site.gate.add_permits(1);
    assert_eq!(client.raw.reply().await.json(), ok(1, json!("held")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_said_before_an_answer_comes_before_it() {
    let site = Site::new().await;
    let mut client = site.open().await;
    for _ in 0..20 {
        let count = call(1, "count", json!([50])).to_string();
        client.send("POST", "/", &[ACCEPT_BOTH], &count).await;
        assert!(client.raw.head().await.is_stream());
        for n in 1..=50 {
            let event = client.raw.event().await.unwrap();
            // A client would take a number for a promise that the stream of this
            // POST can be taken up again.
            assert_eq!((event.id, event.json()), (None, tick(n)));
        }
        let event = client.raw.event().await.unwrap();
        assert_eq!(event.json(), ok(1, json!(50)));
        assert_eq!(client.raw.event().await, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_keeps_its_order_though_nobody_reads_it_for_a_while() {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    // More than the system holds, and more than waits for its own stream.
    let params = json!({"_meta": {"progressToken": 1}, "steps": 12_000, "size": 1000});
    let work = call(1, "work", params).to_string();
    client.send("POST", "/", &[ACCEPT_BOTH], &work).await;
    tokio::time::sleep(ms(1500)).await;
    assert!(client.raw.head().await.is_stream());
    let mut last = 0;
    while let Some(event) = client.raw.event().await {
        if let Some(step) = event.json()["params"]["progress"].as_u64() {
            assert!(step > last, "{step} came after {last}");
            last = step;
        }
    }
    assert!(last > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_comes_in_order_with_what_else_is_said_on_its_stream() {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let hold = call(1, "hold", json!({"_meta": {"progressToken": 1}}));
    client
        .send("POST", "/", &[ACCEPT_BOTH], &hold.to_string())
        .await;
    assert!(client.raw.head().await.is_stream());
    let peer = site.peer();
    let told = tokio::spawn(async move {
        for n in 1..=2000 {
            peer.notify("tick", (n,)).await.unwrap();
            let report = json!({"progressToken": 1, "progress": n});
            peer.notify("notifications/progress", report).await.unwrap();
        }
    });
    for n in 1..=2000 {
        assert_eq!(client.raw.event().await.unwrap().json(), tick(n));
        let report = client.raw.event().await.unwrap().json();
        assert_eq!(report["params"]["progress"], n, "{report}");
    }
    told.await.unwrap();
    site.gate.add_permits(1);
    let event = client.raw.event().await.unwrap();
    assert_eq!(event.json(), ok(1, json!("held")));
}

/// A client forgets the token with the answer, so progress that came on another
/// connection would be lost when it is late.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn progress_comes_before_the_answer_also_beside_a_stream() {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let site = Site::with(Options::default(), config).await;
    let client = site.open().await;
    let mut events = site.listen(&client, None).await;
    let mut tasks = Vec::new();
    for (n, token) in [json!(1), json!("1"), json!("a")].into_iter().enumerate() {
        let mut client = site.again(&client).await;
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let id = n as i64;
                let work = call(id, "work", json!({"_meta": {"progressToken": token}}));
                let work = work.to_string();
                client.send("POST", "/", &[ACCEPT_BOTH], &work).await;
                assert!(client.raw.head().await.is_stream());
                for step in 1..=3 {
                    let event = client.raw.event().await.unwrap();
                    let params = json!({"progressToken": token, "progress": step});
                    assert_eq!((event.id, &event.json()["params"]), (None, &params));
                }
                let event = client.raw.event().await.unwrap();
                assert_eq!(event.json(), ok(id, json!("worked")));
                assert_eq!(client.raw.event().await, None);
            }
        }));
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    // All else goes its usual way,
    for n in 1..=30 {
        let event = events.event().await.unwrap();
        assert_eq!((event.id, event.json()), (Some(n), tick(9)));
    }
    // and so does progress where the answer is to be JSON.
    let mut client = site.again(&client).await;
    let work = call(5, "work", json!({"_meta": {"progressToken": 1}}));
    let reply = client.post(&[ACCEPT_JSON], &work).await;
    assert_eq!(reply.json(), ok(5, json!("worked")));
    for step in 1..=3 {
        let event = events.event().await.unwrap();
        assert_eq!(event.json()["params"]["progress"], step);
        assert_eq!(event.id, Some(30 + step));
    }
}

#[tokio::test]
async fn progress_of_a_post_that_is_gone_comes_among_the_messages() {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let hold = json!({"_meta": {"progressToken": 1}});
    let hold = json!({"jsonrpc": "2.0", "id": 1, "method": "hold", "params": hold});
    let mut other = site.again(&client).await;
    other
        .send("POST", "/", &[ACCEPT_BOTH], &hold.to_string())
        .await;
    assert!(other.raw.head().await.is_stream());
    let report = |step: u64| json!({"progressToken": 1, "progress": step});
    let peer = site.peer();
    peer.notify("notifications/progress", report(1))
        .await
        .unwrap();
    assert_eq!(other.raw.event().await.unwrap().json()["params"], report(1));
    drop(other);
    eventually("it is gone", || site.server.connections() == 2).await;
    peer.notify("notifications/progress", report(2))
        .await
        .unwrap();
    let mut events = site.listen(&client, None).await;
    let event = events.event().await.unwrap();
    assert_eq!((event.id, &event.json()["params"]), (Some(1), &report(2)));
    assert_eq!(client.post(&[], &note("note")).await.status, 202);
}

#[tokio::test]
async fn a_handler_calls_its_caller_back() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let mut other = site.again(&client).await;
    let ask = json!({"jsonrpc": "2.0", "id": 5, "method": "ask"});
    // Over the POST itself,
    client
        .send("POST", "/", &[ACCEPT_BOTH], &ask.to_string())
        .await;
    assert!(client.raw.head().await.is_stream());
    let question = client.raw.event().await.unwrap().json();
    assert_eq!(question["method"], "question");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": "yes"});
    assert_eq!(other.post(&[], &answer).await.status, 202);
    assert_eq!(
        client.raw.event().await.unwrap().json(),
        ok(5, json!("yes"))
    );
    assert_eq!(client.raw.event().await, None);
    // and over the stream, if there is one.
    let mut events = site.listen(&client, None).await;
    client
        .send("POST", "/", &[ACCEPT_BOTH], &ask.to_string())
        .await;
    let question = events.event().await.unwrap().json();
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": "no"});
    assert_eq!(other.post(&[], &answer).await.status, 202);
    let reply = client.raw.head().await;
    match reply.is_stream() {
        true => assert_eq!(client.raw.event().await.unwrap().json(), ok(5, json!("no"))),
        false => assert_eq!(reply.status, 200),
    }
    events.silence().await;
}

#[tokio::test]
async fn a_stream_takes_over_from_a_post_and_gives_back() {
    let site = Site::new().await;
    let mut client = site.open().await;
    let hold = call(1, "hold", json!([])).to_string();
    client.send("POST", "/", &[ACCEPT_BOTH], &hold).await;
    assert!(client.raw.head().await.is_stream());
    let peer = site.peer();
    peer.notify("tick", (1,)).await.unwrap();
    assert_eq!(client.raw.event().await.unwrap().json(), tick(1));
    let mut events = site.listen(&client, None).await;
    peer.notify("tick", (2,)).await.unwrap();
    assert_eq!(events.event().await.unwrap().json(), tick(2));
    drop(events);
    eventually("messages go over the POST again", || {
        site.server.connections() == 2
    })
    .await;
    peer.notify("tick", (3,)).await.unwrap();
    let event = client.raw.event().await.unwrap();
    assert_eq!((event.id, event.json()), (None, tick(3)));
    // It does not come again on the stream, which had the second one last.
    let mut events = site.listen(&client, Some(2)).await;
    peer.notify("tick", (4,)).await.unwrap();
    let event = events.event().await.unwrap();
    assert_eq!((event.id, event.json()), (Some(4), tick(4)));
    site.gate.add_permits(1);
    assert_eq!(
        client.raw.event().await.unwrap().json(),
        ok(1, json!("held"))
    );
}

#[tokio::test]
async fn the_answer_to_a_post_that_is_gone_is_not_lost() {
    let site = Site::new().await;
    let client = site.open().await;
    let hold = call(1, "hold", json!([])).to_string();
    for accept in [ACCEPT_JSON, ACCEPT_BOTH] {
        let mut gone = site.again(&client).await;
        gone.send("POST", "/", &[accept], &hold).await;
        let peer = site.peer();
        eventually("it runs", || peer.stats().in_flight == 1).await;
        if accept == ACCEPT_BOTH {
            assert!(gone.raw.head().await.is_stream());
        }
        drop(gone);
        eventually("it is gone", || site.server.connections() == 2).await;
        let mut events = site.listen(&client, None).await;
        site.gate.add_permits(1);
        assert_eq!(events.event().await.unwrap().json(), ok(1, json!("held")));
        drop(events);
        eventually("it is gone", || site.server.connections() == 2).await;
    }
}

fn cancel(id: i64) -> Value {
    let params = json!({"requestId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

#[tokio::test]
async fn a_post_whose_request_is_cancelled_without_an_answer_ends() {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let mut other = site.again(&client).await;
    for accept in [ACCEPT_JSON, ACCEPT_BOTH] {
        let hold = call(9, "hold", json!([])).to_string();
        client.send("POST", "/", &[accept], &hold).await;
        match accept {
            ACCEPT_BOTH => assert!(client.raw.head().await.is_stream()),
            _ => client.raw.silence().await,
        }
        assert_eq!(other.post(&[], &cancel(9)).await.status, 202);
        match accept {
            ACCEPT_BOTH => assert_eq!(client.raw.event().await, None),
            _ => assert_eq!(client.raw.reply().await.status, 204),
        }
    }
}

#[tokio::test]
async fn so_does_one_whose_requests_are_all_cancelled_in_whatever_way() {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let (mut twin, mut other) = (site.again(&client).await, site.again(&client).await);
    let hold = |id| call(id, "hold", json!([]));
    let batch = json!([hold(8), hold(9)]).to_string();
    // One by one,
    client.send("POST", "/", &[], &batch).await;
    client.raw.silence().await;
    assert_eq!(other.post(&[], &cancel(8)).await.status, 202);
    client.raw.silence().await;
    assert_eq!(other.post(&[], &cancel(9)).await.status, 202);
    assert_eq!(client.raw.reply().await.status, 204);
    // at once,
    client.send("POST", "/", &[], &batch).await;
    client.raw.silence().await;
    let both = json!([cancel(8), note("note"), cancel(9)]);
    assert_eq!(other.post(&[], &both).await.status, 202);
    assert_eq!(client.raw.reply().await.status, 204);
    // with the requests themselves,
    let own = json!([hold(8), cancel(8)]);
    assert_eq!(client.post(&[], &own).await.status, 204);
    // or with others of the same id.
    client.send("POST", "/", &[], &hold(8).to_string()).await;
    twin.send("POST", "/", &[], &hold(8).to_string()).await;
    let peer = site.peer();
    eventually("both run", || peer.stats().in_flight == 2).await;
    assert_eq!(other.post(&[], &cancel(8)).await.status, 202);
    assert_eq!(client.raw.reply().await.status, 204);
    assert_eq!(twin.raw.reply().await.status, 204);
}

#[tokio::test]
async fn what_is_left_of_a_batch_is_answered_where_it_came() {
    let mut config = Config::default();
    config.dialect = Dialect::mcp();
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let mut other = site.again(&client).await;
    for (left, answer) in [
        (call(7, "add", json!([1, 2])), ok(7, json!(3))),
        // It has no id.
        (json!(7), Value::Null),
    ] {
        let batch = json!([call(8, "hold", json!([])), left]).to_string();
        client.send("POST", "/", &[], &batch).await;
        client.raw.silence().await;
        assert_eq!(other.post(&[], &cancel(8)).await.status, 202);
        let reply = client.raw.reply().await.json();
        assert_eq!(reply.as_array().unwrap().len(), 1, "{reply}");
        match answer {
            Value::Null => assert_eq!(reply[0]["error"]["code"], -32600),
            answer => assert_eq!(reply[0], answer),
        }
    }
}

#[tokio::test]
async fn posts_wait_while_too_much_is_before_them() {
    let mut config = Config::default();
    config.queue = 200;
    config.in_flight = 1;
    let site = Site::with(Options::default(), config).await;
    let mut client = site.open().await;
    let mut raws = Vec::new();
    // The first runs; so many are told that there is no room, and none is lost.
    for i in 0..20 {
        let mut other = site.again(&client).await;
        let hold = call(i, "hold", json!([])).to_string();
        other.send("POST", "/", &[], &hold).await;
        raws.push(other);
    }
    let peer = site.peer();
    eventually("all others are refused", || peer.stats().overloaded == 19).await;
    site.gate.add_permits(1);
    let mut held = 0;
    for (i, other) in raws.iter_mut().enumerate() {
        let reply = other.raw.reply().await.json();
        assert_eq!(reply["id"], i);
        match reply["error"]["code"].as_i64() {
            None => held += 1,
            code => assert_eq!(code, Some(-32000)),
        }
    }
    assert_eq!(held, 1);
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(client.post(&[], &add).await.json(), ok(1, json!(3)));
}

/// A GET takes the messages over, and gives them back when it is gone.
#[tokio::test]
async fn a_post_hears_the_rest_again_when_a_stream_is_gone() {
    let mut options = Options::default();
    // Nothing else wakes the stream.
    options.keep_alive = None;
    let site = Site::with(options, Config::default()).await;
    let mut client = site.open().await;
    let hold = call(1, "hold", json!([])).to_string();
    client.send("POST", "/", &[ACCEPT_BOTH], &hold).await;
    assert!(client.raw.head().await.is_stream());
    let peer = site.peer();
    peer.notify("tick", (1,)).await.unwrap();
    assert_eq!(client.raw.event().await.unwrap().json(), tick(1));
    let mut events = site.listen(&client, None).await;
    peer.notify("tick", (2,)).await.unwrap();
    assert_eq!(events.event().await.unwrap().json(), tick(2));
    drop(events);
    // It may go into the stream that is about to end.
    tokio::time::sleep(ms(300)).await;
    peer.notify("tick", (3,)).await.unwrap();
    assert_eq!(client.raw.event().await.unwrap().json(), tick(3));
    site.gate.add_permits(1);
    assert_eq!(
        client.raw.event().await.unwrap().json(),
        ok(1, json!("held"))
    );
}

#[tokio::test]
async fn a_reply_finds_its_post_by_its_ids() {
    let site = Site::new().await;
    let client = site.open().await;
    let nameless = json!({"jsonrpc": "2.0", "id": null, "method": "hold", "params": []});
    let hold = call(1, "hold", json!([]));
    let mut posts = Vec::new();
    for body in [&hold, &nameless, &json!([hold, 7])] {
        let mut post = site.again(&client).await;
        post.send("POST", "/", &[], &body.to_string()).await;
        posts.push(post);
    }
    let server = site.server.clone();
    eventually("all run", || server.stats().in_flight == 3).await;
    // The reply to this one has no id but null, as a part of two others has.
    let mut invalid = site.again(&client).await;
    let reply = invalid.post(&[], &json!([7])).await.json();
    assert_eq!(reply[0]["error"]["code"], -32600);
    site.gate.add_permits(3);
    let held = |id: Value| json!({"jsonrpc": "2.0", "id": id, "result": "held"});
    assert_eq!(posts[0].raw.reply().await.json(), held(json!(1)));
    assert_eq!(posts[1].raw.reply().await.json(), held(Value::Null));
    let batch = posts[2].raw.reply().await.json();
    assert_eq!(batch.as_array().unwrap().len(), 2);
    assert!(batch[0] == held(json!(1)) || batch[1] == held(json!(1)));
}
