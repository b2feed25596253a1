//! What connections that are idle hold in a server's memory.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::str::FromStr;
use std::time::Duration;

use caudal_bench::child::Server;
use caudal_bench::peer::Held;
use caudal_bench::process::resident;
use tungstenite::Message;

use super::Problem;

/// How a server is spoken to: `load` has the same words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    framing: Framing,
    dialect: Dialect,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Line,
    Header,
    Json,
    Post,
    WebSocket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Plain,
    Dotted,
    Lsp,
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("no connection `{text}`");
        let (framing, dialect) = text.split_once('-').ok_or_else(unknown)?;
        Ok(Self {
            framing: match framing {
                "line" => Framing::Line,
                "header" => Framing::Header,
                "json" => Framing::Json,
                "post" => Framing::Post,
                "ws" => Framing::WebSocket,
                _ => return Err(unknown()),
            },
            dialect: match dialect {
                "plain" => Dialect::Plain,
                "dotted" => Dialect::Dotted,
                "lsp" => Dialect::Lsp,
                _ => return Err(unknown()),
            },
        })
    }
}

/// Makes `count` connections, each idle after one call. Only the server's memory
/// is of interest: at this end there are plain sockets.
pub(super) fn run(server: &Server, port: u16, count: usize, way: Way) -> Result<Held, Problem> {
    let mut streams = Vec::with_capacity(count);
    let mut connect = |count: usize| -> Result<u64, Problem> {
        for _ in 0..count {
            streams.push(way.connect(port)?);
        }
        std::thread::sleep(Duration::from_millis(100));
        resident(server.pid())
    };
    let before = connect(10)?;
    let after = connect(count)?;
    Ok(Held {
        there: (after as f64 - before as f64) / count as f64,
        ..Held::default()
    })
}

impl Way {
    /// A connection, after one call.
    fn connect(self, port: u16) -> Result<TcpStream, Problem> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        let service = match self.dialect {
            Dialect::Dotted => "Bench.",
            Dialect::Plain | Dialect::Lsp => "",
        };
        let call = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{service}add","params":[1,2]}}"#);
        if let Framing::WebSocket = self.framing {
            return socket(port, stream, &call);
        }
        if self.dialect == Dialect::Lsp {
            let hello =
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"capabilities":{}}}"#;
            let thanks = r#"{"jsonrpc":"2.0","method":"initialized","params":{}}"#;
            exchange(&stream, &self.frame(hello), "capabilities")?;
            (&stream).write_all(self.frame(thanks).as_bytes())?;
        }
        // A server with a fixed body has another sum.
        let answer = match self.framing {
            Framing::Post => r#""result":"#,
            _ => r#""result":3"#,
        };
        exchange(&stream, &self.frame(&call), answer)?;
        Ok(stream)
    }

    fn frame(self, text: &str) -> String {
        let length = text.len();
        match self.framing {
            Framing::Line => format!("{text}\n"),
            Framing::Header => format!("Content-Length: {length}\r\n\r\n{text}"),
            Framing::Post => format!(
                "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{text}"
            ),
            Framing::Json | Framing::WebSocket => text.to_owned(),
        }
    }
}

/// Sends a call and reads until `answer` is in what came.
fn exchange(mut stream: &TcpStream, call: &str, answer: &str) -> Result<(), Problem> {
    stream.write_all(call.as_bytes())?;
    let mut reply = String::new();
    let mut part = [0; 4096];
    while !reply.contains(answer) {
        match stream.read(&mut part)? {
            0 => return Err(format!("wrong reply: {reply}").into()),
            read => reply.push_str(std::str::from_utf8(&part[..read])?),
        }
    }
    Ok(())
}

fn socket(port: u16, stream: TcpStream, call: &str) -> Result<TcpStream, Problem> {
    let url = format!("ws://127.0.0.1:{port}/");
    let (mut socket, _) = tungstenite::client(url, stream.try_clone()?)?;
    socket.send(Message::text(call))?;
    let reply = socket.read()?.into_text()?;
    match reply.contains(r#""result":3"#) {
        true => Ok(stream),
        false => Err(format!("wrong reply: {reply}").into()),
    }
}
