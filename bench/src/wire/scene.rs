//! What the servers are put through.

use serde::Serialize;

use super::contestant::{
    BATCHED, CONNECTED, Contestant, ECHO_PEERS, ECHO_POSTED, ECHO_SOCKETS, ECHOES, FANS, ORACLES,
    PIPED, POSTED, POSTED_ONE, SLOW_PIPED, SLOW_POSTED, SLOW_SOCKETS, SOCKETS,
};

/// One load, and those who take it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Scene {
    pub name: &'static str,
    pub title: &'static str,
    pub key: Key,
    /// How the bytes travel: `stdio`, `tcp`, `http` or `ws`.
    pub transport: &'static str,
    pub load: &'static [&'static str],
    /// Each is compared with the first in its framing.
    #[serde(skip)]
    pub servers: &'static [Contestant],
    /// Who shows how much is possible, if anybody does.
    #[serde(skip)]
    pub bounds: &'static [Contestant],
    /// Some need longer turns than others.
    #[serde(skip)]
    turns: f64,
    /// In so many rounds at most.
    #[serde(skip)]
    pub rounds: usize,
    /// What caudal must reach in it.
    #[serde(skip)]
    pub goals: &'static [Goal],
    /// Whether processors are kept from halting.
    pub awake: bool,
    /// Whether servers have a runtime of one thread, as an application may choose.
    pub one_thread: bool,
    /// Whether another scene decides for the same work.
    pub beside: bool,
    /// Whether something must be reached by the slowest calls.
    pub patient: bool,
    /// Between which numbers of calls instructions are counted, if they are.
    #[serde(skip)]
    pub counted: Option<(u64, u64)>,
    /// The same for system calls.
    #[serde(skip)]
    pub traced: Option<(u64, u64)>,
}

/// What caudal must reach beside another server, in its ratio.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    pub beside: &'static str,
    pub must: f64,
    pub aim: Option<f64>,
}

const fn goal(beside: &'static str, must: f64) -> Goal {
    Goal {
        beside,
        must,
        aim: None,
    }
}

impl Goal {
    const fn aim(self, aim: f64) -> Self {
        Self {
            aim: Some(aim),
            ..self
        }
    }
}

const ASYNC_LSP: Goal = goal("async-lsp", 1.3);
const TOWER_LSP: Goal = goal("tower-lsp-server", 3.0);
const LSP_SERVER: Goal = goal("lsp-server", 14.0);
const RMCP: Goal = goal("rmcp", 25.0);

const PIPED_64: &[Goal] = &[
    goal("bare", 0.6).aim(0.8),
    ASYNC_LSP,
    TOWER_LSP,
    LSP_SERVER,
    RMCP,
];
const PIPED_10000: &[Goal] = &[
    goal("bare", 0.5).aim(0.7),
    ASYNC_LSP,
    TOWER_LSP,
    LSP_SERVER,
    RMCP,
];
/// rmcp takes part over pipes only: a plain socket is none of the transports of MCP.
const CONNECTED_64: &[Goal] = &[goal("bare", 0.6).aim(0.8), ASYNC_LSP, TOWER_LSP, LSP_SERVER];
const POSTED_64: &[Goal] = &[goal("hyper", 0.9), goal("jsonrpsee", 1.25)];
const BATCHED_16: &[Goal] = &[goal("jsonrpsee", 3.5).aim(6.0)];

/// By what the servers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Key {
    /// The median latency: less is better.
    Median,
    /// Something per second: more is better.
    Rate(&'static str),
    /// The latency that one call in a hundred exceeds: less is better.
    Tail,
}

const CALLS: Key = Key::Rate("calls/s");

