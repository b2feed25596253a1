//! The tests of caudal-core that need a process of their own: an allocator that counts,
//! and the environment.

mod allocations;
mod incident;
