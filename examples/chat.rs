//! A chat: clients call the server, and it tells all of them what one has said.
//!
//! `cargo run --release --example chat -- serve tcp://127.0.0.1:0`, and in other
//! terminals, with the address that it prints:
//! `cargo run --release --example chat -- join tcp://127.0.0.1:PORT NAME`
#![allow(clippy::print_stdout, reason = "it is a chat")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};

use caudal::{Context, JsonRpcError, Peer, PeerId, PreparedNotification, Router, State};
use tokio::sync::mpsc;

/// The members of the chat, with their names.
#[derive(Default)]
struct Room(Mutex<HashMap<PeerId, (Peer, String)>>);

impl Room {
    fn join(&self, peer: &Peer, name: String) -> Result<(), JsonRpcError> {
        let said = format!("{name} has joined");
        match self.members().entry(peer.id()) {
            Entry::Occupied(_) => return Err(JsonRpcError::new(2, "you have joined already")),
            Entry::Vacant(free) => drop(free.insert((peer.clone(), name))),
        }
        self.tell(&said)
    }

    fn say(&self, peer: &Peer, text: &str) -> Result<(), JsonRpcError> {
        let name = self.members().get(&peer.id()).map(|(_, name)| name.clone());
        let name = name.ok_or_else(|| JsonRpcError::new(1, "join first"))?;
        self.tell(&format!("{name}: {text}"))
    }

    fn leave(&self, peer: &Peer) {
        let left = self.members().remove(&peer.id());
        if let Some((_, name)) = left {
            let _ = self.tell(&format!("{name} has left"));
        }
    }

    /// Tells all members. The line is serialised once, however many they are. A member who
    /// reads too slowly misses it; the others do not wait.
    fn tell(&self, line: &str) -> Result<(), JsonRpcError> {
        let line = PreparedNotification::new("line", [line])
            .map_err(|_| JsonRpcError::internal_error())?;
        for (member, _) in self.members().values() {
            // A member who is gone, or does not read, is no reason to fail.
            let _ = member.try_publish(&line);
        }
        Ok(())
    }

    fn members(&self) -> MutexGuard<'_, HashMap<PeerId, (Peer, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(endpoint: &str) -> Result<(), Box<dyn Error>> {
    let router = Router::with_state(Room::default())
        .method(
            "join",
            |room: State<Room>, cx: Context, (name,): (String,)| room.join(cx.peer(), name),
        )
        .method(
            "say",
            |room: State<Room>, cx: Context, (text,): (String,)| room.say(cx.peer(), &text),
        );
    let room = router.state();
    let server = caudal::serve(endpoint, router)
        .on_disconnect(move |peer, _| {
            room.leave(&peer);
            async {}
        })
        .await?;
    println!("serving on {}", server.endpoint());
    server.wait().await;
    Ok(())
}

async fn join(endpoint: &str, name: &str) -> Result<(), Box<dyn Error>> {
    let router = Router::new().method("line", |(line,): (String,)| println!("{line}"));
    let peer = caudal::connect(endpoint).router(router).await?;
    let () = peer.call("join", [name]).await?;
    let mut lines = stdin_lines();
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => peer.call::<()>("say", [line]).await?,
                None => return Ok(()),
            },
            reason = peer.closed() => return Err(reason.into()),
        }
    }
}

/// The lines of stdin, from a thread that nobody waits for at the end.
fn stdin_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", endpoint] => serve(endpoint).await,
        ["join", endpoint, name] => join(endpoint, name).await,
        _ => Err("use: chat serve ENDPOINT | chat join ENDPOINT NAME".into()),
    }
}
