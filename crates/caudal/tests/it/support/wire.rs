//! HTTP/1.1 spoken by hand.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::within;

/// A connection to a server.
pub(crate) struct Wire(pub(crate) BufReader<TcpStream>);

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }
}

impl Wire {
    pub(crate) async fn to(server: &caudal::Server) -> Self {
        let text = server.endpoint().to_string();
        let address = text.split('/').nth(2).unwrap().to_owned();
        Self(BufReader::new(TcpStream::connect(address).await.unwrap()))
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// A request with a body; `more` are further lines of its head.
    pub(crate) async fn request(&mut self, verb: &str, more: &str, body: &str) -> Answer {
        let length = body.len();
        let host = if more.contains("Host: ") {
            ""
        } else {
            "Host: localhost\r\n"
        };
        self.send(&format!(
            "{verb} /rpc HTTP/1.1\r\n{host}{more}Content-Length: {length}\r\n\r\n{body}"
        ))
        .await;
        self.answer().await
    }

    /// A POST of JSON.
    pub(crate) async fn post(&mut self, body: &str) -> Answer {
        self.request("POST", "Content-Type: application/json\r\n", body)
            .await
    }

    pub(crate) async fn line(&mut self) -> String {
        let mut line = String::new();
        within(self.0.read_line(&mut line)).await.unwrap();
        line.trim_end().to_owned()
    }

    /// The status and headers of an answer; its body is still to be read.
    pub(crate) async fn head(&mut self) -> Answer {
        let status = self.line().await;
        let status = status
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("{status:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        Answer {
            status: status.parse().unwrap(),
            headers,
            body: String::new(),
        }
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        let length = answer
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        answer.body = String::from_utf8(body).unwrap();
        answer
    }

    /// The end of the connection comes; whatever comes before it.
    pub(crate) async fn end(&mut self) -> String {
        let mut rest = String::new();
        // A reset is an end too.
        let _ = within(self.0.read_to_string(&mut rest)).await;
        rest
    }
}
