//! What a server and a client do with file descriptors.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use caudal::{Router, Server, connect, serve};
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{eventually, within};

fn methods() -> Router {
    Router::new().method("add", |(a, b): (i64, i64)| Ok(a + b))
}

async fn tcp(server: &Server) -> TcpStream {
    let text = server.endpoint().to_string();
    let address = text.strip_prefix("tcp://").unwrap();
    within(TcpStream::connect(address)).await.unwrap()
}

/// Runs a test in a process of its own: `true` in there.
fn is_alone(name: &str) -> bool {
    const ALONE: &str = "CAUDAL_TEST_ALONE";
    if std::env::var(ALONE).is_ok_and(|alone| alone == name) {
        return true;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--include-ignored"])
        .env(ALONE, name)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    false
}

/// Proves: A54, A74
#[test]
fn a_reset_cancels_what_runs_and_frees_everything() {
    if !is_alone("descriptors::a_reset_cancels_what_runs_and_frees_everything") {
        return;
    }
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (started, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begun, ended) = (Arc::clone(&started), Arc::clone(&dropped));
        let router = methods().method("hang", move || {
            begun.fetch_add(1, SeqCst);
            let guard = Dropped(Arc::clone(&ended));
            async move {
                let _guard = guard;
                std::future::pending::<()>().await;
                Ok(())
            }
        });
        let server = serve("tcp://127.0.0.1:0", router).await.unwrap();
        // The first connection may make something that stays.
        drop(tcp(&server).await);
        eventually("closed", || {
            server.connections() == 0 && server.accepted() == 1
        })
        .await;
        let before = descriptors();
        let mut sockets = Vec::new();
        for _ in 0..10 {
            let mut socket = tcp(&server).await;
            for id in 0..3 {
                let call = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"hang\"}}\n");
                socket.write_all(call.as_bytes()).await.unwrap();
            }
            sockets.push(socket);
        }
        eventually("started", || started.load(SeqCst) == 30).await;
        assert_eq!(server.connections(), 10);
        assert_eq!(server.stats().in_flight, 30);
        assert!(descriptors() >= before + 20);
        for socket in sockets {
            SockRef::from(&socket)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
        }
        eventually("cancelled", || dropped.load(SeqCst) == 30).await;
        eventually("freed", || server.connections() == 0).await;
        eventually("closed", || descriptors() == before).await;
        // And it goes on for others.
        let peer = connect(server.endpoint()).await.unwrap();
        assert_eq!(within(peer.call::<i64>("add", (1, 2))).await.unwrap(), 3);
    });
}

#[test]
fn both_ends_of_a_tcp_connection_have_no_delay_and_keep_alive() {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
    if !is_alone("descriptors::both_ends_of_a_tcp_connection_have_no_delay_and_keep_alive") {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let server = serve("tcp://127.0.0.1:0", methods()).await.unwrap();
        let peer = connect(server.endpoint()).await.unwrap();
        within(peer.call::<i64>("add", (1, 2))).await.unwrap();
        let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
        let mut found = 0;
        for entry in fs::read_dir("/proc/self/fd").unwrap() {
            let number = entry.unwrap().file_name();
            let number = number.to_str().unwrap().parse().unwrap();
            let Ok(fd) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) else {
                continue;
            };
            let socket = SockRef::from(&fd);
            // Connected TCP sockets are ours.
            if socket.peer_addr().is_ok_and(|address| address.is_ipv4()) {
                assert!(socket.tcp_nodelay().unwrap());
                assert!(socket.keepalive().unwrap());
                found += 1;
            }
        }
        assert_eq!(found, 2);
    });
}
