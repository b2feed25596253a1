//! Destination of the replies to a message.

use std::any::Any;
use std::convert::Infallible;

use bytes::BytesMut;
use caudal_core::{
    ErrorCode, ErrorDetail, FrameError, Framing, Id, Invalid, InvalidKind, JsonRpcError, encode,
};
use serde::Serialize;

use super::caller::Caller;
use super::incident;
use crate::connection::Connection;
use crate::observe::span::shorten;
use crate::observe::tap::{self, Direction};

/// A call whose reply is being made.
#[derive(Debug)]
pub(crate) struct PendingReply<'a> {
    /// `None` for a notification, which gets no reply.
    pub(crate) id: Option<Id<'a>>,
    pub(crate) method: &'a str,
    /// `Some` when the reply is written, or the notification is served.
    pub(crate) outcome: Option<Outcome>,
}

impl<'a> PendingReply<'a> {
    pub(crate) const fn new(id: Option<Id<'a>>, method: &'a str) -> Self {
        Self {
            id,
            method,
            outcome: None,
        }
    }
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Error,
    Cancelled,
    TimedOut,
}

impl Outcome {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timeout",
        }
    }
}

/// Reason why a request is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal<'e> {
    Overloaded,
    ShuttingDown,
    /// The handler must call its caller, which cannot be called.
    NoReturnPath,
    /// The application does not accept the client.
    NotAccepted(&'e JsonRpcError),
}

/// Destination and framing of replies.
pub(crate) struct Replies<'o> {
    caller: &'o Caller,
    out: &'o mut BytesMut,
    target: Target<'o>,
}

enum Target<'o> {
    /// The output of a connection, written by the connection's task.
    Connection(&'o Connection),
    /// A frame that is sent later.
    Frame(Framing),
    /// An entry of a batch, or a reply without a frame.
    Bare,
}

impl<'o> Replies<'o> {
    /// Replies that the task of a connection writes into its output.
    pub(crate) fn to_connection(
        caller: &'o Caller,
        connection: &'o Connection,
        out: &'o mut BytesMut,
    ) -> Self {
        let target = Target::Connection(connection);
        Self {
            caller,
            out,
            target,
        }
    }

    /// Replies in frames that are sent later.
    pub(crate) fn framed(caller: &'o Caller, framing: Framing, out: &'o mut BytesMut) -> Self {
        let target = Target::Frame(framing);
        Self {
            caller,
            out,
            target,
        }
    }

    /// Replies without frames.
    pub(crate) fn bare(caller: &'o Caller, out: &'o mut BytesMut) -> Self {
        let target = Target::Bare;
        Self {
            caller,
            out,
            target,
        }
    }

