//! An HTTP server that is spoken for by hand.

use std::collections::HashMap;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{stays_pending, within};

/// The server: its requests, in the order in which they come.
pub(crate) struct Fake {
    pub(crate) port: u16,
    requests: mpsc::UnboundedReceiver<Asked>,
}

/// A request that waits for its answer; dropped, it closes the connection.
#[derive(Debug)]
pub(crate) struct Asked {
    /// `GET /rpc`
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: String,
    /// The number of its connection.
    pub(crate) connection: usize,
    out: mpsc::UnboundedSender<Option<Vec<u8>>>,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for connection in 0.. {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(socket, connection, sender.clone()));
            }
        });
        Self { port, requests }
    }

    pub(crate) fn url(&self, kind: &str) -> String {
        format!("http://127.0.0.1:{}/rpc{kind}", self.port)
    }

    /// The next request, which must come.
    pub(crate) async fn next(&mut self) -> Asked {
        within(self.requests.recv()).await.unwrap()
    }

    /// The next one of this verb; others must not come.
    pub(crate) async fn expect(&mut self, verb: &str) -> Asked {
        let next = self.next().await;
        assert!(next.line.starts_with(verb), "{next:?}");
        next
    }

    /// No request comes, for a while.
    pub(crate) async fn silence(&mut self) {
        stays_pending("a request", self.requests.recv()).await;
    }
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&self, bytes: impl Into<Vec<u8>>) {
        let _ = self.out.send(Some(bytes.into()));
    }

    /// The answer is whole; the connection goes on.
    pub(crate) fn done(self) {
        let _ = self.out.send(None);
    }

    /// Answers with these headers, each with its end.
    pub(crate) fn answer(self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        self.raw(format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
        ));
        self.done();
    }

    pub(crate) fn answer_json(self, body: &str) {
        self.answer("200 OK", "Content-Type: application/json\r\n", body);
    }

    /// Answers the call with a result.
    pub(crate) fn result(self, result: &str) {
        let id = self.json()["id"].clone();
        self.answer_json(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ));
    }

    /// Accepts a message.
    pub(crate) fn accept(self) {
        self.raw("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
        self.done();
    }

    /// Begins events.
    pub(crate) fn begin_events(&self, headers: &str) {
        self.raw(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{headers}Transfer-Encoding: chunked\r\n\r\n"
        ));
    }

    /// Sends a piece of them.
    pub(crate) fn events(&self, text: &str) {
        self.raw(format!("{:x}\r\n{text}\r\n", text.len()));
    }

    /// Ends them.
    pub(crate) fn end_events(self) {
        self.raw("0\r\n\r\n");
        self.done();
    }

    /// Whether the client has hung up.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn is_gone(&self) -> bool {
        self.out.is_closed()
    }

    /// The client hangs up.
    pub(crate) async fn gone(&self) {
        within(self.out.closed()).await;
    }
}

async fn serve(socket: TcpStream, connection: usize, asked: mpsc::UnboundedSender<Asked>) {
    let (reader, mut writer) = socket.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim().is_empty() => break,
                Ok(_) => lines.push(line.trim().to_owned()),
            }
        }
        let headers: HashMap<_, _> = lines[1..]
            .iter()
            .map(|line| line.split_once(':').unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        let length = headers
            .get("content-length")
            .map_or(0, |l| l.parse().unwrap());
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).await.is_err() {
            return;
        }
        let (out, mut answer) = mpsc::unbounded_channel();
        let line = lines[0].trim_end_matches(" HTTP/1.1").to_owned();
        let body = String::from_utf8(body).unwrap();
        let _ = asked.send(Asked {
            line,
            headers,
            body,
            connection,
            out,
        });
        loop {
            let bytes = tokio::select! {
                bytes = answer.recv() => bytes,
                more = reader.fill_buf() => match more {
                    Ok([]) | Err(_) => return,
                    Ok(_) => panic!("a request before the answer to the last one"),
                },
            };
            match bytes {
                Some(Some(bytes)) => {
                    if writer.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Some(None) => break,
                None => return,
            }
        }
    }
}
