//! The transport over memory: reads, writes and buffers that no peer sees.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::error::Error as _;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use caudal_core::{CloseReason, FrameError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};

use super::frames::Role;
use super::frames::Violation;
use super::frames::tests::masked;
use super::goodbye;
use super::goodbye::{Broken, CloseCode};
use super::socket::WebSocket;
use super::wire::FULL;
use crate::transport::{ReceiveError, ShuttingDown, Transport};
use crate::{Peer, Router};

const LIMIT: usize = 1 << 20;

/// Counts what goes through.
struct Counted {
    io: DuplexStream,
    reads: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
}

impl Counted {
    fn new(io: DuplexStream) -> (Self, Arc<AtomicUsize>, Arc<AtomicUsize>) {
        let (reads, writes) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let counted = Self {
            io,
            reads: Arc::clone(&reads),
            writes: Arc::clone(&writes),
        };
        (counted, reads, writes)
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.reads.fetch_add(1, SeqCst);
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.writes.fetch_add(1, SeqCst);
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

fn server(io: DuplexStream) -> WebSocket<DuplexStream> {
    WebSocket::new(io, Role::Server, LIMIT)
}

async fn receive<T: Transport>(socket: &mut T) -> Result<Vec<u8>, ReceiveError> {
    poll_fn(|cx| {
        socket
            .poll_receive(cx)
            .map_ok(|frame| frame.unwrap().to_vec())
    })
    .await
}

async fn send<T: Transport>(socket: &mut T, text: &[u8]) {
    let mut out = BytesMut::from(text);
    poll_fn(|cx| socket.poll_send(cx, &mut out)).await.unwrap();
    assert!(out.is_empty());
}

/// Polls once.
fn glance<T: Transport>(socket: &mut T) -> Poll<Result<Option<Vec<u8>>, ReceiveError>> {
    let mut cx = Context::from_waker(std::task::Waker::noop());
    socket
        .poll_receive(&mut cx)
        .map_ok(|frame| frame.map(<[u8]>::to_vec))
}

#[tokio::test]
async fn a_burst_leaves_in_one_write() {
    for role in [Role::Server, Role::Client] {
        let (here, mut there) = tokio::io::duplex(1 << 20);
        let (counted, _, writes) = Counted::new(here);
        let mut socket = WebSocket::new(counted, role, LIMIT);
        let burst: String = (0..64).map(|n| format!("{{\"id\":{n}}}\n")).collect();
        send(&mut socket, burst.as_bytes()).await;
        assert_eq!(writes.load(SeqCst), 1);
        let mut first = [0; 2];
        there.read_exact(&mut first).await.unwrap();
        let mask = if role == Role::Client { 0x80 } else { 0 };
        assert_eq!(first, [0x81, mask | 8]);
    }
}

#[tokio::test]
async fn a_burst_is_read_at_once() {
    let (here, mut there) = tokio::io::duplex(1 << 20);
    let (counted, reads, _) = Counted::new(here);
    let mut socket = WebSocket::new(counted, Role::Server, LIMIT);
    let text = "x".repeat(200);
    let burst: Vec<u8> = (0..64)
        .flat_map(|_| masked(0x81, text.as_bytes()))
        .collect();
    there.write_all(&burst).await.unwrap();
    for _ in 0..64 {
        assert_eq!(receive(&mut socket).await.unwrap(), text.as_bytes());
    }
    assert_eq!(reads.load(SeqCst), 1);
    assert!(glance(&mut socket).is_pending());
    assert_eq!(reads.load(SeqCst), 2);
    assert_eq!(socket.progress().received, Some(burst.len() as u64));
}

#[tokio::test(start_paused = true)]
async fn sixty_four_calls_in_flight_are_answered_in_few_writes() {
    let (here, there) = tokio::io::duplex(1 << 20);
    let (counted, _, writes) = Counted::new(there);
    let router = Router::new().method("echo", |(n,): (u32,)| Ok(n));
    let _server = Peer::start(WebSocket::new(counted, Role::Server, LIMIT), router);
    let client = Peer::start(WebSocket::new(here, Role::Client, LIMIT), Router::new());
    for _ in 0..10 {
        let calls: Vec<_> = (0..64_u32)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move { client.call::<u32>("echo", (n,)).await })
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap().unwrap(), n as u32);
        }
    }
    let writes = writes.load(SeqCst);
    assert!(writes <= 32, "{writes} writes for 640 answers");
}

