//! A WebSocket by hand: frames as bytes.

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::within;

/// Headers of a handshake, with the key of the example in RFC 6455, section 1.3.
pub(crate) const HANDSHAKE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// The client's side.
pub(crate) struct RawWebSocket<S = TcpStream>(pub(crate) S);

impl<S: AsyncRead + AsyncWrite + Unpin> RawWebSocket<S> {
    /// Sends a head and returns what comes back, up to the empty line.
    pub(crate) async fn ask(mut socket: S, head: &str) -> (Self, String) {
        let request = format!("GET /rpc HTTP/1.1\r\n{head}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(within(socket.read_u8()).await.unwrap());
        }
        (Self(socket), String::from_utf8(answer).unwrap())
    }

    /// Makes the handshake.
    pub(crate) async fn open(socket: S) -> Self {
        let head = format!("Host: localhost\r\n{HANDSHAKE}");
        let (raw, answer) = Self::ask(socket, &head).await;
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        let answer = answer.to_ascii_lowercase();
        let proof = "s3pplmbitxaq9kygzzhzrbk+xoo=";
        assert!(answer.contains(&format!("sec-websocket-accept: {proof}\r\n")));
        raw
    }

    /// Sends bytes as they are.
    pub(crate) async fn bytes(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// `first` has the opcode, and 0x80 if it is the last frame of its message.
    pub(crate) async fn frame(&mut self, first: u8, payload: &[u8]) {
        self.bytes(&masked(first, payload)).await;
    }

    pub(crate) async fn text(&mut self, message: &Value) {
        self.frame(0x81, message.to_string().as_bytes()).await;
    }

    /// The next frame, which is whole: its first byte and what it carries.
    pub(crate) async fn next(&mut self) -> (u8, Vec<u8>) {
        within(read_frame(&mut self.0)).await
    }

    /// The text of the next frame, which is one.
    pub(crate) async fn next_text(&mut self) -> String {
        let (first, payload) = self.next().await;
        assert_eq!(first, 0x81, "{payload:?}");
        String::from_utf8(payload).unwrap()
    }

    pub(crate) async fn json(&mut self) -> Value {
        serde_json::from_str(&self.next_text().await).unwrap()
    }

    /// The goodbye comes, and then the end.
    pub(crate) async fn goodbye(&mut self) -> u16 {
        let (first, payload) = self.next().await;
        assert_eq!(first, 0x88, "{payload:?}");
        // It goes on to read until we have said the same.
        let _ = self.0.write_all(&masked(0x88, &payload[..2])).await;
        let mut rest = Vec::new();
        let _ = within(self.0.read_to_end(&mut rest)).await;
        assert!(rest.is_empty(), "{rest:?}");
        u16::from_be_bytes([payload[0], payload[1]])
    }
}

/// A frame of a client.
pub(crate) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [9, 80, 0, 255];
    let mut frame = vec![first];
    match payload.len() {
        length @ 0..=125 => frame.push(0x80 | length as u8),
        length @ 126..=0xffff => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
    frame
}

/// The next frame of a server.
pub(crate) async fn read_frame(io: &mut (impl AsyncRead + Unpin)) -> (u8, Vec<u8>) {
    let first = io.read_u8().await.unwrap();
    let length = match io.read_u8().await.unwrap() {
        126 => u64::from(io.read_u16().await.unwrap()),
        127 => io.read_u64().await.unwrap(),
        length => u64::from(length),
    };
    assert!(length < 1 << 31);
    let mut payload = vec![0; length as usize];
    io.read_exact(&mut payload).await.unwrap();
    (first, payload)
}
