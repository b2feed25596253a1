//! lsp-server: its loop over a channel, with the threads it brings.
//!
//! Over TCP it brings them only together with a socket it has accepted itself, and
//! does not set TCP_NODELAY on it: each reply then waits for the client's delayed
//! acknowledgement. So the two threads around the socket are written again here,
//! as in its `socket.rs`: the same channels without room, the same reads and
//! writes, a third thread that drops what was written. Only TCP_NODELAY is new, and
//! that there may be more than one connection.

use std::io::BufReader;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use crossbeam_channel::bounded;
use lsp_server::{Connection, ErrorCode, Message, Response};
use serde_json::json;

use super::{Outcome, announce};

pub(super) fn serve() -> Outcome {
    let (connection, threads) = Connection::stdio();
    answer_all(&connection)?;
    drop(connection);
    Ok(threads.join()?)
}

pub(super) fn serve_tcp() -> Outcome {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    announce(listener.local_addr()?.port())?;
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let connection = connection(stream)?;
        // The client may just go.
        thread::spawn(move || drop(answer_all(&connection)));
    }
}

fn answer_all(connection: &Connection) -> Outcome {
    connection.initialize(json!({}))?;
    for message in &connection.receiver {
        let Message::Request(request) = message else {
            continue;
        };
        if connection.handle_shutdown(&request)? {
            break;
        }
        let reply = match request.method.as_str() {
            "echo" => Response::new_ok(request.id, request.params),
            "add" => {
                let add = request.extract("add");
                let (id, (a, b)): (_, (i64, i64)) = add.map_err(|e| format!("{e:?}"))?;
                Response::new_ok(id, a + b)
            }
            other => {
                let code = ErrorCode::MethodNotFound as i32;
                let message = format!("no method {other}");
                Response::new_err(request.id, code, message)
            }
        };
        connection.sender.send(Message::Response(reply))?;
    }
    Ok(())
}

/// What `lsp_server::Connection::listen` makes of a socket.
fn connection(mut stream: TcpStream) -> std::io::Result<Connection> {
    let mut input = BufReader::new(stream.try_clone()?);
    let (read, receiver) = bounded(0);
    thread::spawn(move || {
        while let Ok(Some(message)) = Message::read(&mut input) {
            if read.send(message).is_err() {
                return;
            }
        }
    });
    let (sender, written) = bounded::<Message>(0);
    let (done, dropped) = bounded::<Message>(0);
    thread::spawn(move || {
        for message in written {
            if message.write(&mut stream).is_err() {
                return;
            }
            drop(done.send(message));
        }
    });
    thread::spawn(move || dropped.into_iter().for_each(drop));
    Ok(Connection { sender, receiver })
}
