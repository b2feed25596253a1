//! The sender of a call: a connection, or one lone message.

use std::sync::Arc;

use caudal_core::{CallError, CloseReason, Invalid, RawJson, Response};

use super::lone::LoneExchange;
use crate::config::Config;
use crate::connection::incoming::IncomingCalls;
use crate::connection::{Connection, IdKey};
use crate::extensions::Extensions;
use crate::observe::stats::Counters;
use crate::observe::tap;
use crate::observe::tap::Direction;
use crate::peer::PeerId;
use crate::router::context::ReturnPath;

/// The sender of a call, and what its calls share: configuration, limits, statistics.
#[derive(Clone)]
pub(crate) enum Caller {
    /// The other end of a connection. It can be called back.
    Connection(Arc<Connection>),
    /// A message without a connection, such as a POST.
    Lone(Arc<LoneExchange>),
}

impl Caller {
    #[inline]
    pub(crate) fn config(&self) -> &Arc<Config> {
        match self {
            Self::Connection(connection) => &connection.config,
            Self::Lone(exchange) => &exchange.origin.config,
        }
    }

    #[inline]
    pub(crate) fn stats(&self) -> &Counters {
        match self {
            Self::Connection(connection) => &connection.stats,
            Self::Lone(exchange) => &exchange.origin.stats,
        }
    }

    #[inline]
    pub(crate) fn incoming(&self) -> &IncomingCalls {
        match self {
            Self::Connection(connection) => &connection.incoming,
            Self::Lone(exchange) => &exchange.origin.incoming,
        }
    }

    pub(crate) fn extensions(&self) -> &Extensions {
        match self {
            Self::Connection(connection) => &connection.extensions,
            Self::Lone(exchange) => exchange.extensions(),
        }
    }

    pub(crate) fn remote(&self) -> Option<&str> {
        match self {
            Self::Connection(connection) => connection.remote.as_deref(),
            Self::Lone(exchange) => exchange.origin.remote.as_deref(),
        }
    }

    /// The connection, to send something over it.
    ///
    /// # Errors
    /// A lone message can be sent nothing but its reply.
    pub(crate) fn connection(&self) -> Result<&Arc<Connection>, CallError> {
        match self {
            Self::Connection(connection) => Ok(connection),
            Self::Lone(_) => Err(CallError::AlreadyClosed(CloseReason::nowhere())),
        }
    }

    pub(crate) fn id(&self) -> PeerId {
        match self {
            Self::Connection(connection) => connection.id.get(),
            Self::Lone(exchange) => exchange.id.get(),
        }
    }

    /// Messages that can be sent to the caller beside its replies.
    pub(crate) fn return_path(&self) -> ReturnPath {
        match self {
            Self::Connection(_) => ReturnPath::Calls,
            Self::Lone(_) => ReturnPath::None,
        }
    }

    /// Acts on a notification of the dialect; returns true if nothing else is to be done
    /// with it.
    pub(super) fn handle_convention(&self, method: &str, params: Option<RawJson<'_>>) -> bool {
        match self {
            Self::Connection(connection) => connection.handle_convention(method, params),
            // A lone message is cancelled by dropping it.
            Self::Lone(_) => self.config().dialect.cancelled_id(method, params).is_some(),
        }
    }

    /// Cancels the calls with this id.
    pub(super) fn cancel(&self, id: &IdKey) {
        if let Self::Connection(connection) = self {
            connection.cancel(id);
        }
    }

    /// Hands a response to the call that it answers.
    pub(super) fn settle(&self, response: &Response<'_>) {
        match self {
            Self::Connection(connection) => connection.settle(response),
            Self::Lone(_) => {
                self.stats().late_reply();
                tracing::debug!(target: "caudal", id = %response.id, "a response that no call waits for");
            }
        }
    }

    /// Fails the call that an invalid response answers.
    pub(super) fn settle_invalid(&self, invalid: &Invalid<'_>) {
        match self {
            Self::Connection(connection) => connection.settle_invalid(invalid),
            Self::Lone(_) => self.stats().late_reply(),
        }
    }

    /// Shows the tap a message that came, or that goes its own way.
    pub(crate) fn show(&self, direction: Direction, text: &[u8]) {
        if let Some(tap) = &self.config().tap {
            tap::show(tap, direction, text);
        }
    }
}