const fn scene(
    name: &'static str,
    transport: &'static str,
    title: &'static str,
    key: Key,
    load: &'static [&'static str],
    servers: &'static [Contestant],
) -> Scene {
    Scene {
        name,
        title,
        key,
        transport,
        load,
        servers,
        bounds: &[],
        turns: 1.0,
        rounds: usize::MAX,
        goals: &[],
        awake: false,
        one_thread: false,
        beside: false,
        patient: false,
        counted: None,
        traced: None,
    }
}

impl Scene {
    const fn counted(self, few: u64, many: u64) -> Self {
        Self {
            counted: Some((few, many)),
            ..self
        }
    }

    const fn traced(self, few: u64, many: u64) -> Self {
        Self {
            traced: Some((few, many)),
            ..self
        }
    }

    const fn bounded(self, bounds: &'static [Contestant]) -> Self {
        Self { bounds, ..self }
    }

    const fn turns(self, turns: f64) -> Self {
        Self { turns, ..self }
    }

    const fn rounds(self, rounds: usize) -> Self {
        Self { rounds, ..self }
    }

    const fn goals(self, goals: &'static [Goal]) -> Self {
        Self { goals, ..self }
    }

    const fn awake(self) -> Self {
        Self {
            awake: true,
            ..self
        }
    }

    const fn one_thread(self) -> Self {
        Self {
            one_thread: true,
            ..self
        }
    }

    /// The same work is done in a scene in which nobody waits for a processor.
    const fn beside(self) -> Self {
        Self {
            beside: true,
            ..self
        }
    }

    const fn patient(self) -> Self {
        Self {
            patient: true,
            ..self
        }
    }

    /// The scene of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let mut all = PIPES.iter().chain(WEB);
        all.find(|scene| scene.name == name)
    }

    /// How long one turn is, where most take `seconds`.
    #[must_use]
    pub fn seconds(&self, seconds: f64) -> f64 {
        seconds * self.turns
    }
}

/// Where generator and server share a core, nobody waits for the other one to wake
/// up: this compares the work alone. On two cores of which one always waits for the
/// other, most of the time goes into waking them, unless they are kept awake.
pub const PIPES: &[Scene] = &[
    scene(
        "pipe-1",
        "stdio",
        "Pipe, 1 in flight, generator and server on the same core",
        Key::Median,
        &["--window", "1", "--same-core"],
        PIPED,
    )
    .goals(&[goal("bare", 1.5).aim(1.3)])
    .traced(200, 600),
    scene(
        "pipe-64-core",
        "stdio",
        "Pipe, 64 in flight, generator and server on the same core",
        CALLS,
        &["--window", "64", "--same-core"],
        PIPED,
    )
    .goals(PIPED_64),
    scene(
        "pipe-64",
        "stdio",
        "Pipe, 64 in flight",
        CALLS,
        &["--window", "64"],
        PIPED,
    )
    .goals(PIPED_64)
    .beside()
    .bounded(ORACLES)
    .counted(1_280, 3_840),
    scene(
        "pipe-64-awake",
        "stdio",
        "Pipe, 64 in flight, processors that are kept awake",
        CALLS,
        &["--window", "64"],
        PIPED,
    )
    .goals(PIPED_64)
    .beside()
    .awake(),
    scene(
        "pipe-10000",
        "stdio",
        "Pipe, 10,000 in flight",
        CALLS,
        &["--window", "10000"],
        PIPED,
    )
    .goals(PIPED_10000),
    scene(
        "tcp-1",
        "tcp",
        "TCP, 1 in flight, generator and server on the same core",
        Key::Median,
        &["--window", "1", "--same-core", "--tcp"],
        CONNECTED,
    ),
    scene(
        "tcp-64",
        "tcp",
        "TCP, 64 in flight on one connection",
        CALLS,
        &["--window", "64", "--tcp"],
        CONNECTED,
    )
    .goals(CONNECTED_64)
    .traced(640, 1_920),
    scene(
        "tcp-10000",
        "tcp",
        "TCP, 10,000 in flight on one connection",
        CALLS,
        &["--window", "10000", "--tcp"],
        CONNECTED,
    ),
    scene(
        "tcp-16",
        "tcp",
        "TCP, 16 connections, 64 in flight on each",
        CALLS,
        &["--window", "64", "--connections", "16"],
        CONNECTED,
    ),
    scene(
        "tcp-16-many",
        "tcp",
        "TCP, 16 connections, 625 in flight on each, 10,000 in all",
        CALLS,
        &["--window", "625", "--connections", "16"],
        CONNECTED,
    )
    .rounds(3),
    scene(
        "open",
        "tcp",
        "TCP, open loop: 16 connections, 10,000 calls a second in all",
        Key::Tail,
        &["--rate", "10000", "--connections", "16"],
        ECHOES,
    )
    .turns(3.0)
    .patient(),
    scene(
        "open-peers",
        "tcp",
        "TCP, open loop: the same, everybody who knows `echo`",
        Key::Tail,
        &["--rate", "10000", "--connections", "16"],
        ECHO_PEERS,
    )
    .turns(2.0)
    .rounds(4),
    scene(
        "slow-pipe",
        "stdio",
        "Slow handlers: 10 ms each, 64 in flight over a pipe",
        CALLS,
        &["--window", "64", "--call", "nap"],
        SLOW_PIPED,
    ),
    scene(
        "start-pipe",
        "stdio",
        "From the start of a server to its first answer, over a pipe",
        Key::Median,
        &["--startup", "5"],
        PIPED,
    ),
];

