//! Remembers that answers could not be written.
//!
//! A peer whose input has ended takes it for a good end if the other side reads no more.
//! For whoever redirects stdout into a file it is not: what is lost is an answer.

use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use caudal::transport::{BytesMut, ReceiveError, Stdio, Transport};
use caudal::{CloseReason, Framing};

/// Why stdout was not written to.
pub(crate) type Lost = Arc<OnceLock<io::Error>>;

/// Stdin and stdout.
pub(crate) struct Watched {
    stdio: Stdio,
    lost: Lost,
}

impl Watched {
    pub(crate) fn new(stdio: Stdio) -> (Self, Lost) {
        let lost = Lost::default();
        let watched = Self {
            stdio,
            lost: Arc::clone(&lost),
        };
        (watched, lost)
    }
}

impl Transport for Watched {
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        self.stdio.poll_receive(cx)
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        self.stdio.poll_send(cx, out).map_err(|error| {
            let kind = error.kind();
            // The first one says most.
            let _ = self.lost.set(error);
            kind.into()
        })
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Option<CloseReason>> {
        self.stdio.poll_close(cx)
    }

    fn framing(&self) -> Framing {
        self.stdio.framing()
    }

    fn received(&self) -> Option<u64> {
        self.stdio.received()
    }

    fn is_amid_frame(&self) -> bool {
        self.stdio.is_amid_frame()
    }

    fn remote(&self) -> Option<String> {
        self.stdio.remote()
    }
}
