//! A job object of Windows, which has the child and what the child starts.

use std::io;

use win32job::{ExtendedLimitInfo, Job};

/// The job of a child. Dropping it kills all its processes.
#[derive(Debug)]
pub(in crate::transport::child) struct ProcessGroup {
    job: Job,
}

impl ProcessGroup {
    /// Does nothing: a process enters a job after it was started.
    pub(in crate::transport::child) fn prepare(_: &mut std::process::Command) {}

    /// Puts a child into a job. A process that the child has started by then stays outside.
    pub(in crate::transport::child) fn of(child: &tokio::process::Child) -> io::Result<Self> {
        let ended = || io::Error::other("the child has ended");
        let handle = child.raw_handle().ok_or_else(ended)?;
        let job = Job::create().map_err(io::Error::other)?;
        job.assign_process(handle as isize)
            .map_err(io::Error::other)?;
        Ok(Self { job })
    }

    /// Ends the job with its last handle, which is closed with this process at the latest.
    pub(in crate::transport::child) fn end_with_parent(&mut self) -> io::Result<()> {
        let mut limits = ExtendedLimitInfo::new();
        limits.limit_kill_on_job_close();
        self.job
            .set_extended_limit_info(&limits)
            .map_err(io::Error::other)
    }

    /// Asks all its processes to end. Returns false if this system has no way to.
    pub(in crate::transport::child) fn ask_to_end(&self) -> bool {
        false
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Nothing can be done if it fails.
        let _ = self.end_with_parent();
    }
}
