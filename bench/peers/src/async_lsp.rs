//! async-lsp: its router alone. No middleware: only what answers is measured.
//!
//! A pipe as it recommends, in the runtime of its examples (one thread). It has no
//! example of a socket: here it has all cores, and a main loop for each connection.

use std::ops::ControlFlow;

use async_lsp::lsp_types::{InitializeResult, notification, request};
use async_lsp::router::Router;
use async_lsp::stdio::{PipeStdin, PipeStdout};
use async_lsp::{ClientSocket, Error, MainLoop, ResponseError};
use serde_json::Value;
use tokio_util::compat::{TokioAsyncReadCompatExt as _, TokioAsyncWriteCompatExt as _};

use super::{Outcome, accept, listen};

enum Add {}

impl request::Request for Add {
    type Params = (i64, i64);
    type Result = i64;
    const METHOD: &'static str = "add";
}

enum Echo {}

impl request::Request for Echo {
    type Params = Value;
    type Result = Value;
    const METHOD: &'static str = "echo";
}

type Service = Router<(), ResponseError>;

/// Dropping the client's side would end the loop.
fn main_loop() -> (MainLoop<Service>, ClientSocket) {
    MainLoop::new_server(|_| {
        let mut router = Service::new(());
        router
            .request::<request::Initialize, _>(|(), _| async { Ok(InitializeResult::default()) })
            .notification::<notification::Initialized>(|(), _| ControlFlow::Continue(()))
            .request::<Add, _>(|(), (a, b)| async move { Ok(a + b) })
            .request::<Echo, _>(|(), params| async move { Ok(params) });
        router
    })
}

#[tokio::main(flavor = "current_thread")]
pub(super) async fn serve() -> Outcome {
    let (server, _client) = main_loop();
    let stdin = PipeStdin::lock_tokio()?;
    let stdout = PipeStdout::lock_tokio()?;
    match server.run_buffered(stdin, stdout).await {
        // The client may just go.
        Err(Error::Eof) => Ok(()),
        other => Ok(other?),
    }
}

#[tokio::main]
pub(super) async fn serve_tcp() -> Outcome {
    let listener = listen().await?;
    loop {
        let (from, to) = accept(&listener).await?.into_split();
        let (server, client) = main_loop();
        tokio::spawn(async move {
            // However it ends, it has no more to say.
            drop(server.run_buffered(from.compat(), to.compat_write()).await);
            drop(client);
        });
    }
}
