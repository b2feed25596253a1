//! karyon_jsonrpc with its defaults: on smol, in its executor with a thread for
//! each core.
//!
//! Over TCP it sends one value after the other and nothing between them (`json` to
//! `load`). A method belongs to a service: `Bench.add`. It knows no batches.

use std::sync::Arc;

use karyon_jsonrpc::error::RPCError;
use karyon_jsonrpc::rpc_impl;
use karyon_jsonrpc::server::ServerBuilder;
use serde_json::{Value, json};

use super::{Outcome, announce};

struct Bench;

#[rpc_impl]
impl Bench {
    async fn add(&self, params: Value) -> Result<Value, RPCError> {
        let (a, b): (i64, i64) = serde_json::from_value(params)?;
        Ok(json!(a + b))
    }

    async fn echo(&self, params: Value) -> Result<Value, RPCError> {
        Ok(params)
    }
}

pub(super) fn serve(transport: &str) -> Outcome {
    smol::block_on(async {
        let server = ServerBuilder::new(format!("{transport}://127.0.0.1:0").as_str())?;
        let server = server.service(Arc::new(Bench)).build().await?;
        let port = server.local_endpoint()?.port()?;
        announce(port)?;
        Ok(server.start_block().await?)
    })
}
