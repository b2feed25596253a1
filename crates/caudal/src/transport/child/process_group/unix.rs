//! A process group of Unix, whose leader is the child.

use std::io;
use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process_group};

use super::parent_watch::ParentWatch;

/// The group of a child. Dropping it kills all its processes.
#[derive(Debug)]
pub(in crate::transport::child) struct ProcessGroup {
    id: Pid,
    watch: Option<ParentWatch>,
}

impl ProcessGroup {
    /// Gives a program that is about to be started a group of its own.
    pub(in crate::transport::child) fn prepare(command: &mut std::process::Command) {
        command.process_group(0);
    }

    /// Returns the group of a child that was started so.
    pub(in crate::transport::child) fn of(child: &tokio::process::Child) -> io::Result<Self> {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the child has no process id"))?;
        Ok(Self { id, watch: None })
    }

    /// Ends the group with this process.
    pub(in crate::transport::child) fn end_with_parent(&mut self) -> io::Result<()> {
        self.watch = Some(ParentWatch::start(self.id)?);
        Ok(())
    }

    /// Asks all its processes to end. Returns false if this system has no way to.
    pub(in crate::transport::child) fn ask_to_end(&self) -> bool {
        self.signal(Signal::TERM);
        true
    }

    fn signal(&self, signal: Signal) {
        // It fails if all of them are gone already.
        let _ = kill_process_group(self.id, signal);
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}
