//! How long the end of a server waits for the client of a session: requests without
//! sockets, and a clock that moves by itself.

use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::service::{Service, text};
use super::*;

/// State of the client before the end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ClientState {
    Reads,
    HasListened,
    WasPromised,
    NeverListened,
    HasPolled,
    HasAcknowledged,
}

/// The table of docs/HTTP.md.
#[tokio::test(start_paused = true)]
async fn a_client_is_waited_for_as_long_as_it_may_still_come() {
    use ClientState::*;
    for limit in [0, 2000, 60_000] {
        for (client, time) in [
            (Reads, limit + 500),
            (HasListened, limit),
            (WasPromised, limit),
            (NeverListened, limit.min(500)),
            (HasPolled, limit.min(5000)),
            (HasAcknowledged, 0),
        ] {
            let service = Service::open().await;
            let mut reads = None;
            match client {
                Reads => reads = Some(service.listen().await),
                HasListened => drop(service.listen().await),
                WasPromised => service.post(&call(1, "add", json!([1, 2]))).await,
                HasPolled | HasAcknowledged => drop(service.poll(0).await),
                NeverListened => {}
            }
            service.tick().await;
            if let HasPolled | HasAcknowledged = client {
                assert!(service.poll(0).await.contains(r#""cursor":1"#));
            }
            if client == HasAcknowledged {
                service.poll(1).await;
            }
            let begun = Instant::now();
            service.http.shutdown(ms(limit)).await;
            let took = begun.elapsed();
            let due = ms(time)..ms(time + 100);
            assert!(due.contains(&took), "{client:?}, {limit} ms: {took:?}");
            drop(reads);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_polls_without_end_does_not_keep_a_session_that_was_closed() {
    let service = Service::open().await;
    service.poll(0).await;
    service.tick().await;
    let (peer, begun) = (service.peer(), Instant::now());
    peer.close();
    let polls = async {
        loop {
            service.poll(0).await;
            tokio::time::sleep(ms(100)).await;
        }
    };
    tokio::select! {
        _ = peer.closed() => {}
        () = polls => {}
    }
    let took = begun.elapsed();
    assert!(took > ms(500) && took <= ms(5100), "{took:?}");
}

/// Begins the end of a service while a request of its client runs, which is then answered.
async fn answer_at_the_end(service: &Service, limit: Duration) -> tokio::task::JoinHandle<()> {
    service.post(&call(1, "hold", json!([]))).await;
    let peer = service.peer();
    eventually("it runs", || peer.stats().in_flight == 1).await;
    let http = service.http.clone();
    let end = tokio::spawn(async move { http.shutdown(limit).await });
    eventually("it ends", || is_draining(&peer)).await;
    service.gate.add_permits(1);
    eventually("it is done", || peer.stats().in_flight == 0).await;
    end
}

/// Its request was accepted: it was told that the answer comes so.
#[tokio::test(start_paused = true)]
async fn a_client_may_come_late_for_what_it_is_owed() {
    let held = ok(1, json!("held"));
    for polls in [true, false] {
        let service = Service::open().await;
        if polls {
            service.poll(0).await;
        }
        let end = answer_at_the_end(&service, Duration::from_secs(600)).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert!(!end.is_finished(), "it may be lost");
        if polls {
            let page = json!({"cursor": 1, "messages": [held]});
            let polled: Value = serde_json::from_str(&service.poll(0).await).unwrap();
            assert_eq!(polled, page);
            assert!(!end.is_finished(), "it may be lost");
        } else {
            let events = text(service.listen().await).await;
            let data = events.lines().find_map(|line| line.strip_prefix("data: "));
            assert_eq!(serde_json::from_str::<Value>(data.unwrap()).unwrap(), held);
        }
        within(end).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_comes_is_waited_for_also_if_nothing_more_can_be_queued() {
    let mut config = Config::default();
    config.output = 1000;
    for (polls, time) in [(true, ms(2000)), (false, ms(500))] {
        let service = Service::with(config.clone()).await;
        if polls {
            service.poll(0).await;
        }
        let peer = service.peer();
        let sender = tokio::spawn(async move {
            for _ in 0..1000 {
                let _ = peer.notify("tick", ("x".repeat(10_000),)).await;
            }
        });
        tokio::time::sleep(ms(100)).await;
        assert!(!sender.is_finished(), "there is room");
        let begun = Instant::now();
        service.http.shutdown(ms(2000)).await;
        let took = begun.elapsed();
        assert!((time..time + ms(600)).contains(&took), "{polls}: {took:?}");
        within(sender).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_is_cut_has_not_sent_everything() {
    let service = Service::open().await;
    service.poll(0).await;
    service.post(&call(1, "large", json!([12 << 20]))).await;
    let mut cut = service.begin_poll().await.into_body();
    assert!(cut.frame().await.is_some());
    let http = service.http.clone();
    let limit = Duration::from_secs(600);
    let end = tokio::spawn(async move { http.shutdown(limit).await });
    tokio::time::sleep(ms(100)).await;
    drop(cut);
    // Longer than for one that was sent everything.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(service.poll(0).await.starts_with(r#"{"cursor":1,"#));
    service.poll(1).await;
    within(end).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_is_replaced_at_the_end_is_told_so() {
    let service = Arc::new(Service::open().await);
    service.poll(0).await;
    service.post(&call(1, "hold", json!([]))).await;
    let begin = || {
        let service = Arc::clone(&service);
        tokio::spawn(async move { service.begin_poll().await })
    };
    let first = begin();
    let peer = service.peer();
    eventually("it runs", || peer.stats().in_flight == 1).await;
    let http = service.http.clone();
    let end = tokio::spawn(async move { http.shutdown(Duration::from_secs(20)).await });
    eventually("it ends", || is_draining(&peer)).await;
    peer.notify("tick", (1,)).await.unwrap();
    // It has a message, and waits for more.
    tokio::time::sleep(ms(10)).await;
    assert!(!first.is_finished());
    let second = begin();
    assert_eq!(within(first).await.unwrap().status(), 204);
    service.gate.add_permits(1);
    let page: Value = serde_json::from_str(&text(within(second).await.unwrap()).await).unwrap();
    assert_eq!(page["messages"], json!([tick(1), ok(1, json!("held"))]));
    service.poll(2).await;
    within(end).await.unwrap();
}