    /// Number of bytes that are written.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
    }

    /// Writes the result of a call and counts it; a notification is only counted.
    #[inline]
    pub(crate) fn result<T: Serialize>(
        &mut self,
        call: &mut PendingReply<'_>,
        result: Result<T, JsonRpcError>,
    ) {
        let value = match result {
            Ok(value) => value,
            Err(error) => {
                incident::log_call(call.method, call.id, &error);
                return self.error(call, &error);
            }
        };
        if let Some(id) = call.id
            && let Err(error) = self.write(|out| encode::reply(out, id, &value))
        {
            return self.error(call, &incident::report(call.method, call.id, || error));
        }
        call.outcome = Some(Outcome::Ok);
        self.caller.stats().served(call.id.is_some(), false);
    }

    /// Writes the error of a call and counts it; that of a notification is logged.
    pub(crate) fn error(&mut self, call: &mut PendingReply<'_>, error: &JsonRpcError) {
        match call.id {
            Some(id) => self.write_error(id, error),
            None => log_failed_notification(call.method, error),
        }
        call.outcome = Some(Outcome::Error);
        self.caller.stats().served(call.id.is_some(), true);
    }

    /// Writes the error of a call whose params are not what its handler takes.
    pub(crate) fn bad_params(&mut self, call: &mut PendingReply<'_>, mut error: JsonRpcError) {
        // The error of a notification is logged in full.
        if call.id.is_some() && self.detail() == ErrorDetail::Minimal {
            error.data = None;
        }
        self.error(call, &error);
    }

    /// Reports the panic of a handler, and replies with an internal error unless the reply
    /// was written before.
    #[cold]
    pub(crate) fn panicked(&mut self, call: &mut PendingReply<'_>, panic: Box<dyn Any + Send>) {
        let error = incident::report_panic(call.method, call.id, panic);
        if call.outcome.is_none() {
            self.error(call, &error);
        }
    }

    /// Refuses a request.
    pub(crate) fn refuse(&mut self, id: Id<'_>, refusal: Refusal<'_>) {
        let stats = self.caller.stats();
        match refusal {
            Refusal::Overloaded | Refusal::ShuttingDown => stats.overloaded(),
            Refusal::NoReturnPath | Refusal::NotAccepted(_) => stats.served(true, true),
        }
        let (code, message) = match refusal {
            Refusal::Overloaded => (ErrorCode::SERVER_OVERLOADED, "Server overloaded"),
            Refusal::ShuttingDown => (ErrorCode::SHUTTING_DOWN, "Server is shutting down"),
            Refusal::NoReturnPath => (
                ErrorCode::CALLBACK_REQUIRED,
                "This method calls its caller back, and needs a connection for that",
            ),
            Refusal::NotAccepted(error) => return self.write_error(id, error),
        };
        self.write_error(id, &JsonRpcError::new(code, message));
    }

    /// Answers a message that is not valid, if it needs a reply.
    pub(crate) fn invalid(&mut self, invalid: &Invalid<'_>) {
        let stats = self.caller.stats();
        stats.invalid();
        tracing::debug!(target: "caudal", cause = %invalid.cause, "a message is not valid");
        match invalid.kind {
            InvalidKind::Request => {
                let incoming = self.caller.incoming();
                let is_json = invalid.code != ErrorCode::PARSE_ERROR;
                if is_json {
                    incoming.note_readable();
                }
                // A message that came alone is always answered.
                let is_lone = !matches!(self.target, Target::Connection(_));
                if is_json || is_lone || incoming.answers_unreadable(stats) {
                    self.write_error(invalid.id, &invalid.to_wire(self.detail()));
                }
            }
            InvalidKind::Response => self.caller.settle_invalid(invalid),
            _ => {}
        }
    }

    /// Answers a frame that could not be read.
    pub(crate) fn bad_frame(&mut self, error: &FrameError) {
        let stats = self.caller.stats();
        if matches!(error, FrameError::Overloaded) {
            stats.overloaded();
            tracing::debug!(target: "caudal", "a message was refused: there is no room for it");
        } else {
            stats.invalid();
            tracing::debug!(target: "caudal", %error, "a frame is not valid");
        }
        let is_refused = matches!(error, FrameError::TooLarge { .. } | FrameError::Overloaded);
        if is_refused || self.caller.incoming().answers_unreadable(stats) {
            self.write_error(Id::NULL, &error.to_wire(self.detail()));
        }
    }

    fn detail(&self) -> ErrorDetail {
        self.caller.config().policy.error_detail
    }

    fn write_error(&mut self, id: Id<'_>, error: &JsonRpcError) {
        let written: Result<(), Infallible> = self.write(|out| {
            encode::error(out, id, error);
            Ok(())
        });
        let Ok(()) = written;
    }

    /// Writes one message.
    #[inline]
    pub(crate) fn write<E>(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.target {
            Target::Connection(connection) => {
                // Messages that the handler has sent go before its reply.
                connection.sender.take_output(self.out);
                let Some(tap) = &connection.config.tap else {
                    return connection.framing.write(self.out, write);
                };
                connection.framing.write(self.out, |out| {
                    let start = out.len();
                    write(out)?;
                    let message = out.get(start..).unwrap_or_default();
                    tap::show(tap, Direction::Sent, message);
                    Ok(())
                })
            }
            Target::Frame(framing) => framing.write(self.out, write),
            Target::Bare => write(self.out),
        }
    }
}

/// Logs at DEBUG: the other side could fill the log with notifications.
#[cold]
fn log_failed_notification(method: &str, error: &JsonRpcError) {
    let method = shorten(method);
    tracing::debug!(target: "caudal", method, %error, "a notification failed");
}
