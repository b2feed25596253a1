//! The tests of caudal-core that share a process.

mod corpus;
mod decode;
mod differential;
mod encode;
mod errors;
mod framing;

mod limits;
mod pending;
mod read_ahead;
mod rejections;
mod schema;
mod support;
mod truncated;
mod types;
