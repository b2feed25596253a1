//! tower-lsp-server: custom methods, in the runtime of its examples.

use serde_json::Value;
use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::{InitializeParams, InitializeResult};
use tower_lsp_server::{ClientSocket, LanguageServer, LspService, Server};

use super::{Outcome, accept, listen};

struct Backend;

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}

impl Backend {
    async fn add(&self, (a, b): (i64, i64)) -> Result<i64> {
        Ok(a + b)
    }

    async fn echo(&self, params: Value) -> Result<Value> {
        Ok(params)
    }
}

fn service() -> (LspService<Backend>, ClientSocket) {
    LspService::build(|_| Backend)
        .custom_method("add", Backend::add)
        .custom_method("echo", Backend::echo)
        .finish()
}

#[tokio::main]
pub(super) async fn serve() -> Outcome {
    let (service, socket) = service();
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    Server::new(stdin, stdout, socket).serve(service).await;
    Ok(())
}

/// A service for each connection.
#[tokio::main]
pub(super) async fn serve_tcp() -> Outcome {
    let listener = listen().await?;
    loop {
        let (from, to) = accept(&listener).await?.into_split();
        let (service, socket) = service();
        tokio::spawn(Server::new(from, to, socket).serve(service));
    }
}
