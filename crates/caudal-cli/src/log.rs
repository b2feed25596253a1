//! Log of the library as lines on stderr: warnings, and errors with their number.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::exit::complain;

/// Panics at one place that are shown in one [`PERIOD`], as many as the library reports.
const PANICS: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);

/// Shows from now on what the library warns of, and panics.
pub(crate) fn show() {
    // There is no other: this program has one `main`.
    let _ = tracing::subscriber::set_global_default(Lines);
    panic::set_hook(Box::new(show_panic));
}

thread_local! {
    /// Place of the panic that this thread has shown last. A handler's panic is caught and
    /// logged by the thread that it happened on.
    static LAST: Cell<Option<String>> = const { Cell::new(None) };
}

/// Shows a panic in one line, and where `RUST_BACKTRACE` asks for it how it came to it. What
/// panics at every call cannot fill the log.
fn show_panic(panic: &PanicHookInfo<'_>) {
    let place = match panic.location() {
        Some(location) => location.to_string(),
        None => "an unknown place".to_owned(),
    };
    let Some(suppressed) = Panics::count(&place) else {
        LAST.set(None);
        return;
    };
    let text = panic.payload_as_str().unwrap_or("of unknown type");
    let mut line = format!("panic at {place}: {}", in_one_line(text));
    // Writing to a string does not fail.
    if suppressed > 0 {
        let _ = write!(line, ", suppressed={suppressed}");
    }
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = write!(line, "\n{backtrace}");
    }
    complain(&line);
    LAST.set(Some(place));
}

/// Panics at one place.
struct Panics {
    /// When the period began.
    since: Instant,
    /// Panics that were shown in this period.
    shown: u32,
    /// Panics that were not shown since the last one was.
    suppressed: u64,
}

impl Panics {
    /// Counts a panic. If it is to be shown, how many were not before it.
    fn count(place: &str) -> Option<u64> {
        static PANICS_BY_PLACE: LazyLock<Mutex<HashMap<String, Panics>>> =
            LazyLock::new(Mutex::default);
        let mut places = PANICS_BY_PLACE
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let panics = places.entry(place.to_owned()).or_insert(Self {
            since: now,
            shown: 0,
            suppressed: 0,
        });
        if now.duration_since(panics.since) >= PERIOD {
            panics.since = now;
            panics.shown = 0;
        }
        if panics.shown == PANICS {
            panics.suppressed += 1;
            return None;
        }
        panics.shown += 1;
        Some(std::mem::take(&mut panics.suppressed))
    }
}

/// Text that others may have sent, which cannot look like a line of its own.
fn in_one_line(text: &str) -> String {
    text.replace('\n', "\\n")
}

/// One line for each event.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("caudal")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        complain(&format!("{}{}", line.message, line.fields));
    }

    /// Spans are not shown, so that they need not be told apart.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Message of an event, and `, name=value` for each of its fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut value = format!("{value:?}");
        // The panic's own text is shown already.
        if field.name() == "cause"
            && value.starts_with("panic: ")
            && let Some(place) = LAST.take()
        {
            value = format!("the panic at {place}");
        }
        if field.name() != "backtrace" {
            value = in_one_line(&value);
        }
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value}"),
            name => write!(self.fields, ", {name}={value}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
