//! A transport of your own: whole messages through channels, chosen at run time
//! in the place of TCP.
//!
//! `cargo run --release --example custom_transport -- channel` (or `tcp`)
#![allow(clippy::print_stdout, reason = "it shows the answers")]

use std::error::Error;
use std::io;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::{Bytes, BytesMut};
use caudal::transport::{ReceiveError, Stream, Transport, TransportInfo};
use caudal::{CloseReason, Context, Framing, Peer, Router};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

/// One end of a pair of channels that carry a message at a time.
struct Channel {
    sender: PollSender<Bytes>,
    receiver: mpsc::Receiver<Bytes>,
    /// The message that is lent out.
    message: Bytes,
}

impl Channel {
    fn pair() -> (Self, Self) {
        // With a bound: who sends faster than the other side reads must wait.
        let (to_there, from_here) = mpsc::channel(16);
        let (to_here, from_there) = mpsc::channel(16);
        let end = |sender, receiver| Self {
            sender: PollSender::new(sender),
            receiver,
            message: Bytes::new(),
        };
        (end(to_there, from_there), end(to_here, from_here))
    }
}

impl Transport for Channel {
    fn poll_receive(
        &mut self,
        cx: &mut TaskContext<'_>,
    ) -> Poll<Result<Option<&[u8]>, ReceiveError>> {
        match ready!(self.receiver.poll_recv(cx)) {
            Some(message) => {
                self.message = message;
                Poll::Ready(Ok(Some(&self.message)))
            }
            None => Poll::Ready(Ok(None)),
        }
    }

    fn poll_send(&mut self, cx: &mut TaskContext<'_>, out: &mut BytesMut) -> Poll<io::Result<()>> {
        let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        // Messages come with a newline after each; a channel needs none.
        while let Some(end) = out.iter().position(|byte| *byte == b'\n') {
            ready!(self.sender.poll_reserve(cx)).map_err(closed)?;
            let mut message = out.split_to(end + 1);
            message.truncate(end);
            self.sender.send_item(message.freeze()).map_err(closed)?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(
        &mut self,
        _: &mut TaskContext<'_>,
        _: &CloseReason,
    ) -> Poll<Option<CloseReason>> {
        self.sender.close();
        Poll::Ready(None)
    }

    fn info(&self) -> TransportInfo {
        TransportInfo::default().remote("channel".to_owned())
    }
}

/// Two ends of one connection, of the kind that is asked for.
async fn connection(kind: &str) -> Result<[Box<dyn Transport>; 2], Box<dyn Error>> {
    if kind == "channel" {
        let (here, there) = Channel::pair();
        return Ok([Box::new(here), Box::new(there)]);
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let here = TcpStream::connect(listener.local_addr()?).await?;
    let (there, _) = listener.accept().await?;
    let stream = |io| Stream::new(io, Framing::Line).with_remote("tcp");
    Ok([Box::new(stream(here)), Box::new(stream(there))])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let kind = std::env::args().nth(1).unwrap_or("channel".to_owned());
    if !["channel", "tcp"].contains(&kind.as_str()) {
        return Err(format!("`{kind}` is no transport; use `channel` or `tcp`").into());
    }
    let [here, there] = connection(&kind).await?;
    let ours = Router::new().method("name", || Ok("Ada"));
    let theirs = Router::new().method("greet", |cx: Context| async move {
        let name: String = cx.peer().call("name", ()).await?;
        Ok(format!("Hello, {name}!"))
    });
    let peer = Peer::start(here, ours);
    let other = Peer::start(there, theirs);

    let greeting: String = peer.call("greet", ()).await?;
    println!("over {}: {greeting}", peer.remote().unwrap_or("?"));
    peer.close();
    println!("the other end: {}", other.closed().await);
    Ok(())
}
