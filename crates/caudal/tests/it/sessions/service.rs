//! Sessions without sockets, so that a clock may stand still.

use http_body_util::BodyExt as _;

use super::*;

/// A service with one session, and what its handlers wait for.
pub(super) struct Service {
    pub(super) http: Http,
    pub(super) session: String,
    pub(super) gate: Arc<Semaphore>,
}

impl Service {
    pub(super) async fn open() -> Self {
        Self::with(Config::default()).await
    }

    pub(super) async fn with(config: Config) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let router = router(&gate, &Arc::default());
        let mut service = Self {
            http: Http::with(router, config, Options::default()),
            session: String::new(),
            gate,
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

    pub(super) async fn ask(
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

    pub(super) async fn listen(&self) -> http::Response<caudal::http::Body> {
        let accept = [("accept", "text/event-stream")];
        self.ask("GET", "/", &accept, "").await
    }

    /// Begins a poll, which waits for a message.
    pub(super) async fn begin_poll(&self) -> http::Response<caudal::http::Body> {
        let headers = [("accept", "application/json")];
        self.ask("GET", "/?cursor=0", &headers, "").await
    }

    /// Polls, and returns the response when it is read.
    pub(super) async fn poll(&self, cursor: u64) -> String {
        let headers = [("accept", "application/json"), ("prefer", "wait=0")];
        let target = format!("/?cursor={cursor}");
        text(self.ask("GET", &target, &headers, "").await).await
    }

    /// Sends a request that is answered among the server's messages.
    pub(super) async fn post(&self, request: &Value) {
        let headers = [
            ("content-type", "application/json"),
            ("prefer", "respond-async"),
        ];
        let accepted = self.ask("POST", "/", &headers, &request.to_string()).await;
        assert_eq!(accepted.status(), 202);
    }

    pub(super) fn peer(&self) -> Peer {
        self.http.peers().pop().unwrap()
    }

    pub(super) async fn tick(&self) {
        let before = self.peer().stats().bytes_sent;
        self.peer().notify("tick", (1,)).await.unwrap();
        // It is with the session then.
        while self.peer().stats().bytes_sent == before {
            tokio::task::yield_now().await;
        }
    }
}

/// The body of a response, whole.
pub(super) async fn text(response: http::Response<caudal::http::Body>) -> String {
    let (mut body, mut text) = (response.into_body(), Vec::new());
    // As a socket does, it lets go of each piece before it takes the next.
    while let Some(frame) = body.frame().await {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    String::from_utf8(text).unwrap()
}
