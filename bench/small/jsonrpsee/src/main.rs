//! HTTP and WebSocket on one port, with one method.

use jsonrpsee::RpcModule;
use jsonrpsee::server::Server;
use jsonrpsee::types::ErrorObjectOwned;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder().build("127.0.0.1:4017").await?;
    let mut module = RpcModule::new(());
    module.register_method("add", |params, _, _| {
        let (a, b): (i64, i64) = params.parse()?;
        Ok::<_, ErrorObjectOwned>(a + b)
    })?;
    server.start(module).stopped().await;
    Ok(())
}
