//! Where the answers to a message go, and what each of them is.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use bytes::BytesMut;
use caudal_core::{
    ErrorCode, ErrorDetail, FrameError, Framing, Id, Invalid, InvalidKind, JsonRpcError, Message,
    encode,
};
use serde::Serialize;

use super::incident;
use super::time_slice::Turn;
use super::{Arriving, Invoked, Refused};
use crate::connection::Link;
use crate::observe::span::shown;
use crate::observe::trace::TraceContext;

/// When a message came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Now,
    /// Before, and conventions were heeded then.
    Heeded,
    /// When nothing new was taken in: a request is turned away.
    Late,
}

/// Where replies go.
pub(crate) struct Exchange<'c> {
    pub(crate) link: &'c Arc<Link>,
    /// What handlers see in the place of `link`.
    pub(crate) caller: Option<&'c Arc<Link>>,
    pub(crate) out: &'c mut BytesMut,
    /// How a reply is framed; `None` within a batch.
    pub(crate) framing: Option<Framing>,
    /// Whether `out` is the connection's own, so that what handlers have sent
    /// themselves belongs into it too.
    pub(crate) inline: bool,
    pub(crate) came: Came,
    /// The turn in which it is served; a batch begins one of its own without it.
    pub(crate) turn: Option<Turn>,
    /// What the next call came with.
    pub(super) trace: Option<Box<TraceContext>>,
    /// Whether the last call was answered, or owed no answer.
    pub(super) answered: bool,
    /// Whether the last answer was an error.
    failed: bool,
}

impl<'c> Exchange<'c> {
    /// Into the output of the connection, by its own task.
    pub(crate) fn inline(link: &'c Arc<Link>, out: &'c mut BytesMut) -> Self {
        Self {
            link,
            caller: None,
            out,
            framing: Some(link.framing),
            inline: true,
            came: Came::Now,
            turn: None,
            trace: None,
            answered: false,
            failed: false,
        }
    }

    /// Into a frame that is sent later.
    pub(crate) fn for_frame(link: &'c Arc<Link>, out: &'c mut BytesMut) -> Self {
        Self {
            inline: false,
            ..Self::inline(link, out)
        }
    }

    /// Into a place of a batch, or without any frame.
    pub(crate) fn for_entry(link: &'c Arc<Link>, out: &'c mut BytesMut) -> Self {
        Self {
            framing: None,
            ..Self::for_frame(link, out)
        }
    }
}

