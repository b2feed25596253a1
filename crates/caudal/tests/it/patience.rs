//! How long a connection waits, and for what.

use std::time::Duration;

use caudal::transport::Stream;
use caudal::{Config, Dialect, Framing, Peer, Router};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::sleep;

/// Long work is no idleness: its end begins it.
#[tokio::test(start_paused = true)]
async fn a_connection_is_not_idle_from_before_its_last_work() {
    let router = Router::new()
        .method("work", || async {
            sleep(Duration::from_secs(60)).await;
        })
        .method("ping", || Ok("pong"));
    let mut config = Config::default();
    config.idle_timeout = Some(Duration::from_secs(10));
    let (here, there) = tokio::io::duplex(1 << 16);
    let _server = Peer::start_with(Stream::new(there, Framing::Line), router, config);
    let peer = Peer::start(Stream::new(here, Framing::Line), Router::new());
    peer.notify("work", ()).await.unwrap();
    // One second after the work has ended.
    sleep(Duration::from_secs(61)).await;
    let pong: Result<String, _> = peer.call("ping", ()).await;
    assert_eq!(pong.unwrap(), "pong");
}

/// Progress counts when it comes, once.
#[tokio::test(start_paused = true)]
async fn progress_that_waits_its_turn_counts_once() {
    let mut config = Config::default();
    config.dialect = Dialect::lsp();
    let router = Router::new().method("slow", || async { sleep(Duration::from_secs(8)).await });
    let (here, there) = tokio::io::duplex(1 << 16);
    let peer = Peer::start_with(Stream::new(here, Framing::Line), router, config);
    let (_read, mut write) = tokio::io::split(there);
    let begun = tokio::time::Instant::now();
    let call = async {
        let end: Result<(), _> = peer
            .call("work", ())
            .timeout(Duration::from_secs(10))
            .extend_on_progress("t", Duration::from_secs(1000))
            .await;
        end.unwrap_err();
        begun.elapsed()
    };
    let other = async {
        sleep(Duration::from_secs(1)).await;
        write.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"slow\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"$/progress\",\"params\":{\"token\":\"t\",\"value\":1}}\n").await.unwrap();
        std::future::pending::<()>().await
    };
    let elapsed = tokio::select! { elapsed = call => elapsed, () = other => unreachable!() };
    // The last progress came after one second.
    assert!(elapsed < Duration::from_millis(11_100), "{elapsed:?}");
}

/// A client that has said all, and reads slowly, gets all its answers.
#[tokio::test(start_paused = true)]
async fn who_reads_slowly_after_the_end_of_its_input_gets_everything() {
    const EACH: usize = 100_000;
    const COUNT: usize = 20;
    let router = Router::new().method("big", || Ok("x".repeat(EACH)));
    let (here, there) = tokio::io::duplex(1 << 16);
    let _server = Peer::start(Stream::new(there, Framing::Line), router);
    let (mut read, mut write) = tokio::io::split(here);
    let request = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\"}\n";
    write.write_all(&request.repeat(COUNT)).await.unwrap();
    write.shutdown().await.unwrap();
    let (mut got, mut bytes) = (0, vec![0; EACH]);
    loop {
        // 100 KB a second.
        let read = read.read(&mut bytes).await.unwrap();
        if read == 0 {
            break;
        }
        got += read;
        sleep(Duration::from_secs_f64(read as f64 / EACH as f64)).await;
    }
    assert!(got > EACH * COUNT, "{got}");
}
