//! How long the end of a server waits for the client of a session: requests without
//! sockets, and a clock that moves by itself.

use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::*;

/// A service with one session.
struct Service {
    http: Http,
    session: String,
}

impl Service {
    async fn open() -> Self {
        let http = Http::new(router(&Arc::new(Semaphore::new(0)), &Arc::default()));
        let mut service = Self {
            http,
            session: String::new(),
        };
        let opened = service.ask(
            "POST",
            "/",
            &[("content-type", "application/json")],
            INITIALIZE,
        );
        let opened = opened.await;
        let session = opened.headers()["mcp-session-id"].to_str().unwrap();
        service.session = session.to_owned();
        service
    }

    async fn ask(
        &self,
        verb: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> http::Response<caudal::http::Body> {
        let mut request = http::Request::builder()
            .method(verb)
            .uri(format!("http://localhost{target}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session);
        }
        self.http
            .answer(request.body(body.to_owned()).unwrap())
            .await
    }

    async fn listen(&self) -> http::Response<caudal::http::Body> {
        let accept = [("accept", "text/event-stream")];
        self.ask("GET", "/", &accept, "").await
    }

    /// Polls, and returns the response when it is read.
    async fn poll(&self, cursor: u64) -> String {
        let headers = [("accept", "application/json"), ("prefer", "wait=0")];
        let target = format!("/?cursor={cursor}");
        let response = self.ask("GET", &target, &headers, "").await;
        let body = response.into_body().collect().await.unwrap();
        String::from_utf8(body.to_bytes().to_vec()).unwrap()
    }

    fn peer(&self) -> Peer {
        self.http.peers().pop().unwrap()
    }

    async fn tick(&self) {
        let before = self.peer().stats().bytes_sent;
        self.peer().notify("tick", (1,)).await.unwrap();
        // It is with the session then.
        while self.peer().stats().bytes_sent == before {
            tokio::task::yield_now().await;
        }
    }
}

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
                WasPromised => {
                    let headers = [
                        ("content-type", "application/json"),
                        ("prefer", "respond-async"),
                    ];
                    let add = call(1, "add", json!([1, 2])).to_string();
                    let accepted = service.ask("POST", "/", &headers, &add).await;
                    assert_eq!(accepted.status(), 202);
                }
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