impl Exchange<'_> {
    /// Runs `handler` and writes what it returns; a panic is answered too.
    #[inline]
    pub(crate) fn answer<T: Serialize>(
        &mut self,
        id: Option<Id<'_>>,
        method: &Arc<str>,
        handler: impl FnOnce() -> Option<Result<T, JsonRpcError>>,
    ) -> Poll<()> {
        self.guard(id, method, |exchange| match handler() {
            Some(result) => {
                if let Err(error) = &result {
                    incident::name(method, id, error);
                }
                exchange.reply(id, method, result);
                Poll::Ready(())
            }
            None => Poll::Pending,
        })
        .unwrap_or(Poll::Ready(()))
    }

    /// Runs `work`; `None` if it panicked, and then that is answered.
    #[inline]
    pub(crate) fn guard<R>(
        &mut self,
        id: Option<Id<'_>>,
        method: &impl AsRef<str>,
        work: impl FnOnce(&mut Self) -> R,
    ) -> Option<R> {
        self.answered = false;
        // What a panic leaves half-written, `encode` cuts off again.
        match catch_unwind(AssertUnwindSafe(|| work(self))) {
            Ok(done) => Some(done),
            Err(payload) => {
                let error = incident::report_panic(method.as_ref(), id, payload);
                // It may have come from a `Drop` after the answer.
                if !self.answered {
                    self.reply(id, method, Err::<(), _>(error));
                }
                None
            }
        }
    }

    /// Writes the answer to a call, and counts that; a notification is only counted.
    #[inline]
    pub(crate) fn reply<T: Serialize>(
        &mut self,
        id: Option<Id<'_>>,
        method: &impl AsRef<str>,
        result: Result<T, JsonRpcError>,
    ) {
        self.failed = result.is_err();
        self.answered = id.is_none();
        let Some(id) = id else {
            self.link.stats.served(false, self.failed);
            if let Err(error) = result {
                log_failed_notification(method.as_ref(), &error);
            }
            return;
        };
        match &result {
            Ok(value) => {
                if let Err(error) = self.put(|out| encode::reply(out, id, value)) {
                    self.failed = true;
                    self.error(id, &incident::report(method.as_ref(), Some(id), error));
                }
            }
            Err(error) => self.error(id, error),
        }
        self.answered = true;
        // Not before: what does not serialise is an error, or panics and comes here again.
        self.link.stats.served(true, self.failed);
    }

    /// Writes an error.
    pub(crate) fn error(&mut self, id: Id<'_>, error: &JsonRpcError) {
        let written: Result<(), std::convert::Infallible> = self.put(|out| {
            encode::error(out, id, error);
            Ok(())
        });
        let Ok(()) = written;
    }

    /// Writes one message.
    #[inline]
    pub(crate) fn put<E>(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.framing {
            Some(_) if self.inline => {
                // What the handler has sent goes before its answer.
                self.link.collect_output(self.out);
                self.link.write_shown(self.out, write)
            }
            Some(framing) => framing.write(self.out, write),
            None => write(self.out),
        }
    }

    /// Answers a call that its handler will not see.
    pub(crate) fn refuse<'a>(&mut self, refused: Refused<'a>, method: &Arc<str>) -> Invoked<'a> {
        match refused {
            Refused::Not(message) => Invoked::Not(message),
            Refused::Params(id, mut error) => {
                // What is not answered is logged in full.
                if id.is_some() && self.link.detail() == ErrorDetail::Minimal {
                    error.data = None;
                }
                self.reply(id, method, Err::<(), _>(error));
                Invoked::Done
            }
        }
    }

    /// Tells the sender what is wrong with a message, if it is owed that.
    pub(crate) fn invalid(&mut self, invalid: &Invalid<'_>) {
        self.link.stats.invalid();
        tracing::debug!(target: "caudal", cause = %invalid.cause, "a message is not valid");
        match invalid.kind {
            InvalidKind::Request => {
                let garbage = invalid.code == ErrorCode::PARSE_ERROR;
                if !garbage {
                    self.link.understands();
                }
                // What came by other ways, such as a POST, is answered there.
                if !garbage || !self.inline || self.link.answers_garbage() {
                    self.error(invalid.id, &invalid.to_wire(self.link.detail()));
                }
            }
            InvalidKind::Response => self.link.settle_invalid(invalid),
            _ => {}
        }
    }

    /// Tells the sender that a frame could not be read.
    pub(crate) fn bad_frame(&mut self, error: &FrameError) {
        self.link.stats.invalid();
        tracing::debug!(target: "caudal", %error, "a frame is not valid");
        if matches!(error, FrameError::TooLarge { .. }) || self.link.answers_garbage() {
            self.error(Id::NULL, &error.to_wire(self.link.detail()));
        }
    }

    /// How the last call ended, in a word.
    pub(crate) fn outcome(&self) -> &'static str {
        if self.failed { "error" } else { "ok" }
    }

    /// Answers a request that there is no room for, or no time any more.
    pub(crate) fn turn_away(&mut self, id: Id<'_>, shutting_down: bool) {
        let error = match shutting_down {
            true => JsonRpcError::new(ErrorCode::SHUTTING_DOWN, "Server is shutting down"),
            false => JsonRpcError::new(ErrorCode::SERVER_OVERLOADED, "Server overloaded"),
        };
        self.link.stats.overloaded();
        self.error(id, &error);
    }

    /// The same for a call of which perhaps not all is read.
    #[cold]
    pub(super) fn turn_away_call<'a>(&mut self, arriving: Arriving<'a, '_, '_>) -> Invoked<'a> {
        let id = match arriving {
            Arriving::Whole { id, .. } => id,
            Arriving::Partly(decoder) => match decoder.finish() {
                Message::Request(request) => Some(request.id),
                Message::Notification(_) => None,
                other => return Invoked::Not(Box::new(other)),
            },
        };
        match id {
            Some(id) => self.turn_away(id, false),
            None => self.link.stats.dropped(1),
        }
        Invoked::Done
    }
}

/// Not louder: whoever sends notifications could fill the log.
#[cold]
fn log_failed_notification(method: &str, error: &JsonRpcError) {
    let method = shown(method);
    tracing::debug!(target: "caudal", method, %error, "a notification failed");
}
