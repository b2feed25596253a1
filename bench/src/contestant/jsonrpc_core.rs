//! jsonrpc-core: `IoHandler::handle_request_sync`.

use jsonrpc_core::{Error, IoHandler, Params, Value};

use super::Contestant;
use crate::order::{self, Order};

pub(super) struct Server(IoHandler);

impl Server {
    pub(super) fn new() -> Self {
        let mut io = IoHandler::new();
        io.add_sync_method("add", |params: Params| {
            let (a, b): (i64, i64) = params.parse()?;
            Ok(Value::from(a + b))
        });
        io.add_sync_method("place", |params: Params| {
            let order: Order = params.parse()?;
            serde_json::to_value(order::place(&order)).map_err(|_| Error::internal_error())
        });
        io.add_sync_method("echo", |params: Params| Ok(params.into()));
        Self(io)
    }
}

impl Contestant for Server {
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let text = std::str::from_utf8(bytes).expect("UTF-8");
        let reply = self
            .0
            .handle_request_sync(text)
            .expect("a call is answered");
        out.extend_from_slice(reply.as_bytes());
    }
}
