//! Who takes part, and in what.

/// A program of this workspace.
#[derive(Clone, Copy, Debug)]
pub(super) enum Program {
    Serve,
    Client,
    Peers,
}

/// A server or a client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contestant {
    pub(super) name: &'static str,
    pub(super) program: Program,
    pub(super) arguments: &'static [&'static str],
}

const fn serve(name: &'static str, arguments: &'static [&'static str]) -> Contestant {
    Contestant {
        name,
        program: Program::Serve,
        arguments,
    }
}

const fn peers(name: &'static str, arguments: &'static [&'static str]) -> Contestant {
    Contestant {
        name,
        program: Program::Peers,
        arguments,
    }
}

/// What a server is put through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) load: &'static [&'static str],
    /// Whether the median latency counts, not calls a second.
    pub(super) latency: bool,
    /// Between which numbers of calls instructions are counted, if they are.
    pub(super) counted: Option<(u64, u64)>,
    /// Each is compared with the first.
    pub(super) servers: &'static [Contestant],
}

const POSTED: &[Contestant] = &[
    serve("hyper", &["hyper", "http"]),
    serve("caudal", &["caudal", "http"]),
    peers("jsonrpsee", &["jsonrpsee", "http"]),
];

const BATCHED: &[Contestant] = &[
    peers("jsonrpsee", &["jsonrpsee", "http"]),
    serve("caudal", &["caudal", "http"]),
];

const SOCKETS: &[Contestant] = &[
    serve("bare", &["bare", "ws"]),
    serve("caudal", &["caudal", "ws"]),
    peers("jsonrpsee", &["jsonrpsee", "ws"]),
];

const FANS: &[Contestant] = &[
    serve("bare", &["bare-fan", "ws"]),
    serve("caudal", &["caudal", "ws"]),
    peers("jsonrpsee", &["jsonrpsee", "ws"]),
];

pub(super) const SCENES: [Scene; 6] = [
    Scene {
        name: "post",
        title: "`add` by POST, 64 connections that are kept, 1 in flight on each",
        load: &["--framing", "post", "--connections", "64"],
        latency: false,
        counted: Some((6_400, 19_200)),
        servers: POSTED,
    },
    Scene {
        name: "batch",
        title: "A batch of 100 by POST, 16 connections, 1 in flight on each",
        load: &[
            "--framing",
            "post",
            "--connections",
            "16",
            "--call",
            "batch",
        ],
        latency: false,
        counted: Some((160, 480)),
        servers: BATCHED,
    },
    Scene {
        name: "ws-64",
        title: "WebSocket, 64 in flight on one connection",
        load: &["--framing", "ws", "--window", "64"],
        latency: false,
        counted: Some((6_400, 19_200)),
        servers: SOCKETS,
    },
    Scene {
        name: "ws-16",
        title: "WebSocket, 16 connections, 16 in flight on each",
        load: &["--framing", "ws", "--connections", "16", "--window", "16"],
        latency: false,
        counted: None,
        servers: SOCKETS,
    },
    Scene {
        name: "ws-1",
        title: "WebSocket, 1 in flight, generator and server on the same core",
        load: &["--framing", "ws", "--same-core"],
        latency: true,
        counted: None,
        servers: SOCKETS,
    },
    Scene {
        name: "fan",
        title: "One event of 200 bytes to 1,000 WebSockets",
        load: &["--framing", "ws", "--subscribers", "1000"],
        latency: false,
        counted: None,
        servers: FANS,
    },
];

/// Clients of one transport, 64 calls in flight; the server is `serve bare`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clients {
    pub(super) transport: &'static str,
    pub(super) title: &'static str,
    /// Each is compared with the first.
    pub(super) clients: &'static [Contestant],
}

const fn client(name: &'static str, arguments: &'static [&'static str]) -> Contestant {
    Contestant {
        name,
        program: Program::Client,
        arguments,
    }
}

pub(super) const CLIENTS: [Clients; 2] = [
    Clients {
        transport: "ws",
        title: "A call made over WebSocket, 64 in flight",
        clients: &[
            peers("jsonrpsee", &["jsonrpsee-client", "ws"]),
            client("caudal", &["caudal-ws"]),
        ],
    },
    Clients {
        transport: "http",
        title: "A call made by POST, 64 in flight",
        clients: &[
            client("hyper", &["hyper"]),
            client("caudal", &["caudal-http"]),
            peers("jsonrpsee", &["jsonrpsee-client", "http"]),
        ],
    },
];
