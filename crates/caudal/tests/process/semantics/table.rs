//! The outcome of the run as a document, and whether it is the one that is kept.

use std::fmt::Write as _;
use std::path::Path;

use super::Row;
use super::cases::ONLY_CLIENT;
use super::worlds::KINDS;

const HEAD: &str = "# What each transport can do

One test suite runs over every transport and writes this table
(`CAUDAL_WRITE=1 cargo test -p caudal --all-features --test process semantics`). A result that
differs from this page fails the build.
";

const NOTES: &str = "
- A single POST gives the server no way to call the client or to send it notifications, and
  two POSTs have no order. Dropping a call ends its POST, which cancels its handler.
- Limits apply to a connection. With `serve`, concurrent POSTs are on connections of their
  own, so the limit of connections bounds them. All POSTs of a mounted service share one
  set of limits.
- In memory and on stdio the server has one client and ends with it. stdio has tests of
  its own for that.
- A message that is too large is answered with an error without an id. By POST that has
  status 413 and ends the call; on the others the call times out. A WebSocket is closed
  after it with code 1009.
- A response that is larger than the caller's `max_message` ends its call at once with
  `CallError::TooLarge`, if its first 2 KiB contain the id. Other calls go on, but for
  those of a WebSocket, which is closed.
- The same failure is the same variant of `CallError` on every transport.
- [HTTP.md](HTTP.md) ends with what HTTP cannot do.
";

fn render(rows: &[Row]) -> String {
    let mut text = format!("{HEAD}\n| |");
    for kind in KINDS {
        let _ = write!(text, " {} |", kind.name());
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(KINDS.len()));
    for row in rows {
        let _ = write!(text, "| {} |", row.what);
        for outcome in &row.outcomes {
            text.push_str(match outcome {
                Ok(()) => " yes |",
                Err(why) if why == ONLY_CLIENT => " n/a |",
                Err(_) => " – |",
            });
        }
        text.push('\n');
    }
    text + NOTES
}

/// Whether the run came out as it is written down.
pub(crate) fn agrees(rows: &[Row]) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TRANSPORTS.md");
    let now = render(rows);
    if std::env::var_os("CAUDAL_WRITE").is_some() {
        std::fs::write(&path, &now).unwrap();
        return true;
    }
    let then = std::fs::read_to_string(&path).unwrap_or_default();
    let same = now == then;
    if !same {
        eprintln!("docs/TRANSPORTS.md says otherwise; this run gave:\n{now}");
    }
    same
}
