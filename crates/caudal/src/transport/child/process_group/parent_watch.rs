//! Termination of a child when this process dies without dropping anything, on Unix.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use rustix::process::Pid;

/// Waits until this process is gone, and then ends the group as [`Child`](crate::transport::Child) does
/// when a connection is closed: SIGTERM if it still runs after 2 s, and SIGKILL 2 s later.
///
/// Inherited descriptors are closed, since other processes may wait for a lock or for the end
/// of a pipe. Signals that are sent to every process do not stop the shell.
const SCRIPT: &str = r#"
exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-
trap '' HUP INT TERM
read -r _
for signal in 0 TERM KILL; do
    kill -s "$signal" -- "-$1" || exit
    looks=0
    while [ "$looks" -lt 20 ]; do
        sleep 0.1 || sleep 1 # not every system knows fractions
        kill -s 0 -- "-$1" || exit
        looks=$((looks + 1))
    done
done"#;

/// Ends the process group of a child when this process ends for any reason.
///
/// The kernel can do that only if the child asks for it between fork and exec. That needs
/// `unsafe`, and covers the child but not the processes that it has started. So a separate
/// shell waits on a pipe that only this process holds open. Dropping this value ends the
/// shell, and the group goes on.
#[derive(Debug)]
pub(super) struct ParentWatch {
    /// The pipe is its stdin. The shell is killed before the pipe is closed.
    _shell: tokio::process::Child,
}

impl ParentWatch {
    /// # Errors
    /// The shell cannot be started.
    pub(super) fn start(group: Pid) -> io::Result<Self> {
        let mut shell = std::process::Command::new("/bin/sh");
        let group = group.as_raw_nonzero().to_string();
        shell
            .args(["-c", SCRIPT, "caudal", &group])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to this process is not meant for it.
            .process_group(0);
        let mut shell = tokio::process::Command::from(shell);
        let _shell = shell.kill_on_drop(true).spawn()?;
        Ok(Self { _shell })
    }
}
