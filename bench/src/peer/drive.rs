//! Sends windows of calls to a server on a pipe: the next when all of the last
//! have been answered, so that every run sees the same reads.

use std::io::{Read as _, Write as _};
use std::process::{ChildStdin, ChildStdout, Command};

use memchr::memchr_iter;

use crate::child::Server;

/// A server, and the pipes to it.
#[derive(Debug)]
pub(super) struct Driver {
    server: Server,
    to: ChildStdin,
    from: ChildStdout,
    /// A whole window of calls; all have the same ids and sums.
    calls: Vec<u8>,
    window: u64,
    input: Vec<u8>,
}

impl Driver {
    pub(super) fn start(command: &mut Command, window: u64) -> Result<Self, String> {
        let mut server = Server::start(command)?;
        let (to, from) = server.pipes().ok_or("no pipes")?;
        let mut calls = Vec::new();
        for id in 100_000..100_000 + window {
            let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"add","params":[{id},7]}}"#);
            calls.extend_from_slice(call.as_bytes());
            calls.push(b'\n');
        }
        Ok(Self {
            server,
            to,
            from,
            calls,
            window,
            input: vec![0; 64 * 1024],
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Sends `count` calls in windows, and waits for their replies.
    pub(super) fn send(&mut self, count: u64) -> Result<(), String> {
        let mut left = count;
        while left > 0 {
            let window = left.min(self.window);
            left -= window;
            // They are all of the same length.
            let bytes = self.calls.len() / self.window as usize * window as usize;
            let sent = self.to.write_all(&self.calls[..bytes]);
            sent.map_err(|e| e.to_string())?;
            let mut answered = 0;
            while answered < window {
                let read = self.from.read(&mut self.input).map_err(|e| e.to_string())?;
                if read == 0 {
                    return Err("the server has gone".to_owned());
                }
                let reply = &self.input[..read];
                answered += memchr_iter(b'\n', reply).count() as u64;
                if memchr::memmem::find(reply, b"\"error\"").is_some() {
                    return Err(format!("an error: {}", String::from_utf8_lossy(reply)));
                }
            }
        }
        Ok(())
    }

    /// Ends the server's input, waits for its end, and returns what it wrote to
    /// its standard error, if that is a pipe.
    pub(super) fn finish(self) -> Result<String, String> {
        drop(self.to);
        self.server.finish()
    }
}
