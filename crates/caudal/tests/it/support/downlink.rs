//! The ways of a server's messages to its client, read by hand.

use std::collections::VecDeque;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::{TcpListener, TcpStream};

use super::raw_http::{Raw, Reply};
use super::websocket::RawWebSocket;

const PATH: &str = "/rpc";
const JSON: &str = "Content-Type: application/json";
const ACCEPT_JSON: &str = "Accept: application/json";
const ACCEPT_EVENTS: &str = "Accept: text/event-stream";

pub(crate) enum Downlink {
    Frames(RawWebSocket),
    Events(Raw),
    Polls {
        raw: Raw,
        session: String,
        cursor: u64,
        come: VecDeque<Box<RawValue>>,
    },
    Hook {
        listener: TcpListener,
        line: Option<Raw>,
    },
}

#[derive(serde::Deserialize)]
struct Page {
    cursor: u64,
    messages: VecDeque<Box<RawValue>>,
}

impl Downlink {
    pub(crate) async fn frames(port: u16) -> RawWebSocket {
        let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        RawWebSocket::open(socket).await
    }

    /// Opens a session whose messages come as events; with the header that has its id.
    pub(crate) async fn events(port: u16) -> (Self, String) {
        let mut raw = Raw::connect(port).await;
        raw.send("GET", PATH, &[ACCEPT_EVENTS], "").await;
        let session = session(&raw.head().await);
        (Self::Events(raw), session)
    }

    /// The same by polling.
    pub(crate) async fn polls(port: u16) -> (Self, String) {
        let mut raw = Raw::connect(port).await;
        let session = session(&raw.ask("GET", PATH, &[ACCEPT_JSON], "").await);
        let polls = Self::Polls {
            raw,
            session: session.clone(),
            cursor: 0,
            come: VecDeque::new(),
        };
        (polls, session)
    }

    /// The same by webhook.
    pub(crate) async fn hook(port: u16) -> (Self, String) {
        let mut raw = Raw::connect(port).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let body = json!({ "url": url }).to_string();
        let session = session(&raw.ask("PUT", PATH, &[JSON], &body).await);
        let line = None;
        (Self::Hook { listener, line }, session)
    }

    /// The text of the server's next message, as it stands on the wire.
    pub(crate) async fn next(&mut self) -> String {
        match self {
            Self::Frames(socket) => socket.next_text().await,
            Self::Events(raw) => loop {
                let event = raw.event().await.unwrap();
                if event.name.is_none() {
                    return event.data;
                }
            },
            Self::Polls {
                raw,
                session,
                cursor,
                come,
            } => loop {
                if let Some(message) = come.pop_front() {
                    return message.get().to_owned();
                }
                let target = format!("{PATH}?cursor={cursor}");
                let reply = raw.ask("GET", &target, &[ACCEPT_JSON, session], "").await;
                if reply.status == 200 {
                    let page: Page = serde_json::from_str(&reply.body).unwrap();
                    *cursor = page.cursor;
                    *come = page.messages;
                }
            },
            Self::Hook { listener, line } => {
                let mut raw = match line.take() {
                    Some(raw) => raw,
                    None => Raw::accept(listener).await,
                };
                let text = raw.request().await;
                raw.answer(204).await;
                *line = Some(raw);
                text
            }
        }
    }
}

/// The header that has the id of the session that this response opened.
fn session(reply: &Reply) -> String {
    format!("Mcp-Session-Id: {}", reply.session())
}
