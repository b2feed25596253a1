//! Writes the same bytes to every subscriber, one socket after the other, when
//! the first asks for it.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use caudal_bench::EVENT;
use tungstenite::{Message, WebSocket};

use super::super::{Outcome, accept, listen};

type Subscribers = Arc<Mutex<Vec<TcpStream>>>;

pub(super) fn serve() -> Outcome {
    let listener = listen()?;
    let subscribers = Subscribers::default();
    loop {
        let stream = accept(&listener)?;
        let subscribers = Arc::clone(&subscribers);
        // It ends with its subscriber.
        std::thread::spawn(move || drop(subscribe(stream, &subscribers)));
    }
}

fn subscribe(stream: TcpStream, subscribers: &Subscribers) -> Outcome {
    let mut socket = tungstenite::accept(stream.try_clone()?)?;
    socket.read()?;
    let mut all = lock(subscribers);
    all.push(stream);
    let is_first = all.len() == 1;
    drop(all);
    socket.send(Message::text(r#"{"jsonrpc":"2.0","id":0,"result":true}"#))?;
    match is_first {
        true => fan(socket, subscribers),
        false => Ok(()),
    }
}

fn lock(subscribers: &Subscribers) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
    subscribers.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fan(mut asked: WebSocket<TcpStream>, subscribers: &Subscribers) -> Outcome {
    let text = format!(r#"{{"jsonrpc":"2.0","method":"event","params":["{EVENT}"]}}"#);
    // As long as it is, its length takes two bytes.
    let length = u16::try_from(text.len())?.to_be_bytes();
    let frame = [&[0x81, 126], &length[..], text.as_bytes()].concat();
    loop {
        asked.read()?;
        for mut subscriber in &*lock(subscribers) {
            subscriber.write_all(&frame)?;
        }
        asked.send(Message::text(r#"{"jsonrpc":"2.0","id":1,"result":null}"#))?;
    }
}
