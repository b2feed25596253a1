//! caudal-core's encoders alone.

use caudal_bench_encoders as encoders;
use caudal_core::{JsonRpcError, RawJson};

use super::Contestant;
use crate::message;

/// A success with a small typed result.
pub(super) struct Reply;

impl Contestant for Reply {
    fn take(&mut self, _: &[u8], out: &mut Vec<u8>) {
        encoders::reply(out);
    }
}

/// A success whose result, an order of 1 KB, is JSON already.
pub(super) struct Raw(RawJson<'static>);

impl Default for Raw {
    fn default() -> Self {
        let order = message::named("pass-1k").expect("a message");
        let text = order.reply["result"].to_string().leak();
        Self(RawJson::parse(text).expect("JSON"))
    }
}

impl Contestant for Raw {
    fn take(&mut self, _: &[u8], out: &mut Vec<u8>) {
        encoders::raw(out, self.0);
    }
}

/// An error that says something.
pub(super) struct Error(JsonRpcError);

impl Default for Error {
    fn default() -> Self {
        Self(JsonRpcError::new(1, "the order is \"closed\""))
    }
}

impl Contestant for Error {
    fn take(&mut self, _: &[u8], out: &mut Vec<u8>) {
        encoders::error(out, &self.0);
    }
}

/// A request.
pub(super) struct Call;

impl Contestant for Call {
    fn take(&mut self, _: &[u8], out: &mut Vec<u8>) {
        encoders::call(out);
    }
}

/// A notification.
pub(super) struct Notification;

impl Contestant for Notification {
    fn take(&mut self, _: &[u8], out: &mut Vec<u8>) {
        encoders::notification(out);
    }
}
