//! Exit codes and failures of the program: a documented contract.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// Exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    Usage = 1,
    Timeout = 2,
    Auth = 3,
    Unreachable = 4,
    Rpc = 5,
    Protocol = 6,
    /// 128 plus the number of the signal, as in shells.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Failure that is reported in place of a result.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    said: Said,
}

#[derive(Debug)]
enum Said {
    /// Text for a person.
    Text(String),
    /// JSON, printed unchanged for programs.
    Json(String),
    Nothing,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Self {
        let said = Said::Text(text.into());
        Self { exit, said }
    }

    /// Appends a remark to a text.
    pub(crate) fn and(mut self, more: &str) -> Self {
        if let Said::Text(text) = &mut self.said {
            // Writing to a string does not fail.
            let _ = write!(text, "; {more}");
        }
        self
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(Exit::Usage, text)
    }

    /// The server's own error.
    pub(crate) const fn rpc(json: String) -> Self {
        let said = Said::Json(json);
        let exit = Exit::Rpc;
        Self { exit, said }
    }

    pub(crate) const fn interrupted() -> Self {
        let said = Said::Nothing;
        let exit = Exit::Interrupted;
        Self { exit, said }
    }

    pub(crate) fn report(&self) {
        match &self.said {
            Said::Text(text) => complain(text),
            Said::Json(json) => {
                // If stderr is closed, the error cannot be reported.
                let _ = writeln!(std::io::stderr(), "{json}");
            }
            Said::Nothing => {}
        }
    }
}

/// Prints a text to stderr. A failure is ignored, because stderr may be closed.
pub(crate) fn complain(text: &str) {
    let text = crate::layout::visible(text);
    let _ = writeln!(std::io::stderr(), "caudal: {text}");
}

/// Returns an error and its causes in one line, without repeating a cause.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let more = cause.to_string();
        if !text.ends_with(&more) {
            // Writing to a string does not fail.
            let _ = write!(text, ": {more}");
        }
        next = cause.source();
    }
    text
}
