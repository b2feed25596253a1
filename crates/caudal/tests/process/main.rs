//! The tests of caudal that need a process of their own: they count descriptors,
//! replace the panic hook, or run the compiler.

mod compile_errors;
#[cfg(unix)]
mod descriptors;
mod incidents;
mod panics;
mod race;
#[cfg(all(
    unix,
    feature = "polling",
    feature = "sse",
    feature = "webhook",
    feature = "ws"
))]
mod semantics;
#[path = "../it/support/mod.rs"]
mod support;
