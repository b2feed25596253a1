//! Messages as bytes, to a server on each transport.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// What shows that everything before it was answered.
const LAST: &str = r#"{"jsonrpc":"2.0","id":"last","method":"add","params":[0,0]}"#;

/// Answers to one message on a stream of lines.
pub(crate) async fn over_lines(io: impl AsyncRead + AsyncWrite + Unpin, text: &str) -> Vec<Value> {
    let mut lines = BufReader::new(io);
    let sent = format!("{text}\n{LAST}\n");
    lines.get_mut().write_all(sent.as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).await.unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        if answer["id"] == "last" {
            return answers;
        }
        answers.push(answer);
    }
}

/// The same in the frames of a WebSocket.
pub(crate) async fn over_websocket(address: &str, text: &str) -> Vec<Value> {
    let (url, text) = (address.to_owned(), text.to_owned());
    let answers = tokio::task::spawn_blocking(move || {
        let host = url.split('/').nth(2).unwrap();
        let stream = std::net::TcpStream::connect(host).unwrap();
        let (mut socket, _) = tungstenite::client(&*url, stream).unwrap();
        socket.send(text.into()).unwrap();
        socket.send(LAST.into()).unwrap();
        let mut answers = Vec::new();
        loop {
            let message = socket.read().unwrap();
            let answer: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            if answer["id"] == "last" {
                return answers;
            }
            answers.push(answer);
        }
    });
    answers.await.unwrap()
}

/// The same by POST, in a session or without one.
pub(crate) async fn over_post(address: &str, text: &str, in_session: bool) -> Vec<Value> {
    let mut session = String::new();
    if in_session {
        let (head, _) = exchange(address, "GET", "Accept: application/json\r\n", "").await;
        let id = head
            .lines()
            .find_map(|line| line.strip_prefix("mcp-session-id: "));
        session = format!("Mcp-Session-Id: {}\r\n", id.unwrap());
    }
    let headers = format!("{session}Content-Type: application/json\r\n");
    let (_, body) = exchange(address, "POST", &headers, text).await;
    match body.is_empty() {
        true => Vec::new(),
        false => vec![serde_json::from_str(&body).unwrap()],
    }
}

async fn exchange(address: &str, verb: &str, headers: &str, body: &str) -> (String, String) {
    let host = address.split('/').nth(2).unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let length = body.len();
    let request = format!(
        "{verb} /rpc HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}
