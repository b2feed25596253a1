//! What the library logs, as lines on stderr: warnings, and errors with their number.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::panic;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::exit::complain;

/// Shows from now on what the library warns of.
pub(crate) fn show() {
    // There is no other: this program has one `main`.
    let _ = tracing::subscriber::set_global_default(Lines);
    let told = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        LAST.set(panic.location().map(ToString::to_string));
        told(panic);
    }));
}

thread_local! {
    /// Where this thread has panicked last. A handler's panic is caught and logged by
    /// the thread that it happened on.
    static LAST: Cell<Option<String>> = const { Cell::new(None) };
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

/// What an event says, and `, name=value` for each of its fields.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut value = format!("{value:?}");
        // Rust has shown the panic's own text already.
        if field.name() == "cause"
            && value.starts_with("panic: ")
            && let Some(place) = LAST.take()
        {
            value = format!("the panic at {place}");
        }
        // What others have sent cannot look like a line of its own.
        if field.name() != "backtrace" {
            value = value.replace('\n', "\\n");
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
