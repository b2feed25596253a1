//! HTTP/1.1 by hand: what a client sends, and what comes back, piece by piece.
#![allow(dead_code, reason = "each test uses a part of it")]

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::{stays_pending, within};

/// A connection.
pub(crate) struct Raw {
    io: BufReader<TcpStream>,
    /// What has come of a body in chunks, and is not used yet.
    chunk: String,
}

/// A response, or its head.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// A server-sent event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: Option<String>,
    /// The number in its id,
    pub(crate) id: Option<u64>,
    /// and the session, if that is there too.
    pub(crate) session: Option<String>,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(one, _)| one.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The answer to a POST, whether it came as JSON or as an event.
    pub(crate) fn answer(&self) -> Value {
        let data = self
            .body
            .lines()
            .find_map(|line| line.strip_prefix("data: "));
        serde_json::from_str(data.unwrap_or(&self.body)).unwrap()
    }

    pub(crate) fn session(&self) -> String {
        self.header("mcp-session-id").unwrap().to_owned()
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }
}

impl Raw {
    pub(crate) async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        Self {
            io: BufReader::new(stream),
            chunk: String::new(),
        }
    }

    /// The other side of one.
    pub(crate) async fn accept(listener: &TcpListener) -> Self {
        let (stream, _) = within(listener.accept()).await.unwrap();
        Self {
            io: BufReader::new(stream),
            chunk: String::new(),
        }
    }

    /// The body of a request.
    pub(crate) async fn request(&mut self) -> String {
        self.line().await;
        let mut length = 0;
        loop {
            let line = self.line().await.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        within(self.io.read_exact(&mut body)).await.unwrap();
        String::from_utf8(body).unwrap()
    }

    /// Answers a request, without a body.
    pub(crate) async fn answer(&mut self, status: u16) {
        let text = format!("HTTP/1.1 {status} Status\r\nContent-Length: 0\r\n\r\n");
        // Whoever asked may be gone.
        let _ = self.io.get_mut().write_all(text.as_bytes()).await;
    }

    pub(crate) async fn send(&mut self, verb: &str, target: &str, headers: &[&str], body: &str) {
        let length = body.len();
        self.send_part(verb, target, headers, body, length).await;
    }

    /// The same with the beginning of a body of this length.
    pub(crate) async fn send_part(
        &mut self,
        verb: &str,
        target: &str,
        headers: &[&str],
        body: &str,
        length: usize,
    ) {
        let mut text = format!("{verb} {target} HTTP/1.1\r\nHost: localhost\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str(&format!("Content-Length: {length}\r\n\r\n{body}"));
        self.io.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn ask(
        &mut self,
        verb: &str,
        target: &str,
        headers: &[&str],
        body: &str,
    ) -> Reply {
        self.send(verb, target, headers, body).await;
        self.reply().await
    }

    /// A whole response.
    pub(crate) async fn reply(&mut self) -> Reply {
        let mut reply = self.head().await;
        if let Some(length) = reply.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            within(self.io.read_exact(&mut body)).await.unwrap();
            reply.body = String::from_utf8(body).unwrap();
        } else if reply.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.next_chunk().await {
                reply.body.push_str(&chunk);
            }
        }
        reply
    }

    /// The head of a response.
    pub(crate) async fn head(&mut self) -> Reply {
        let status = self.line().await;
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            headers.push((name.to_owned(), value.to_owned()));
        }
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let body = String::new();
        Reply {
            status,
            headers,
            body,
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = within(self.io.read_line(&mut line)).await.unwrap();
        assert!(read > 0, "the connection has ended");
        line.trim_end().to_owned()
    }

    /// The next piece of a body; `None` at its end in good order.
    async fn next_chunk(&mut self) -> Option<String> {
        let size = usize::from_str_radix(&self.line().await, 16).unwrap();
        let mut chunk = vec![0; size + 2];
        within(self.io.read_exact(&mut chunk)).await.unwrap();
        chunk.truncate(size);
        (size > 0).then(|| String::from_utf8(chunk).unwrap())
    }

    /// The text up to the next blank line: an event, or a comment.
    pub(crate) async fn block(&mut self) -> Option<String> {
        let mut from = 0;
        loop {
            let mut pairs = self.chunk.as_bytes()[from..].windows(2);
            if let Some(end) = pairs.position(|pair| pair == b"\n\n") {
                let rest = self.chunk.split_off(from + end + 2);
                let block = std::mem::replace(&mut self.chunk, rest);
                return Some(block.trim_end_matches('\n').to_owned());
            }
            // What was looked at is not looked at again.
            from = self.chunk.len().saturating_sub(1);
            let more = self.next_chunk().await?;
            self.chunk.push_str(&more);
        }
    }

    /// The next event; `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        loop {
            let block = self.block().await?;
            let mut event = Event::default();
            for line in block.lines() {
                match line.split_once(": ") {
                    Some(("event", name)) => event.name = Some(name.to_owned()),
                    Some(("id", id)) => {
                        let (session, number) = match id.rsplit_once('.') {
                            Some((session, number)) => (Some(session), number),
                            None => (None, id),
                        };
                        event.session = session.map(str::to_owned);
                        event.id = Some(number.parse().unwrap());
                    }
                    Some(("data", data)) => {
                        if !event.data.is_empty() {
                            event.data.push('\n');
                        }
                        event.data.push_str(data);
                    }
                    _ => {}
                }
            }
            if !event.data.is_empty() {
                return Some(event);
            }
        }
    }

    /// How much comes before the connection ends.
    pub(crate) async fn rest(&mut self) -> usize {
        let mut rest = Vec::new();
        // However it ends.
        let _ = within(self.io.read_to_end(&mut rest)).await;
        rest.len()
    }

    /// Nothing comes, for a while.
    pub(crate) async fn silence(&mut self) {
        stays_pending("bytes", self.io.fill_buf()).await;
    }
}
