//! rmcp: `add` and `nap` as tools, on the pipes it recommends, in the runtime of its
//! examples. An MCP reply carries the sum as text.

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::stdio_pipes;
use rmcp::{ServerHandler, ServiceExt as _, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{NAP, Outcome};

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

    #[tool(description = "Adds two integers, but not at once")]
    async fn nap(&self, Parameters(Terms { a, b }): Parameters<Terms>) -> String {
        tokio::time::sleep(NAP).await;
        (a + b).to_string()
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Adder {}

#[tokio::main]
pub(super) async fn serve() -> Outcome {
    let adder = Adder {
        tools: Adder::tool_router(),
    };
    let running = adder.serve(stdio_pipes()).await?;
    running.waiting().await?;
    Ok(())
}
