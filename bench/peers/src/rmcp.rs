//! rmcp: `add` as a tool, in the runtime of its examples. An MCP reply carries the
//! sum as text.
//!
//! Its documentation names `stdio` for a server; `stdio_pipes`, which it has since 3.6, must
//! be asked for and is faster. Both take part.

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::{stdio, stdio_pipes};
use rmcp::{ServerHandler, ServiceExt as _, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Outcome;

#[derive(Deserialize, JsonSchema)]
struct Terms {
    a: i64,
    b: i64,
}

struct Adder {
    /// Built once: without the field, `tool_handler` builds it for each call.
    tools: ToolRouter<Self>,
}

#[tool_router]
impl Adder {
    #[tool(description = "Adds two integers")]
    fn add(&self, Parameters(Terms { a, b }): Parameters<Terms>) -> String {
        (a + b).to_string()
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Adder {}

#[tokio::main]
pub(super) async fn serve() -> Outcome {
    serve_on(stdio()).await
}

#[tokio::main]
pub(super) async fn serve_pipes() -> Outcome {
    serve_on(stdio_pipes()).await
}

async fn serve_on<R, W>(pipes: (R, W)) -> Outcome
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let adder = Adder {
        tools: Adder::tool_router(),
    };
    let running = adder.serve(pipes).await?;
    running.waiting().await?;
    Ok(())
}
