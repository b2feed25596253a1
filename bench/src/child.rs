//! A server as a child of this process: it ends with whoever started it.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A server that runs; killed when this is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
}

impl Server {
    /// Starts a server whose input and output are pipes.
    ///
    /// # Errors
    /// There is no such program.
    pub fn start(command: &mut Command) -> Result<Self, String> {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", command.get_program().display()))?;
        Ok(Self { child })
    }

    /// Starts a server that listens, and reads the port it prints. It ends with
    /// its input, which this keeps.
    ///
    /// # Errors
    /// There is no such program, or it printed no port.
    pub fn listen(command: &mut Command) -> Result<(Self, u16), String> {
        let mut server = Self::start(command)?;
        let stdout = server.child.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        read.map_err(|e| e.to_string())?;
        let port = line.trim().parse().map_err(|_| "it printed no port")?;
        Ok((server, port))
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The pipes to it and from it, once.
    pub fn pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// Waits until it ends by itself; its input must have ended. Returns what it
    /// wrote to its standard error, if that is a pipe.
    ///
    /// # Errors
    /// It failed.
    pub fn finish(mut self) -> Result<String, String> {
        let stderr = self.child.stderr.take().map(std::io::read_to_string);
        let said = stderr.transpose().map_err(|e| e.to_string())?;
        let status = self.child.wait().map_err(|e| e.to_string())?;
        match status.success() {
            true => Ok(said.unwrap_or_default()),
            false => Err(format!("the server failed: {status}")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have gone already; nothing it could still say is needed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
