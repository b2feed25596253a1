//! The project's own chores: `cargo xtask compliance [--check]` and
//! `cargo xtask api [--check]`.

mod api;
mod claims;
mod compliance;

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("the workspace has no root")?;
    match *arguments {
        ["compliance"] => compliance::write(root),
        ["compliance", "--check"] => compliance::check(root),
        ["api"] => api::write(root),
        ["api", "--check"] => api::check(root),
        _ => Err("usage: cargo xtask compliance|api [--check]".into()),
    }
}
