//! The outcome of the run as a document, and whether it is the one that is kept.

use std::fmt::Write as _;
use std::path::Path;

use super::Row;
use super::cases::ONLY_CLIENT;
use super::worlds::KINDS;

const HEAD: &str = "# What each transport can do

One test suite runs over every transport, and this table is what came of it
(`CAUDAL_WRITE=1 cargo test -p caudal --all-features --test process semantics`). A case that
fails where this page says yes, or holds where it says no, fails the build.
";

const NOTES: &str = "
- A POST stands alone: there is no way back to the caller, so nothing that the server
  begins can reach it, and two POSTs have no order. Dropping a call ends its POST,
  which cancels its handler.
- Limits are those of a connection, and with `serve` each of many POSTs at once has one
  of its own: what bounds them is how many connections there may be. All POSTs of a
  service that is mounted elsewhere share one set of limits.
- In memory and on stdio the server has one client and ends with it; stdio's own tests
  are about that.
- A message that is too large is answered with an error that has no id: by POST with
  status 413, and then its call ends with that error; on the others the call waits for
  its own time. A WebSocket ends after it (close code 1009), as the protocol asks.
- An answer that is larger than the caller's `max_message` ends its call at once, as far as
  its first 2 KiB say which call that is, and no other, with `CallError::TooLarge`. A
  WebSocket ends after it, with all its calls.
- The same failure of a call is the same variant of `CallError` on all of them.
- What each medium cannot do at all is at the end of [HTTP.md](HTTP.md).
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
