//! Who may use a session.

use super::*;

#[tokio::test]
async fn a_session_belongs_to_the_credentials_that_opened_it() {
    let mut options = Options::default();
    options.tokens = vec!["ada".into(), "bob".into()];
    let site = Site::with(options, Config::default()).await;
    let (ada, bob) = ("Authorization: Bearer ada", "Authorization: Bearer bob");
    let mut raw = site.raw().await;
    let opened = raw.ask("POST", "/", &[JSON, ada], INITIALIZE).await;
    let session = opened.session();
    let mut client = Client { raw, session };
    let add = call(1, "add", json!([1, 2]));
    assert_eq!(client.post(&[bob], &add).await.status, 404);
    assert_eq!(client.ask("DELETE", "/", &[bob], "").await.status, 404);
    for accept in [ACCEPT_JSON, ACCEPT_EVENTS] {
        assert_eq!(client.ask("GET", "/", &[bob, accept], "").await.status, 404);
    }
    assert_eq!(client.post(&[], &add).await.status, 401);
    assert_eq!(client.post(&[ada], &add).await.json(), ok(1, json!(3)));
    for guess in ["", "0", &"0".repeat(32), &"f".repeat(5000), "\u{e9}"] {
        client.session = guess.to_owned();
        assert_eq!(client.post(&[ada], &add).await.status, 404, "{guess}");
    }
}

#[tokio::test]
async fn a_session_belongs_to_whom_the_application_names() {
    let mut options = Options::default();
    options.authorize = Some(Arc::new(|request: &Parts, found: &Extensions| {
        let name = request.headers.get("x-user");
        let name = name.ok_or(StatusCode::UNAUTHORIZED)?.to_str().unwrap();
        found.insert(Caller::new(name));
        Ok(())
    }));
    let site = Site::with(options, Config::default()).await;
    let mut raw = site.raw().await;
    let ada = ["X-User: ada", "Authorization: old"];
    let opened = raw
        .ask("POST", "/", &[JSON, ada[0], ada[1]], INITIALIZE)
        .await;
    let session = opened.session();
    let mut client = Client { raw, session };
    let who = json!({"jsonrpc": "2.0", "id": 1, "method": "who"});
    let renewed = ["X-User: ada", "Authorization: new"];
    assert_eq!(
        client.post(&renewed, &who).await.json(),
        ok(1, json!("ada"))
    );
    assert_eq!(client.post(&["X-User: bob"], &who).await.status, 404);
    // It does not matter on which connection it was opened.
    let mut other = site.again(&client).await;
    assert_eq!(other.post(&renewed, &who).await.json(), ok(1, json!("ada")));
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_session_belongs_to_the_certificate_that_opened_it() {
    use caudal::tls::PeerCertificate;
    let http = Http::new(router(&Arc::new(Semaphore::new(0)), &Arc::default()));
    let ask = async |session: Option<&str>, shown: Option<&[u8]>| {
        let mut request = http::Request::get("http://localhost/")
            .header("accept", "application/json")
            .header("prefer", "wait=0");
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(shown) = shown {
            request = request.extension(PeerCertificate::new(shown));
        }
        http.answer(request.body(String::new()).unwrap()).await
    };
    let opened = ask(None, Some(b"ada")).await;
    let session = opened.headers()["mcp-session-id"].to_str().unwrap();
    for (shown, status) in [(Some(&b"ada"[..]), 204), (Some(b"bob"), 404), (None, 404)] {
        assert_eq!(ask(Some(session), shown).await.status(), status);
    }
}
