//! jsonrpsee: what its server does between socket and socket with the bytes of a request
//! (`handle_rpc_call` and `RpcService`, both private), from the public parts they are made of.

use jsonrpsee::core::server::{BatchResponseBuilder, MethodCallback, MethodResponse};
use jsonrpsee::types::{ErrorObjectOwned, Params, Request};
use jsonrpsee::{Extensions, RpcModule};
use serde_json::value::RawValue;

use super::Contestant;
use crate::order::{self, Order, Receipt};

fn module() -> RpcModule<()> {
    fn add(params: &Params<'_>) -> Result<i64, ErrorObjectOwned> {
        let (a, b): (i64, i64) = params.parse()?;
        Ok(a + b)
    }
    fn place(params: &Params<'_>) -> Result<Receipt, ErrorObjectOwned> {
        let order: Order = params.parse()?;
        Ok(order::place(&order))
    }
    fn echo(params: &Params<'_>) -> Result<Box<RawValue>, ErrorObjectOwned> {
        params.parse()
    }
    let mut module = RpcModule::new(());
    let fresh = "the names differ";
    module
        .register_method("add", |p, _, _| add(&p))
        .expect(fresh);
    module
        .register_method("place", |p, _, _| place(&p))
        .expect(fresh);
    module
        .register_method("echo", |p, _, _| echo(&p))
        .expect(fresh);
    module
}

pub(super) struct Server(RpcModule<()>);

impl Server {
    pub(super) fn new() -> Self {
        Self(module())
    }

    fn call(&self, request: Request<'_>) -> MethodResponse {
        let params = Params::new(request.params.as_deref().map(RawValue::get));
        match self.0.method_with_name(&request.method) {
            Some((_, MethodCallback::Sync(method))) => {
                method(request.id, params, LIMIT, request.extensions)
            }
            _ => panic!("no method {}", request.method),
        }
    }
}

/// The server's default limit on replies.
const LIMIT: usize = 10 * 1024 * 1024;

impl Contestant for Server {
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // The server clones the connection's extensions into each call.
        let connection = Extensions::new();
        let reply = if bytes.first() == Some(&b'[') {
            let texts: Vec<&RawValue> = serde_json::from_slice(bytes).expect("a batch");
            let mut requests = Vec::with_capacity(texts.len());
            for text in texts {
                let mut request: Request<'_> = serde_json::from_str(text.get()).expect("a call");
                request.extensions = connection.clone();
                requests.push(request);
            }
            let mut replies = BatchResponseBuilder::new_with_limit(LIMIT);
            for request in requests {
                replies
                    .append(self.call(request))
                    .expect("within the limit");
            }
            MethodResponse::from_batch(replies.finish())
        } else {
            let mut request: Request<'_> = serde_json::from_slice(bytes).expect("a call");
            request.extensions = connection;
            self.call(request)
        };
        out.extend_from_slice(reply.as_json().get().as_bytes());
    }
}
