//! caudal as a user gets it: every limit, timeout, order rule and statistic on.

use caudal::{Address, RawValue, Router};
use caudal_bench::order::{self, Order};
use caudal_bench::spin::spin;

use super::{Framing, Outcome, Transport};

/// `asynchronous` makes the handlers of `add` and `echo` futures that are ready at once.
pub(super) fn serve(
    transport: Transport,
    framing: Framing,
    asynchronous: bool,
    one_thread: bool,
) -> Outcome {
    let router = match asynchronous {
        false => Router::new()
            .method("add", |(a, b): (i64, i64)| Ok(a + b))
            .method("echo", |params: Box<RawValue>| Ok(params)),
        true => Router::new()
            .method("add", |(a, b): (i64, i64)| async move { Ok(a + b) })
            .method("echo", |params: Box<RawValue>| async move { Ok(params) }),
    };
    let router = router
        .method("spin", |(a, b): (i64, i64)| {
            spin();
            Ok(a + b)
        })
        .method("place", |order: Order| Ok(order::place(&order)));
    let framing = match framing {
        Framing::Line => "line",
        Framing::Header => "header",
    };
    let endpoint = match transport {
        Transport::Stdio => format!("stdio:?framing={framing}"),
        Transport::Tcp => format!("tcp://127.0.0.1:0?framing={framing}"),
    };
    // One thread for a pipe, as a plug-in would have; all cores for a server.
    let mut runtime = match transport {
        Transport::Tcp if !one_thread => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    runtime.enable_all().build()?.block_on(async {
        let server = caudal::serve(endpoint, router).await?;
        if let Address::Tcp { port, .. } = server.endpoint().address() {
            super::announce(*port)?;
        }
        server.wait().await;
        Ok(())
    })
}
