//! The tests of caudal that need a process of their own: they count descriptors, or
//! replace the panic hook.

mod descriptors;
mod incidents;
mod panics;
mod race;
#[cfg(all(
    feature = "polling",
    feature = "sse",
    feature = "webhook",
    feature = "ws"
))]
mod semantics;
#[path = "../it/support/mod.rs"]
mod support;
