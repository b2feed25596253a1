//! Close frames of a WebSocket: those that are sent, and those that were received.

use std::error::Error;

use caudal_core::{CloseReason, FrameError};

use super::frames::Violation;
use crate::transport::ShuttingDown;

/// Close frame of the other side.
#[derive(Debug, thiserror::Error)]
pub(super) enum Goodbye {
    #[error("it gave no reason")]
    Silent,
    #[error("close code {code}")]
    Code { code: u16 },
    #[error("close code {code}: {text}")]
    Text { code: u16, text: Box<str> },
}

impl Goodbye {
    /// Reads the payload of a close frame.
    pub(super) fn parse(payload: &[u8]) -> Result<Self, Broken> {
        let Some((code, text)) = payload.split_first_chunk() else {
            return match payload.is_empty() {
                true => Ok(Self::Silent),
                false => Err(Violation::NoCode.into()),
            };
        };
        let code = u16::from_be_bytes(*code);
        // RFC 6455, section 7.4, and codes that were registered later.
        if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
            return Err(Violation::Code(code).into());
        }
        match std::str::from_utf8(text) {
            Ok("") => Ok(Self::Code { code }),
            Ok(text) => Ok(Self::Text {
                code,
                text: text.into(),
            }),
            Err(_) => Err(Broken::NotUtf8),
        }
    }
}

/// The reason why this side closes a WebSocket.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("the stream ended without a closing handshake")]
    Ended,
    #[error("the stream ended within a message")]
    Cut,
    #[error("a text is not UTF-8")]
    NotUtf8,
    #[error("the WebSocket protocol was broken")]
    Protocol(#[from] Violation),
    #[error("a ping was not answered in time")]
    Silent,
}

/// The status code of a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum CloseCode {
    Normal = 1000,
    Away = 1001,
    Protocol = 1002,
    Invalid = 1007,
    Policy = 1008,
    Size = 1009,
    Again = 1013,
}

/// A close frame to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloseFrame {
    pub(super) code: CloseCode,
    pub(super) reason: &'static str,
}

impl CloseFrame {
    /// Returns the payload of the frame.
    pub(super) fn payload(self) -> Vec<u8> {
        let code = (self.code as u16).to_be_bytes();
        [&code, self.reason.as_bytes()].concat()
    }
}

/// Returns the close frame for the reason why the connection ends.
pub(super) fn frame(reason: &CloseReason) -> CloseFrame {
    let (code, reason) = words(reason);
    CloseFrame { code, reason }
}

/// Returns the close frame for a WebSocket beyond the limit of connections.
pub(super) const fn too_many() -> CloseFrame {
    CloseFrame {
        code: CloseCode::Again,
        reason: "too many connections",
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
    match cause.and_then(|cause| cause.downcast_ref()) {
        Some(FrameError::TooLarge { .. }) => {
            return (CloseCode::Size, "the message is too large");
        }
        Some(FrameError::Overloaded) => return (CloseCode::Again, "the server is overloaded"),
        _ => {}
    }
    match cause.and_then(|cause| cause.downcast_ref()) {
        Some(Broken::NotUtf8) => (CloseCode::Invalid, "a text is not UTF-8"),
        Some(Broken::Silent) => (CloseCode::Policy, "a ping was not answered"),
        Some(_) => (CloseCode::Protocol, "the protocol was broken"),
        None => (CloseCode::Policy, "the connection is given up"),
    }
}
