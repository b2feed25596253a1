//! A chat: clients call the server, and it tells all of them what one has said.
//!
//! `cargo run --release --example chat -- serve tcp://127.0.0.1:0`, and in other
//! terminals, with the address that it prints:
//! `cargo run --release --example chat -- join tcp://127.0.0.1:PORT NAME`
#![allow(clippy::print_stdout, reason = "it is a chat")]

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use caudal::{Context, JsonRpcError, Peer, PreparedNotification, Router};
use tokio::sync::mpsc;

/// A member's name, kept with the connection.
struct Name(String);

#[derive(Clone, Default)]
struct Room(Arc<Mutex<Vec<Peer>>>);

impl Room {
    fn join(self, peer: Peer, name: String) -> Result<(), JsonRpcError> {
        if peer.extensions().get::<Name>().is_some() {
            return Err(JsonRpcError::new(2, "you have joined already"));
        }
        peer.extensions().insert(Name(name.clone()));
        self.update(|members| members.push(peer.clone()));
        self.tell(&format!("{name} has joined"))?;
        tokio::spawn(async move {
            peer.closed().await;
            self.update(|members| members.retain(|member| !member.state().is_closed()));
            self.tell(&format!("{name} has left"))
        });
        Ok(())
    }

    /// Tells all members. The line is serialised once, however many they are. A member who
    /// reads too slowly misses it; the others do not wait.
    fn tell(&self, line: &str) -> Result<(), JsonRpcError> {
        let event = PreparedNotification::new("line", [line])
            .map_err(|_| JsonRpcError::internal_error())?;
        for member in self.update(|members| members.clone()) {
            // One who is gone, or does not read, is no reason to fail.
            let _ = member.try_publish(&event);
        }
        Ok(())
    }

    fn update<R>(&self, change: impl FnOnce(&mut Vec<Peer>) -> R) -> R {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn serve(endpoint: &str) -> Result<(), Box<dyn Error>> {
    let joining = Room::default();
    let saying = joining.clone();
    let router = Router::new()
        .method("join", move |cx: Context, (name,): (String,)| {
            joining.clone().join(cx.peer().clone(), name)
        })
        .method("say", move |cx: Context, (text,): (String,)| {
            let name = cx.peer().extensions().get::<Name>();
            let name = name.ok_or_else(|| JsonRpcError::new(1, "join first"))?;
            saying.tell(&format!("{}: {text}", name.0))
        });
    let server = caudal::serve(endpoint, router).await?;
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
