//! Servers over HTTP and WebSocket.
//!
//! ```text
//! bare http     blocking: one read, serde, add, one write; a thread per connection
//! bare ws       the same around tungstenite
//! hyper http    a fixed body, whatever it is asked: what HTTP alone costs
//! caudal        as a user gets it; HTTP and WebSocket are on the same port
//! bare-fan ws   writes the same bytes to every subscriber when it is asked
//! ```

mod bare;
mod caudal;
mod fan;
mod hyper;
mod socket;

use super::Outcome;

/// `one_thread` is for callgrind: what the threads of a runtime say to each other
/// is different on every run.
pub(super) fn serve(name: &str, transport: &str, one_thread: bool) -> Outcome {
    match (name, transport) {
        ("bare", "http") => bare::serve(),
        ("bare", "ws") => socket::serve(),
        ("bare-fan", "ws") => fan::serve(),
        ("hyper", "http") => runtime(one_thread)?.block_on(hyper::serve()),
        ("caudal", "http" | "ws") => runtime(one_thread)?.block_on(caudal::serve()),
        _ => Err(format!("no contestant `{name}` over {transport}").into()),
    }
}

fn runtime(one_thread: bool) -> std::io::Result<tokio::runtime::Runtime> {
    let mut runtime = match one_thread {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.enable_all().build()
}
