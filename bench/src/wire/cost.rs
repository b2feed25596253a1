//! What one call costs a server: instructions, and how often it asks the kernel
//! to send or to receive.
//!
//! `load` goes in lockstep, the next window when the last is answered, so that
//! every run sees the same reads. Start-up and handshakes are in both of two runs
//! and cancel out.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;

use super::contestant::Contestant;
use super::race::{figures, load};
use super::scene::Scene;
use crate::child::Server;
use crate::peer::difference;
use crate::tools::{Program, Tools};

/// What one server takes for one call of one scene.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    pub instructions: Option<f64>,
    /// Over sockets only.
    pub traffic: Option<Traffic>,
}

/// How often it asked the kernel.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Traffic {
    pub receives: f64,
    pub sends: f64,
}

/// Sockets only: what a runtime writes to wake its own threads is not among them.
const RECEIVES: [&str; 3] = ["recvfrom", "recvmsg", "readv"];
const SENDS: [&str; 3] = ["sendto", "sendmsg", "writev"];

/// What a call costs, if the scene counts that and the server can be looked into. A
/// quick run looks into caudal alone, whose costs have targets.
pub(super) fn count(
    tools: &Tools,
    scene: &Scene,
    server: &Contestant,
    quick: bool,
) -> Result<Option<Cost>, String> {
    let (Some((few, many)), Program::Serve | Program::Peers) = (scene.counted, server.program)
    else {
        return Ok(None);
    };
    if quick && server.name != "caudal" {
        return Ok(None);
    }
    let counts = match quick {
        true => (few / 5, many / 5),
        false => (few, many),
    };
    let strace = Strace::find().filter(|_| scene.transport != "stdio");
    let traffic = strace.map(|strace| strace.traffic(tools, scene, server, (few / 10, many / 10)));
    Ok(Some(Cost {
        instructions: instructions(tools, scene, server, counts)?,
        traffic: traffic.transpose()?,
    }))
}

fn instructions(
    tools: &Tools,
    scene: &Scene,
    server: &Contestant,
    counts: (u64, u64),
) -> Result<Option<f64>, String> {
    let Some(callgrind) = &tools.callgrind else {
        return Ok(None);
    };
    let Some(arguments) = server.arguments_counted(scene.transport) else {
        return Ok(None);
    };
    let program = tools.command(server.program).ok_or("it is not there")?;
    let program = Path::new(program.get_program());
    let total = |count| {
        callgrind.total(program, &arguments, |command| {
            drive(tools, scene, server, command, count)
        })
    };
    difference(counts, total).map(Some)
}

/// Starts a server, sends it `count` calls, and waits for its end.
fn drive(
    tools: &Tools,
    scene: &Scene,
    server: &Contestant,
    command: &mut Command,
    count: u64,
) -> Result<(), String> {
    let mut load = load(tools, scene, server);
    load.args(["--lockstep", "--seconds", "60"])
        .args(["--requests", &count.to_string()]);
    let sent = match scene.transport {
        "stdio" => {
            load.arg("--").arg(command.get_program());
            figures(load.args(command.get_args()))?
        }
        _ => {
            let (server, port) = Server::listen(command)?;
            load.args(["--connect", &format!("127.0.0.1:{port}")]);
            let sent = figures(&mut load)?;
            server.finish()?;
            sent
        }
    };
    match sent.requests == count {
        true => Ok(()),
        false => Err(format!("{} of {count} calls", sent.requests)),
    }
}

/// strace, and a file for what it writes; removed in the end.
struct Strace {
    file: PathBuf,
}

impl Strace {
    /// `None` if it is not installed, or may not look.
    fn find() -> Option<Self> {
        let found = Command::new("strace")
            .args(["-o", "/dev/null", "true"])
            .stderr(Stdio::null())
            .status();
        let name = format!("caudal-bench-{}.strace", std::process::id());
        matches!(found, Ok(status) if status.success()).then(|| Self {
            file: std::env::temp_dir().join(name),
        })
    }

    fn traffic(
        &self,
        tools: &Tools,
        scene: &Scene,
        server: &Contestant,
        (few, many): (u64, u64),
    ) -> Result<Traffic, String> {
        let less = self.total(tools, scene, server, few)?;
        let more = self.total(tools, scene, server, many)?;
        let each = |of: fn(&Traffic) -> f64| (of(&more) - of(&less)) / (many - few) as f64;
        Ok(Traffic {
            receives: each(|traffic| traffic.receives),
            sends: each(|traffic| traffic.sends),
        })
    }

    fn total(
        &self,
        tools: &Tools,
        scene: &Scene,
        server: &Contestant,
        count: u64,
    ) -> Result<Traffic, String> {
        let plain = tools.command(server.program).ok_or("it is not there")?;
        let mut command = Command::new("strace");
        command
            .args(["-f", "-s", "0", "-o"])
            .arg(&self.file)
            .arg("-e")
            .arg(format!("trace={}", [RECEIVES, SENDS].concat().join(",")))
            .arg(plain.get_program())
            .args(server.arguments(scene.transport));
        drive(tools, scene, server, &mut command, count)?;
        let text = std::fs::read_to_string(&self.file).map_err(|e| e.to_string())?;
        Ok(Traffic {
            receives: calls(&text, &RECEIVES),
            sends: calls(&text, &SENDS),
        })
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // A left-over file in the temporary folder harms nobody.
        drop(std::fs::remove_file(&self.file));
    }
}

/// How often any of `names` was called, from strace's lines. The end of a connection
/// is not counted: how many of them a server still sees before its own is chance.
fn calls(lines: &str, names: &[&str]) -> f64 {
    let is_one = |line: &&str| {
        let begun = |name| line.contains(&format!("{name}("));
        let resumed = |name| line.contains(&format!("<... {name} resumed>"));
        let ended = !line.ends_with("<unfinished ...>") && !line.ends_with("= 0");
        ended && names.iter().any(|name| begun(name) || resumed(name))
    };
    lines.lines().filter(is_one).count() as f64
}

#[cfg(test)]
mod tests {
    use super::{RECEIVES, SENDS, calls};

    #[test]
    fn reads_the_lines_of_strace() {
        let lines = "\
71 recvfrom(9, \"\"..., 8192, 0, NULL, NULL) = 155
72 recvfrom(10, <unfinished ...>
71 sendto(9, \"\"..., 120, MSG_NOSIGNAL, NULL, 0) = 120
72 <... recvfrom resumed>\"\"..., 8192, 0, NULL, NULL) = 155
72 writev(10, [{iov_base=\"\"..., iov_len=80}], 1) = 80
71 recvfrom(9, 0x55, 8192, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)
71 recvfrom(9, \"\", 8192, 0, NULL, NULL) = 0
72 +++ exited with 0 +++
";
        assert_eq!(calls(lines, &RECEIVES), 3.0);
        assert_eq!(calls(lines, &SENDS), 2.0);
    }
}
