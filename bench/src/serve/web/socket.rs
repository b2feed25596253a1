//! The bare WebSocket loop: what tungstenite and serde cost, and nothing else.
//!
//! ```text
//! read → frames → serde → add → one buffer → one write before the next read
//! ```

use std::io::{Read, Write};
use std::net::TcpStream;

use tungstenite::{Error, Message};

use super::super::{Outcome, accept, bare::answer, listen};

pub(super) fn serve() -> Outcome {
    let listener = listen()?;
    loop {
        let stream = accept(&listener)?;
        std::thread::spawn(move || answer_all(stream));
    }
}

fn answer_all(stream: TcpStream) {
    let stream = Coalescing {
        stream,
        output: Vec::new(),
    };
    // Whoever is no WebSocket is not ours.
    let Ok(mut socket) = tungstenite::accept(stream) else {
        return;
    };
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => {
                let mut reply = Vec::with_capacity(64);
                answer(text.as_bytes(), &mut reply);
                let reply = String::from_utf8(reply).expect("UTF-8");
                if socket.send(Message::text(reply)).is_err() {
                    return;
                }
            }
            Ok(_) => {}
            Err(Error::Io(problem)) if problem.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Keeps what is written until somebody reads: one write for all that one read
/// brought.
struct Coalescing {
    stream: TcpStream,
    output: Vec<u8>,
}

impl Read for Coalescing {
    fn read(&mut self, input: &mut [u8]) -> std::io::Result<usize> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output)?;
            self.output.clear();
        }
        self.stream.read(input)
    }
}

impl Write for Coalescing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