pub const WEB: &[Scene] = &[
    scene(
        "post-1",
        "http",
        "`add` by POST, 1 connection, generator and server on the same core",
        Key::Median,
        &["--framing", "post", "--same-core"],
        POSTED,
    ),
    scene(
        "post-16",
        "http",
        "`add` by POST, 16 connections that are kept, 1 in flight on each",
        CALLS,
        &["--framing", "post", "--connections", "16"],
        POSTED,
    ),
    scene(
        "post",
        "http",
        "`add` by POST, 64 connections that are kept, 1 in flight on each",
        CALLS,
        &["--framing", "post", "--connections", "64", "--placed"],
        POSTED,
    )
    .goals(POSTED_64)
    .beside()
    .counted(6_400, 19_200)
    .traced(640, 1_920),
    scene(
        "post-core",
        "http",
        "`add` by POST, 64 connections that are kept, generator and server on the same core",
        CALLS,
        &["--framing", "post", "--connections", "64", "--same-core"],
        POSTED,
    )
    .goals(POSTED_64),
    scene(
        "post-own",
        "http",
        "`add` by POST, 64 connections that are kept, generator and server on a core each",
        CALLS,
        &["--framing", "post", "--connections", "64", "--own-core"],
        POSTED,
    )
    .goals(POSTED_64),
    scene(
        "post-awake",
        "http",
        "`add` by POST, 64 connections that are kept, processors that are kept awake",
        CALLS,
        &["--framing", "post", "--connections", "64"],
        POSTED,
    )
    .goals(POSTED_64)
    .beside()
    .awake(),
    scene(
        "post-one",
        "http",
        "`add` by POST, 64 connections that are kept, servers on runtimes of one thread",
        CALLS,
        &["--framing", "post", "--connections", "64"],
        POSTED_ONE,
    )
    .goals(POSTED_64)
    .beside()
    .one_thread(),
    scene(
        "post-1000",
        "http",
        "`add` by POST, 1,000 connections that are kept, 1 in flight on each",
        CALLS,
        &["--framing", "post", "--connections", "1000"],
        POSTED,
    ),
    scene(
        "batch",
        "http",
        "A batch of 100 by POST, 16 connections, 1 in flight on each",
        Key::Rate("batches/s"),
        &[
            "--framing",
            "post",
            "--connections",
            "16",
            "--call",
            "batch",
        ],
        BATCHED,
    )
    .goals(BATCHED_16)
    .counted(160, 480)
    .traced(16, 48),
    scene(
        "batch-own",
        "http",
        "A batch of 100 by POST, 16 connections, generator and server on a core each",
        Key::Rate("batches/s"),
        &[
            "--framing",
            "post",
            "--connections",
            "16",
            "--call",
            "batch",
            "--own-core",
        ],
        BATCHED,
    )
    .goals(BATCHED_16),
    scene(
        "open-post",
        "http",
        "POST, open loop: 16 connections, 10,000 calls a second in all",
        Key::Tail,
        &[
            "--framing",
            "post",
            "--rate",
            "10000",
            "--connections",
            "16",
        ],
        ECHO_POSTED,
    )
    .turns(6.0),
    scene(
        "slow-post",
        "http",
        "Slow handlers: 10 ms each, by POST, 64 connections",
        CALLS,
        &["--framing", "post", "--connections", "64", "--call", "nap"],
        SLOW_POSTED,
    ),
    scene(
        "ws-1",
        "ws",
        "WebSocket, 1 in flight, generator and server on the same core",
        Key::Median,
        &["--framing", "ws", "--same-core"],
        SOCKETS,
    )
    .goals(&[goal("bare", 1.25).aim(1.1)])
    .traced(200, 600),
    scene(
        "ws-64",
        "ws",
        "WebSocket, 64 in flight on one connection",
        CALLS,
        &["--framing", "ws", "--window", "64"],
        SOCKETS,
    )
    .goals(&[goal("bare", 0.7).aim(0.8), goal("jsonrpsee", 4.0)])
    .counted(6_400, 19_200)
    .traced(640, 1_920),
    scene(
        "ws-10000",
        "ws",
        "WebSocket, 10,000 in flight on one connection",
        CALLS,
        &["--framing", "ws", "--window", "10000"],
        SOCKETS,
    ),
    scene(
        "ws-16",
        "ws",
        "WebSocket, 16 connections, 16 in flight on each",
        CALLS,
        &["--framing", "ws", "--connections", "16", "--window", "16"],
        SOCKETS,
    )
    .goals(&[goal("jsonrpsee", 5.0).aim(6.0)]),
    scene(
        "ws-16-many",
        "ws",
        "WebSocket, 16 connections, 625 in flight on each, 10,000 in all",
        CALLS,
        &["--framing", "ws", "--connections", "16", "--window", "625"],
        SOCKETS,
    )
    .rounds(3),
    scene(
        "slow-ws",
        "ws",
        "Slow handlers: 10 ms each, 64 in flight over WebSocket",
        CALLS,
        &["--framing", "ws", "--window", "64", "--call", "nap"],
        SLOW_SOCKETS,
    ),
    scene(
        "open-ws",
        "ws",
        "WebSocket, open loop: 16 connections, 10,000 calls a second in all",
        Key::Tail,
        &["--framing", "ws", "--rate", "10000", "--connections", "16"],
        ECHO_SOCKETS,
    )
    .turns(6.0),
    scene(
        "fan",
        "ws",
        "One event of 200 bytes to 1,000 WebSockets",
        Key::Rate("events/s"),
        &["--framing", "ws", "--subscribers", "1000"],
        FANS,
    )
    // The bare loop takes a third of a second to reach its speed.
    .turns(3.0)
    .goals(&[goal("bare", 0.7)]),
    scene(
        "fan-ahead",
        "ws",
        "One event of 200 bytes to 1,000 WebSockets, the next asked for while it arrives",
        Key::Rate("events/s"),
        &["--framing", "ws", "--subscribers", "1000", "--window", "2"],
        FANS,
    )
    .turns(3.0)
    .goals(&[goal("bare", 0.7)])
    .beside(),
    scene(
        "start-http",
        "http",
        "From the start of a server to its first answer, by POST",
        Key::Median,
        &["--framing", "post", "--startup", "5"],
        POSTED,
    ),
];
