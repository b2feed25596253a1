//! tower-lsp-server: a custom method, in the runtime of its examples.

use tower_lsp_server::jsonrpc::Result;
use tower_lsp_server::ls_types::{InitializeParams, InitializeResult};
use tower_lsp_server::{LanguageServer, LspService, Server};

use super::Outcome;

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
}

#[tokio::main]
pub(super) async fn serve() -> Outcome {
    let (service, socket) = LspService::build(|_| Backend)
        .custom_method("add", Backend::add)
        .finish();
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    Server::new(stdin, stdout, socket).serve(service).await;
    Ok(())
}
