//! What calls that wait hold in memory.

use std::time::Duration;

use caudal::{Config, Peer};
use caudal_bench::child::Server;
use caudal_bench::peer::{self, Held, ROOM};
use caudal_bench::process::resident;
use tokio::task::JoinHandle;

use super::Problem;

/// So many calls are sent at once: what they take on their way is not what
/// they take while they wait.
const BURST: usize = 100;

/// Lets `count` calls wait at once, each in a task of its own.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn waiting(server: &Server, port: u16, count: usize) -> Result<Held, Problem> {
    let mut config = Config::default();
    config.pending = ROOM;
    config.call_timeout = Some(Duration::from_secs(60));
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
        while peer.call::<usize>("held", ()).await? < tasks.len() {
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
