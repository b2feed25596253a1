//! lsp-server: its loop over a channel, with the threads it brings.
//!
//! Only stdio. Its TCP sockets would need TCP_NODELAY, which it does not set:
//! a reply then waits for the client's delayed acknowledgement.

use lsp_server::{Connection, Message, Response};
use serde_json::json;

use super::Outcome;

pub(super) fn serve() -> Outcome {
    let (connection, threads) = Connection::stdio();
    connection.initialize(json!({}))?;
    for message in &connection.receiver {
        let Message::Request(request) = message else {
            continue;
        };
        if connection.handle_shutdown(&request)? {
            break;
        }
        let (id, (a, b)): (_, (i64, i64)) = request.extract("add").map_err(|e| format!("{e:?}"))?;
        let reply = Response::new_ok(id, a + b);
        connection.sender.send(Message::Response(reply))?;
    }
    drop(connection);
    Ok(threads.join()?)
}
