//! What calls that wait and connections that are idle hold in memory.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use caudal::{Config, Peer};
use caudal_bench::child::Server;
use caudal_bench::peer::{self, Held, ROOM};
use caudal_bench::process::resident;
use tokio::task::JoinHandle;
use tungstenite::Message;

use super::Problem;

/// So many calls are sent at once: what they take on their way is not what
/// they take while they wait.
const BURST: usize = 100;

/// Lets `count` calls wait at once, each in a task of its own.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn waiting(server: &Server, port: u16, count: usize) -> Result<Held, Problem> {
    let mut config = Config::default();
    config.limits.pending = ROOM;
    config.call_timeout = Duration::from_secs(60);
    let peer = caudal::connect(format!("tcp://127.0.0.1:{port}"))
        .config(config)
        .await?;
    // A little of everything has been allocated before.
    let mut tasks = Vec::with_capacity(BURST + count);
    wait(&peer, &mut tasks, BURST).await?;
    let before = look(server, &peer).await?;
    wait(&peer, &mut tasks, count).await?;
    let after = look(server, &peer).await?;
    let () = peer.call("release", ()).await?;
    for task in tasks {
        assert_eq!(task.await??, 8, "a wrong reply");
    }
    let each = |of: fn(&Held) -> f64| (of(&after) - of(&before)) / count as f64;
    Ok(Held {
        here: each(|held| held.here),
        there: each(|held| held.there),
        heap_here: each(|held| held.heap_here),
        heap_there: each(|held| held.heap_there),
    })
}

type Task = JoinHandle<Result<i64, caudal::CallError>>;

/// Adds `count` to the calls that wait.
async fn wait(peer: &Peer, tasks: &mut Vec<Task>, count: usize) -> Result<(), Problem> {
    for _ in 0..count.div_ceil(BURST) {
        for _ in 0..BURST {
            let peer = peer.clone();
            tasks.push(tokio::spawn(async move { peer.call("wait", (1, 7)).await }));
        }
        while peer.call::<_, usize>("held", ()).await? < tasks.len() {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }
    Ok(())
}

/// What both processes hold now, in bytes.
async fn look(server: &Server, peer: &Peer) -> Result<Held, Problem> {
    // What was freed and handed back meanwhile should be gone.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let heap_there: i64 = peer.call("heap", ()).await?;
    Ok(Held {
        here: resident(std::process::id())? as f64,
        there: resident(server.pid())? as f64,
        heap_here: peer::heap() as f64,
        heap_there: heap_there as f64,
    })
}

/// Makes `count` connections, each idle after one call. Only the server's memory
/// is of interest: at this end there are plain sockets.
pub(super) fn idle(
    server: &Server,
    port: u16,
    count: usize,
    connect: fn(u16) -> Result<TcpStream, Problem>,
) -> Result<Held, Problem> {
    let mut streams = Vec::with_capacity(count);
    let mut connect = |count: usize| -> Result<u64, Problem> {
        for _ in 0..count {
            streams.push(connect(port)?);
        }
        std::thread::sleep(Duration::from_millis(100));
        resident(server.pid())
    };
    let before = connect(10)?;
    let after = connect(count)?;
    Ok(Held {
        there: (after as f64 - before as f64) / count as f64,
        ..Held::default()
    })
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#;

/// A connection of lines, after one call.
pub(super) fn line(port: u16) -> Result<TcpStream, Problem> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    (&stream).write_all(format!("{CALL}\n").as_bytes())?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    match line.contains(r#""result":3"#) {
        true => Ok(stream),
        false => Err(format!("wrong reply: {line}").into()),
    }
}

/// A WebSocket, after one call.
pub(super) fn socket(port: u16) -> Result<TcpStream, Problem> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let url = format!("ws://127.0.0.1:{port}/");
    let (mut socket, _) = tungstenite::client(url, stream.try_clone()?)?;
    socket.send(Message::text(CALL))?;
    let reply = socket.read()?.into_text()?;
    match reply.contains(r#""result":3"#) {
        true => Ok(stream),
        false => Err(format!("wrong reply: {reply}").into()),
    }
}
