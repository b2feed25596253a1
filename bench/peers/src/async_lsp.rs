//! async-lsp: its router alone, on the pipes it recommends, in the runtime of
//! its examples (one thread). No middleware: only what answers is measured.

use std::ops::ControlFlow;

use async_lsp::lsp_types::{InitializeResult, notification, request};
use async_lsp::router::Router;
use async_lsp::stdio::{PipeStdin, PipeStdout};
use async_lsp::{Error, MainLoop, ResponseError};

use super::Outcome;

enum Add {}

impl request::Request for Add {
    type Params = (i64, i64);
    type Result = i64;
    const METHOD: &'static str = "add";
}

#[tokio::main(flavor = "current_thread")]
pub(super) async fn serve() -> Outcome {
    // Dropping the client's side would end the loop.
    let (server, _client) = MainLoop::new_server(|_| {
        let mut router = Router::<(), ResponseError>::new(());
        router
            .request::<request::Initialize, _>(|(), _| async { Ok(InitializeResult::default()) })
            .notification::<notification::Initialized>(|(), _| ControlFlow::Continue(()))
            .request::<Add, _>(|(), (a, b)| async move { Ok(a + b) });
        router
    });
    let stdin = PipeStdin::lock_tokio()?;
    let stdout = PipeStdout::lock_tokio()?;
    match server.run_buffered(stdin, stdout).await {
        // The client may just go.
        Err(Error::Eof) => Ok(()),
        other => Ok(other?),
    }
}
