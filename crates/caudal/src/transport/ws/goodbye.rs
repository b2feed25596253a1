//! How a WebSocket ends: what is said, and what was heard.

use std::error::Error;

use caudal_core::{CloseReason, FrameError};
use tungstenite::Utf8Bytes;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;

use crate::transport::ShuttingDown;

/// The other side has said that it closes.
#[derive(Debug, thiserror::Error)]
pub(super) enum Goodbye {
    #[error("it gave no reason")]
    Silent,
    #[error("close code {code}")]
    Code { code: u16 },
    #[error("close code {code}: {text}")]
    Text { code: u16, text: Box<str> },
}

impl From<Option<CloseFrame>> for Goodbye {
    fn from(frame: Option<CloseFrame>) -> Self {
        match frame {
            None => Self::Silent,
            Some(frame) => {
                let code = frame.code.into();
                match frame.reason.as_str() {
                    "" => Self::Code { code },
                    text => Self::Text {
                        code,
                        text: text.into(),
                    },
                }
            }
        }
    }
}

/// Why this side gives a WebSocket up.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the stream ended without a closing handshake")]
    Ended,
    #[error("the stream ended within a message")]
    Cut,
    #[error("a text is not UTF-8")]
    NotUtf8,
    #[error("the WebSocket protocol was broken")]
    Protocol(#[source] tungstenite::Error),
    #[error("a ping was not answered in time")]
    Silent,
}

/// What is said when the connection ends for this reason.
pub(super) fn frame(reason: &CloseReason) -> CloseFrame {
    let (code, text) = words(reason);
    CloseFrame {
        code,
        reason: Utf8Bytes::from_static(text),
    }
}

/// What is said to one for whom there is no room.
pub(super) const fn too_many() -> CloseFrame {
    CloseFrame {
        code: CloseCode::Again,
        reason: Utf8Bytes::from_static("too many connections"),
    }
}

fn words(reason: &CloseReason) -> (CloseCode, &'static str) {
    let cause = reason.source();
    if cause.is_some_and(|cause| cause.is::<ShuttingDown>()) {
        return (CloseCode::Away, "shutting down");
    }
    if reason.is_local() || reason.is_remote() {
        return (CloseCode::Normal, "");
    }
    if let Some(FrameError::TooLarge { .. }) = cause.and_then(|cause| cause.downcast_ref()) {
        return (CloseCode::Size, "the message is too large");
    }
    match cause.and_then(|cause| cause.downcast_ref()) {
        Some(Broken::NotUtf8) => (CloseCode::Invalid, "a text is not UTF-8"),
        Some(Broken::Silent) => (CloseCode::Policy, "a ping was not answered"),
        Some(_) => (CloseCode::Protocol, "the protocol was broken"),
        None => (CloseCode::Policy, "the connection is given up"),
    }
}
