//! What one call costs a server: instructions, what must be fetched for them, and how
//! often it asks the kernel for something.
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
use crate::callgrind::Fetched;
use crate::child::Server;
use crate::tools::{Program, Tools};

/// What one server takes for one call of one scene.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    pub instructions: Option<f64>,
    /// Lines of code, and of data, that were not in the first cache any more.
    pub code: Option<f64>,
    pub data: Option<f64>,
    pub traffic: Option<Traffic>,
}

impl Cost {
    /// The lines that were fetched, of code and of data.
    pub(super) fn lines(&self) -> Option<[f64; 2]> {
        Some([self.code?, self.data?])
    }
}

/// How often it asked the kernel.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Traffic {
    /// Those of sockets.
    pub receives: f64,
    pub sends: f64,
    /// By which threads wait for each other and wake each other.
    pub futexes: f64,
    /// For anything at all.
    pub all: f64,
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
    let looked_into = matches!(server.program, Program::Serve | Program::Peers);
    let counts_any = scene.counted.is_some() || scene.traced.is_some();
    if !looked_into || !counts_any || quick && server.name != "caudal" {
        return Ok(None);
    }
    let fewer = |(few, many)| match quick {
        true => (few / 5, many / 5),
        false => (few, many),
    };
    let counted = scene.counted.map(fewer);
    let counted = counted.map(|counts| instructions(tools, scene, server, counts));
    let counted = counted.transpose()?.flatten();
    let traced = scene.traced.zip(Strace::find());
    let traced = traced.map(|(counts, strace)| strace.traffic(tools, scene, server, counts));
    Ok(Some(Cost {
        instructions: counted.map(|counted| counted.instructions),
        code: counted.map(|counted| counted.code),
        data: counted.map(|counted| counted.data),
        traffic: traced.transpose()?,
    }))
}

fn instructions(
    tools: &Tools,
    scene: &Scene,
    server: &Contestant,
    (few, many): (u64, u64),
) -> Result<Option<Fetched>, String> {
    let Some(callgrind) = &tools.callgrind else {
        return Ok(None);
    };
    let Some(arguments) = server.arguments_counted(scene.transport) else {
        return Ok(None);
    };
    let program = tools.command(server.program).ok_or("it is not there")?;
    let program = Path::new(program.get_program());
    let total = |count| {
        callgrind.total_fetched(program, &arguments, |command| {
            drive(tools, scene, server, command, count)
        })
    };
    let (less, more) = (total(few)?, total(many)?);
    let each = |less: f64, more: f64| (more - less) / (many - few) as f64;
    Ok(Some(Fetched {
        instructions: each(less.instructions, more.instructions),
        code: each(less.code, more.code),
        data: each(less.data, more.data),
    }))
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
        // What threads do at the start is not the same in both.
        let each = |of: fn(&Traffic) -> f64| {
            let more = (of(&more) - of(&less)).max(0.0);
            more / (many - few) as f64
        };
        Ok(Traffic {
            receives: each(|traffic| traffic.receives),
            sends: each(|traffic| traffic.sends),
            futexes: each(|traffic| traffic.futexes),
            all: each(|traffic| traffic.all),
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
            .arg(plain.get_program())
            .args(server.arguments(scene.transport));
        drive(tools, scene, server, &mut command, count)?;
        let text = std::fs::read_to_string(&self.file).map_err(|e| e.to_string())?;
        Ok(Traffic {
            receives: calls(&text, &RECEIVES),
            sends: calls(&text, &SENDS),
            futexes: begun(&text).filter(|name| *name == "futex").count() as f64,
            all: begun(&text).count() as f64,
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

/// The names of all calls that were begun, whatever came of them.
fn begun(lines: &str) -> impl Iterator<Item = &str> {
    let is_name = |name: &&str| {
        let mut bytes = name.bytes();
        bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
    };
    let name = |line| {
        // The thread comes first.
        let (_, call) = str::split_once(line, ' ')?;
        Some(call.trim_start().split_once('(')?.0)
    };
    lines.lines().filter_map(name).filter(is_name)
}

#[cfg(test)]
mod tests {
    use super::{RECEIVES, SENDS, begun, calls};

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
72 futex(0x7f, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL <unfinished ...>
71 futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 1
72 <... futex resumed>) = 0
71 --- SIGCHLD {si_signo=SIGCHLD} ---
72 +++ exited with 0 +++
";
        assert_eq!(calls(lines, &RECEIVES), 3.0);
        assert_eq!(calls(lines, &SENDS), 2.0);
        let futexes = begun(lines).filter(|name| *name == "futex");
        assert_eq!((futexes.count(), begun(lines).count()), (2, 8));
    }
}
