//! A WebSocket over memory, with a clock that the test moves.

use caudal::CloseReason;
use tokio::io::DuplexStream;
use tokio::time::{Instant, sleep, timeout};

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A server without sockets, its one peer, and the client's side.
struct World {
    _http: Http,
    peer: Peer,
    raw: RawWebSocket<DuplexStream>,
}

impl World {
    async fn new(config: Config, options: Options) -> Self {
        let http = Http::with(router(&Log::default()), config, options);
        let (here, there) = tokio::io::duplex(1 << 12);
        serve_connection(&http, there);
        let mut raw = RawWebSocket::open(here).await;
        // The upgrade is done when the first message is answered.
        raw.text(&add(1)).await;
        assert_eq!(raw.json().await["result"], 2);
        let peer = http.peers().remove(0);
        let _http = http;
        Self { _http, peer, raw }
    }

    async fn plain() -> Self {
        Self::new(Config::default(), Options::default()).await
    }

    async fn with_pings(interval: u64, timeout: u64) -> Self {
        let mut options = Options::default();
        options.ping_interval = Some(Duration::from_secs(interval)).filter(|it| !it.is_zero());
        options.ping_timeout = Duration::from_secs(timeout);
        Self::new(Config::default(), options).await
    }

    /// Why the connection has ended.
    async fn closed(&self) -> (CloseReason, String) {
        let reason = within(self.peer.closed()).await;
        let text = reason.source().unwrap().to_string();
        (reason, text)
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_asked_and_given_up() {
    let mut world = World::with_pings(30, 10).await;
    let begun = Instant::now();
    assert_eq!(world.raw.next().await, (0x89, vec![]));
    assert_eq!(begun.elapsed().as_secs(), 30);
    // An answer is any sign of life.
    world.raw.frame(0x8a, b"").await;
    assert_eq!(world.raw.next().await, (0x89, vec![]));
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(world.raw.goodbye().await, 1008);
    assert_eq!(begun.elapsed().as_secs(), 70);
    let (reason, text) = world.closed().await;
    assert!(!reason.is_remote() && !reason.is_local());
    assert_eq!(text, "a ping was not answered in time");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_speaks_is_not_asked() {
    let mut world = World::with_pings(30, 10).await;
    for n in 0..10 {
        sleep(Duration::from_secs(25)).await;
        world.raw.text(&add(n)).await;
        assert_eq!(world.raw.json().await["result"], n + 1, "it is no ping");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_nobody_is_asked() {
    let mut world = World::with_pings(0, 0).await;
    let nothing = timeout(60 * MINUTE, read_frame(&mut world.raw.0));
    assert!(nothing.await.is_err());
    assert!(!world.peer.state().is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_speaks_and_reads_nothing_is_given_up() {
    let mut world = World::with_pings(30, 10).await;
    let much = json!({"jsonrpc": "2.0", "id": 1, "method": "much", "params": [1 << 14]});
    world.raw.text(&much).await;
    let begun = Instant::now();
    while world.raw.0.write_all(&masked(0x89, b"")).await.is_ok() {
        sleep(Duration::from_secs(5)).await;
        assert!(begun.elapsed() < MINUTE, "it goes on");
    }
    assert!(world.peer.state().is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_say_goodbye_is_left_in_time() {
    let mut world = World::plain().await;
    world.peer.close();
    let begun = Instant::now();
    assert_eq!(world.raw.next().await.0, 0x88);
    assert_eq!(within(world.raw.0.read(&mut [0])).await.unwrap(), 0);
    assert!(world.raw.0.write_all(b"more").await.is_ok(), "it is read");
    eventually("it is dropped", || world._http.peers().is_empty()).await;
    while world.raw.0.write_all(b"more").await.is_ok() {
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(begun.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_is_told_from_a_broken_message() {
    for (sent, remote) in [(0, true), (3, false)] {
        let mut world = World::plain().await;
        world.raw.bytes(&masked(0x81, b"hi")[..sent]).await;
        let World { peer, raw, _http } = world;
        drop(raw);
        let reason = within(peer.closed()).await;
        assert_eq!(reason.is_remote(), remote);
    }
}

#[tokio::test(start_paused = true)]
async fn a_goodbye_says_why_and_is_said_back() {
    let mut payload = 4001_u16.to_be_bytes().to_vec();
    payload.extend(b"bye");
    for (payload, text) in [
        (&payload[..], "close code 4001: bye"),
        (&payload[..2], "close code 4001"),
        (&[], "it gave no reason"),
    ] {
        let mut world = World::plain().await;
        world.raw.frame(0x88, payload).await;
        assert_eq!(world.raw.next().await, (0x88, payload.to_vec()));
        assert_eq!(within(world.raw.0.read(&mut [0])).await.unwrap(), 0);
        let (reason, said) = world.closed().await;
        assert!(reason.is_remote());
        assert_eq!(said, text);
    }
}

#[tokio::test(start_paused = true)]
async fn broken_frames_are_told_apart() {
    let table: [(Vec<u8>, u16); 7] = [
        (masked(0x81, b"\xff\xfe"), 1007),
        (b"\x81\x02hi".to_vec(), 1002),
        (masked(0xc1, b"hi"), 1002),
        (masked(0x83, b"hi"), 1002),
        (masked(0x80, b"hi"), 1002),
        (masked(0x09, b"hi"), 1002),
        (masked(0x89, &[0; 126]), 1002),
    ];
    for (bytes, code) in table {
        let mut world = World::plain().await;
        world.raw.bytes(&bytes).await;
        assert_eq!(world.raw.goodbye().await, code, "{bytes:x?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_holds_for_a_length_alone_and_for_the_sum_of_fragments() {
    let mut announced = vec![0x81, 0xff];
    announced.extend(u64::MAX.to_be_bytes());
    announced.extend([0; 4]);
    let half = [b' '; 600];
    let fragments = [masked(0x01, &half), masked(0x80, &half)].concat();
    for bytes in [announced, fragments] {
        let mut config = Config::default();
        config.policy.max_message = 1000;
        let mut world = World::new(config, Options::default()).await;
        world.raw.bytes(&bytes).await;
        let error = world.raw.json().await;
        assert_eq!(error["error"]["message"], "Request payload too large");
        assert_eq!(world.raw.goodbye().await, 1009);
    }
}

/// Seconds that a server waits for the rest of a message.
fn two_seconds() -> Config {
    let mut config = Config::default();
    config.message_timeout = Some(Duration::from_secs(2));
    config
}

#[tokio::test(start_paused = true)]
async fn a_message_that_stays_unfinished_ends_the_connection() {
    let mut world = World::new(two_seconds(), Options::default()).await;
    world.raw.bytes(&masked(0x81, b"{}")[..1]).await;
    let (_, text) = world.closed().await;
    assert!(text.contains("in time"), "{text}");
}

/// A ping is no message, so that nothing comes of it when it is whole.
#[tokio::test(start_paused = true)]
async fn a_ping_in_two_pieces_does_not_end_the_connection() {
    let mut world = World::new(two_seconds(), Options::default()).await;
    let ping = masked(0x89, b"are you there?");
    world.raw.bytes(&ping[..5]).await;
    sleep(Duration::from_secs(1)).await;
    world.raw.bytes(&ping[5..]).await;
    sleep(Duration::from_secs(5)).await;
    assert!(!world.peer.state().is_closed());
    world.raw.bytes(&ping[..5]).await;
    sleep(Duration::from_secs(5)).await;
    assert!(
        world.peer.state().is_closed(),
        "one that stays unfinished does"
    );
}
