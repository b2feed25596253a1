//! A child together with all processes that it has started.

#[cfg(unix)]
mod parent_watch;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::ProcessGroup;
#[cfg(windows)]
pub(super) use windows::ProcessGroup;

#[cfg(not(any(unix, windows)))]
compile_error!("child processes need Unix or Windows");
