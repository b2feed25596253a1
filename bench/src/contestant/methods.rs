//! Servers with many methods, all of them `add` under names of their own.
//!
//! They take no message from outside: each call is for another name, since a table
//! may find one of them by luck.

use caudal::Router;
use futures_executor::block_on;
use jsonrpc_core::{IoHandler, Params, Value};
use jsonrpsee::RpcModule;
use jsonrpsee::types::ErrorObjectOwned;

use super::Contestant;
use super::jsonrpsee::Server;

/// So many names are called in turn.
const NAMES: u32 = 64;

struct Calls {
    texts: Vec<String>,
    next: usize,
}

impl Calls {
    /// Calls of names all over the table.
    fn of(methods: u32) -> Self {
        let called = methods.min(NAMES);
        let text = |call: u32| {
            let name = name(call * (methods / called));
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{name}","params":[1,2]}}"#)
        };
        Self {
            texts: (0..called).map(text).collect(),
            next: 0,
        }
    }

    fn next(&mut self) -> &str {
        self.next = (self.next + 1) % self.texts.len();
        &self.texts[self.next]
    }
}

/// All names are of the same length.
fn name(method: u32) -> String {
    format!("shop/add-{method:05}")
}

pub(super) struct Caudal {
    router: Router,
    calls: Calls,
}

impl Caudal {
    pub(super) fn new(methods: u32) -> Self {
        let mut router = Router::new();
        for method in 0..methods {
            let registered = router.try_method(&name(method), |(a, b): (i64, i64)| Ok(a + b));
            registered.expect("the names differ");
        }
        Self {
            router,
            calls: Calls::of(methods),
        }
    }
}

impl Contestant for Caudal {
    fn take(&mut self, _: &[u8], out: &mut Vec<u8>) {
        let call = self.calls.next().as_bytes();
        let reply = block_on(self.router.handle(call)).expect("a call is answered");
        out.extend_from_slice(&reply);
    }
}

pub(super) struct Jsonrpsee {
    server: Server,
    calls: Calls,
}

impl Jsonrpsee {
    pub(super) fn new(methods: u32) -> Self {
        let mut module = RpcModule::new(());
        for method in 0..methods {
            let registered = module.register_method(name(method).leak(), |params, (), _| {
                let (a, b): (i64, i64) = params.parse()?;
                Ok::<_, ErrorObjectOwned>(a + b)
            });
            registered.expect("the names differ");
        }
        Self {
            server: Server::of(module),
            calls: Calls::of(methods),
        }
    }
}

impl Contestant for Jsonrpsee {
    fn take(&mut self, _: &[u8], out: &mut Vec<u8>) {
        self.server.take(self.calls.next().as_bytes(), out);
    }
}

pub(super) struct JsonrpcCore {
    io: IoHandler,
    calls: Calls,
}

impl JsonrpcCore {
    pub(super) fn new(methods: u32) -> Self {
        let mut io = IoHandler::new();
        for method in 0..methods {
            io.add_sync_method(&name(method), |params: Params| {
                let (a, b): (i64, i64) = params.parse()?;
                Ok(Value::from(a + b))
            });
        }
        Self {
            io,
            calls: Calls::of(methods),
        }
    }
}

impl Contestant for JsonrpcCore {
    fn take(&mut self, _: &[u8], out: &mut Vec<u8>) {
        let reply = self.io.handle_request_sync(self.calls.next());
        out.extend_from_slice(reply.expect("a call is answered").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use crate::contestant;

    #[test]
    fn every_server_answers_every_name() {
        for name in ["caudal", "jsonrpsee", "jsonrpc-core"] {
            for methods in [1, 10, 100] {
                let mut server = contestant::named(&format!("methods-{name}-{methods}")).unwrap();
                for _ in 0..130 {
                    let mut out = Vec::new();
                    server.take(b"", &mut out);
                    let reply = String::from_utf8(out).unwrap();
                    assert!(reply.contains(r#""result":3"#), "{name}: {reply}");
                }
            }
        }
    }
}
