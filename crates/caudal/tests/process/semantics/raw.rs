//! Messages as bytes, to a server on each transport.

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tungstenite::Message;

use super::worlds::Kind;
use crate::support::downlink::Downlink;
use crate::support::raw_http::{Raw, Reply};

const PATH: &str = "/rpc";
const JSON: &str = "Content-Type: application/json";
const ASYNC: &str = "Prefer: respond-async";

/// What shows that everything before it was answered.
const LAST: &str = r#"{"jsonrpc":"2.0","id":"last","method":"add","params":[0,0]}"#;

/// What is answered before the connection ends, or does not go on as it should.
pub(crate) struct Ended {
    pub(crate) answers: Vec<Value>,
    pub(crate) why: String,
}

/// All answers, if the connection goes on after them.
pub(crate) type Answers = Result<Vec<Value>, Ended>;

/// Answers to one message on a stream of lines.
pub(crate) async fn over_lines(io: impl AsyncRead + AsyncWrite + Unpin, text: &str) -> Answers {
    let mut lines = BufReader::new(io);
    let sent = format!("{text}\n{LAST}\n");
    lines.get_mut().write_all(sent.as_bytes()).await.unwrap();
    let mut answers = Vec::new();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).await.unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        if answer["id"] == "last" {
            return Ok(answers);
        }
        answers.push(answer);
    }
}

/// The same in the frames of a WebSocket.
pub(crate) async fn over_websocket(address: &str, text: &str) -> Answers {
    let (url, text) = (address.to_owned(), text.to_owned());
    let answers = tokio::task::spawn_blocking(move || {
        let host = url.split('/').nth(2).unwrap();
        let stream = std::net::TcpStream::connect(host).unwrap();
        let (mut socket, _) = tungstenite::client(&*url, stream).unwrap();
        socket.send(text.into()).unwrap();
        // It may be closed by now; what is read tells.
        let _ = socket.send(LAST.into());
        let mut answers = Vec::new();
        loop {
            let message = socket.read().unwrap();
            if let Message::Close(frame) = message {
                let why = format!("{frame:?}");
                return Err(Ended { answers, why });
            }
            let answer: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
            if answer["id"] == "last" {
                return Ok(answers);
            }
            answers.push(answer);
        }
    });
    answers.await.unwrap()
}

/// The same by POST, each of which stands alone; the connection is the same.
pub(crate) async fn over_post(address: &str, text: &str) -> Answers {
    let mut raw = Raw::connect(port(address)).await;
    let mut answers = Vec::new();
    for sent in [text, LAST] {
        let reply = raw.ask("POST", PATH, &[JSON], sent).await;
        match in_response(&reply, 204) {
            Ok(answer) => answers.extend(answer),
            Err(why) => return Err(Ended { answers, why }),
        }
    }
    match answers.pop() {
        Some(last) if last["id"] == "last" => Ok(answers),
        other => {
            let why = format!("the last one is {other:?}");
            Err(Ended { answers, why })
        }
    }
}

/// The same in a session: each message is a POST, and what comes of it is read where
/// the server's messages come.
pub(crate) async fn over_session(address: &str, kind: Kind, text: &str) -> Answers {
    let mut raw = Raw::connect(port(address)).await;
    let (mut downlink, session) = match kind {
        Kind::Sse => Downlink::events(port(address)).await,
        Kind::Polling => Downlink::polls(port(address)).await,
        _ => Downlink::hook(port(address)).await,
    };
    let headers = [&*session, JSON, ASYNC];
    let mut answers = Vec::new();
    for sent in [text, LAST] {
        let reply = raw.ask("POST", PATH, &headers, sent).await;
        let why = match in_response(&reply, 202) {
            Ok(None) => continue,
            // Only what is no message is answered here.
            Ok(Some(answer)) if is_nameless(&answer) => {
                answers.push(answer);
                continue;
            }
            Ok(Some(answer)) => format!("it is not {} that brought {answer}", kind.name()),
            Err(why) => why,
        };
        return Err(Ended { answers, why });
    }
    loop {
        let answer: Value = serde_json::from_str(&downlink.next().await).unwrap();
        if answer["id"] == "last" {
            return Ok(answers);
        }
        answers.push(answer);
    }
}

/// What the response to a POST says itself, if it says more than that it was accepted.
fn in_response(reply: &Reply, accepted: u16) -> Result<Option<Value>, String> {
    let status = match reply.body.contains("Request payload too large") {
        _ if reply.body.is_empty() => accepted,
        true => 413,
        false => 200,
    };
    match reply.status == status {
        true if reply.body.is_empty() => Ok(None),
        true => Ok(Some(reply.json())),
        false => Err(format!("{reply:?}")),
    }
}

/// Whether all of an answer is errors without an id.
fn is_nameless(answer: &Value) -> bool {
    match answer.as_array() {
        Some(entries) => entries.iter().all(is_nameless),
        None => answer["id"].is_null() && answer["error"].is_object(),
    }
}

fn port(address: &str) -> u16 {
    let host = address.split('/').nth(2).unwrap();
    host.rsplit(':').next().unwrap().parse().unwrap()
}