#[tokio::test]
async fn messages_of_every_length_pass_in_both_directions() {
    let (here, there) = tokio::io::duplex(1 << 12);
    let mut client = WebSocket::new(here, Role::Client, LIMIT);
    let mut server = server(there);
    for length in [0, 1, 2, 3, 124, 125, 126, 127, 65_535, 65_536, LIMIT] {
        let mut text: String = ('a'..='z').cycle().take(length).collect();
        text.push('\n');
        let text = text.into_bytes();
        let (_, got) = tokio::join!(send(&mut client, &text), receive(&mut server));
        assert!(got.unwrap() == text[..length], "{length}");
        let (_, got) = tokio::join!(send(&mut server, &text), receive(&mut client));
        assert!(got.unwrap() == text[..length], "{length}");
    }
}

#[tokio::test]
async fn the_limit_holds_at_it_and_past_it() {
    for (length, fits) in [(LIMIT, true), (LIMIT + 1, false)] {
        let (here, mut there) = tokio::io::duplex(4 << 20);
        let mut socket = server(here);
        let text = vec![b'x'; length];
        there.write_all(&masked(0x82, &text)).await.unwrap();
        match receive(&mut socket).await {
            Ok(got) => assert!(fits && got.len() == length),
            Err(ReceiveError::Fatal(FrameError::TooLarge { limit })) => {
                assert!(!fits && limit == LIMIT);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_split_anywhere_is_put_together() {
    let mut bytes = masked(0x01, b"{\"a\":");
    bytes.extend(masked(0x89, b"are you there?"));
    bytes.extend(masked(0x00, "\"ö\"".as_bytes()));
    bytes.extend(masked(0x80, b"}"));
    bytes.extend(masked(0x81, &[b'y'; 300]));
    let whole = bytes.len();
    for cut in 1..whole {
        // So many reads at a stretch are more than a task may have.
        tokio::task::yield_now().await;
        let (here, mut there) = tokio::io::duplex(1 << 12);
        let mut socket = server(here);
        there.write_all(&bytes[..cut]).await.unwrap();
        let mut got = Vec::new();
        while let Poll::Ready(message) = glance(&mut socket) {
            got.push(message.unwrap().unwrap());
        }
        assert_eq!(socket.progress().is_amid_frame, cut != whole - 308, "{cut}");
        there.write_all(&bytes[cut..]).await.unwrap();
        while let Poll::Ready(message) = glance(&mut socket) {
            got.push(message.unwrap().unwrap());
        }
        assert!(!socket.progress().is_amid_frame);
        assert_eq!(got, ["{\"a\":\"ö\"}".as_bytes(), &[b'y'; 300]], "{cut}");
    }
}

#[tokio::test]
async fn an_idle_socket_holds_no_buffer() {
    let (here, mut there) = tokio::io::duplex(4 << 20);
    let mut socket = server(here);
    there
        .write_all(&masked(0x81, &vec![b'x'; LIMIT]))
        .await
        .unwrap();
    assert_eq!(receive(&mut socket).await.unwrap().len(), LIMIT);
    let mut out = vec![b'y'; LIMIT];
    out.push(b'\n');
    send(&mut socket, &out).await;
    assert!(socket.buffered() >= LIMIT);
    assert!(glance(&mut socket).is_pending());
    assert_eq!(socket.buffered(), 0);
    // And it goes on.
    there.write_all(&masked(0x81, b"again")).await.unwrap();
    assert_eq!(receive(&mut socket).await.unwrap(), b"again");
}

#[tokio::test]
async fn nothing_is_forgotten_to_give_memory_back() {
    let (here, mut there) = tokio::io::duplex(4 << 20);
    let mut socket = server(here);
    there
        .write_all(&masked(0x81, &vec![b'x'; 100_000]))
        .await
        .unwrap();
    let next = masked(0x81, b"next");
    there.write_all(&next[..3]).await.unwrap();
    assert_eq!(receive(&mut socket).await.unwrap().len(), 100_000);
    assert!(glance(&mut socket).is_pending());
    assert!(socket.buffered() > 0, "a part of a message is in there");
    there.write_all(&next[3..]).await.unwrap();
    assert_eq!(receive(&mut socket).await.unwrap(), b"next");
    assert!(glance(&mut socket).is_pending());
    assert_eq!(socket.buffered(), 0);
}

#[tokio::test]
async fn whoever_reads_nothing_costs_little() {
    let (here, _there) = tokio::io::duplex(1 << 10);
    let mut socket = server(here);
    let message = [&[b'x'; 999], &b"\n"[..]].concat();
    let mut out = BytesMut::from(&*message.repeat(10_000));
    let before = out.len();
    for _ in 0..100 {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(socket.poll_send(&mut cx, &mut out).is_pending());
    }
    assert!(socket.buffered() <= FULL + 1_100);
    assert!(before - out.len() <= FULL + 3_000);
}

#[tokio::test]
async fn pings_of_one_who_reads_nothing_cost_little() {
    let (here, mut there) = tokio::io::duplex(1 << 16);
    let mut socket = server(here);
    let pings = masked(0x89, &[b'p'; 125]).repeat(100);
    for _ in 0..100 {
        there.write_all(&pings).await.unwrap();
        assert!(glance(&mut socket).is_pending());
    }
    assert!(
        socket.buffered() <= FULL + (8 << 10),
        "{}",
        socket.buffered()
    );
    // What there was room for is answered, and the next message arrives.
    there.write_all(&masked(0x81, b"hi")).await.unwrap();
    assert_eq!(receive(&mut socket).await.unwrap(), b"hi");
}

#[tokio::test]
async fn the_last_ping_is_answered_when_there_is_room() {
    const PINGS: u16 = 2_000;
    let (here, mut there) = tokio::io::duplex(1 << 16);
    let mut socket = server(here);
    for n in 0..PINGS {
        let mut payload = [0; 125];
        payload[..2].copy_from_slice(&n.to_be_bytes());
        there.write_all(&masked(0x89, &payload)).await.unwrap();
        assert!(glance(&mut socket).is_pending());
    }
    let mut pongs = Vec::new();
    let mut pong = [0; 127];
    while pongs.last() != Some(&(PINGS - 1)) {
        assert!(glance(&mut socket).is_pending());
        let read = tokio::time::timeout(Duration::from_secs(20), there.read_exact(&mut pong));
        read.await.expect("no pong comes").unwrap();
        assert_eq!(pong[..2], [0x8a, 125]);
        pongs.push(u16::from_be_bytes([pong[2], pong[3]]));
    }
    // Those before it, for which there was none, are not.
    assert!(pongs.len() < usize::from(PINGS) && pongs.is_sorted());
    assert_eq!(socket.buffered(), 0);
}

#[tokio::test]
async fn nothing_is_heard_after_a_goodbye_and_nothing_said_after_its_answer() {
    let (here, mut there) = tokio::io::duplex(1 << 12);
    let mut socket = WebSocket::new(here, Role::Client, LIMIT);
    let end = b"\x88\x02\x03\xe9";
    there.write_all(end).await.unwrap();
    there.write_all(b"\x89\x00\x81\x02hi").await.unwrap();
    for text in ["close code 1001", "the stream ended within a message"] {
        let Err(ReceiveError::Closed(reason)) = receive(&mut socket).await else {
            panic!("it goes on");
        };
        assert_eq!(reason.source().unwrap().to_string(), text);
    }
    // What was ready by then goes first.
    let mut out = BytesMut::from(&b"1\n"[..]);
    poll_fn(|cx| socket.poll_send(cx, &mut out)).await.unwrap();
    let reason = CloseReason::local();
    let closing = tokio::spawn(async move {
        // It waits for the other side's end.
        let ended = poll_fn(|cx| Poll::Ready(socket.poll_close(cx, &reason))).await;
        assert!(ended.is_pending());
        let mut out = BytesMut::from(&b"2\n"[..]);
        let sent = poll_fn(|cx| socket.poll_send(cx, &mut out)).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        poll_fn(|cx| socket.poll_close(cx, &reason)).await
    });
    let mut said = Vec::new();
    there.read_to_end(&mut said).await.unwrap();
    // Both are under masks.
    let (message, goodbye) = said.split_at(7);
    assert_eq!(message[..2], [0x81, 0x81]);
    assert_eq!(message[6] ^ message[2], b'1');
    assert_eq!((goodbye.len(), &goodbye[..2]), (8, &[0x88, 0x82][..]));
    assert_eq!(
        [goodbye[6] ^ goodbye[2], goodbye[7] ^ goodbye[3]],
        end[2..],
        "it has the same code"
    );
    drop(there);
    closing.await.unwrap();
}

#[test]
fn every_reason_has_its_code() {
    let table = [
        (CloseReason::local(), CloseCode::Normal),
        (CloseReason::local_with(ShuttingDown), CloseCode::Away),
        (CloseReason::remote(), CloseCode::Normal),
        (
            CloseReason::failed(FrameError::TooLarge { limit: 1 }),
            CloseCode::Size,
        ),
        (CloseReason::failed(Broken::NotUtf8), CloseCode::Invalid),
        (
            CloseReason::failed(Broken::Protocol(Violation::Reserved)),
            CloseCode::Protocol,
        ),
        (CloseReason::failed(Broken::Silent), CloseCode::Policy),
        (
            CloseReason::failed(io::Error::other("?")),
            CloseCode::Policy,
        ),
    ];
    for (reason, code) in table {
        let frame = goodbye::frame(&reason);
        assert_eq!(frame.code, code, "{reason:?}");
        assert!(frame.reason.len() <= 123);
    }
    assert_eq!(goodbye::too_many().code, CloseCode::Again);
}
