//! The whole of caudal but for the connection: `Router::handle`, which finds methods in
//! its table as the other libraries do.

use caudal::{JsonRpcError, RawValue, Router};
use futures_executor::block_on;

use super::Contestant;
use crate::order::{self, Order};

pub(super) struct Server(Router);

impl Default for Server {
    fn default() -> Self {
        let router = Router::new()
            .method("add", |(a, b): (i64, i64)| Ok(a + b))
            .method("add-async", |(a, b): (i64, i64)| async move { Ok(a + b) })
            .method("place", |order: Order| Ok(order::place(&order)))
            .method("echo", |params: Box<RawValue>| Ok(params))
            .method("fail", || Err::<(), _>(JsonRpcError::new(1, "no")));
        Self(router)
    }
}

impl Contestant for Server {
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // A notification has no reply.
        if let Some(reply) = block_on(self.0.handle(bytes)) {
            out.extend_from_slice(&reply);
        }
    }
}
