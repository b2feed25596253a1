//! Who takes part over pipes and sockets, and how each wants to be spoken to.

use crate::tools::Program::{self, Node, Peers, Python, Serve};

/// A server.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    pub name: &'static str,
    pub program: Program,
    /// What its program calls it.
    pub argument: &'static str,
    pub framing: &'static str,
    pub dialect: &'static str,
}

const fn of(
    program: Program,
    name: &'static str,
    framing: &'static str,
    dialect: &'static str,
) -> Contestant {
    Contestant {
        name,
        program,
        argument: name,
        framing,
        dialect,
    }
}

const BARE: Contestant = of(Serve, "bare", "line", "plain");
const CAUDAL: Contestant = of(Serve, "caudal", "line", "plain");
const CAUDAL_ASYNC: Contestant = of(Serve, "caudal-async", "line", "plain");
const BARE_HEADER: Contestant = of(Serve, "bare", "header", "plain");
const CAUDAL_HEADER: Contestant = of(Serve, "caudal", "header", "plain");
const ASYNC_LSP: Contestant = of(Peers, "async-lsp", "header", "lsp");
const TOWER_LSP: Contestant = of(Peers, "tower-lsp-server", "header", "lsp");
const LSP_SERVER: Contestant = of(Peers, "lsp-server", "header", "lsp");
const RMCP: Contestant = of(Peers, "rmcp", "line", "mcp");
/// It has other pipes beside its default, which are faster.
const RMCP_PIPES: Contestant = of(Peers, "rmcp-pipes", "line", "mcp");
const VSCODE: Contestant = of(Node, "vscode-jsonrpc", "header", "plain");
const PYTHON: Contestant = of(Python, "python-lsp-jsonrpc", "header", "plain");
const KARYON: Contestant = of(Peers, "karyon", "json", "dotted");

const HYPER: Contestant = of(Serve, "hyper", "post", "plain");
const CAUDAL_POST: Contestant = of(Serve, "caudal", "post", "plain");
const JSONRPSEE_POST: Contestant = of(Peers, "jsonrpsee", "post", "plain");
const AXUM: Contestant = of(Peers, "axum", "post", "plain");
const CAUDAL_WS: Contestant = of(Serve, "caudal", "ws", "plain");
const JSONRPSEE_WS: Contestant = of(Peers, "jsonrpsee", "ws", "plain");

/// What no server can be faster than, whether it writes once for all that it has read or
/// as often as a server may: 0.05 times for each answer.
pub(super) const ORACLES: &[Contestant] = &[
    of(Serve, "oracle", "line", "plain"),
    of(Serve, "oracle-21", "line", "plain"),
    of(Serve, "oracle", "header", "plain"),
    of(Serve, "oracle-21", "header", "plain"),
];

/// Each is compared with the first in its framing.
pub(super) const PIPED: &[Contestant] = &[
    BARE,
    CAUDAL,
    CAUDAL_ASYNC,
    RMCP,
    RMCP_PIPES,
    BARE_HEADER,
    CAUDAL_HEADER,
    ASYNC_LSP,
    TOWER_LSP,
    LSP_SERVER,
    VSCODE,
    PYTHON,
];

pub(super) const CONNECTED: &[Contestant] = &[
    BARE,
    CAUDAL,
    CAUDAL_ASYNC,
    KARYON,
    BARE_HEADER,
    CAUDAL_HEADER,
    ASYNC_LSP,
    TOWER_LSP,
    LSP_SERVER,
];

/// Those who know `echo` on many connections; the others need no turns as long.
pub(super) const ECHOES: &[Contestant] = &[BARE, CAUDAL, CAUDAL_ASYNC];
pub(super) const ECHO_PEERS: &[Contestant] = &[
    BARE,
    CAUDAL,
    KARYON,
    BARE_HEADER,
    CAUDAL_HEADER,
    ASYNC_LSP,
    TOWER_LSP,
    LSP_SERVER,
];
pub(super) const ECHO_SOCKETS: &[Contestant] = &[CAUDAL_WS, JSONRPSEE_WS];
pub(super) const ECHO_POSTED: &[Contestant] = &[CAUDAL_POST, AXUM, JSONRPSEE_POST];

pub(super) const POSTED: &[Contestant] = &[
    HYPER,
    CAUDAL_POST,
    AXUM,
    JSONRPSEE_POST,
    of(Peers, "karyon", "post", "dotted"),
];

/// Those who can be given a runtime of one thread.
pub(super) const POSTED_ONE: &[Contestant] = &[HYPER, CAUDAL_POST, AXUM, JSONRPSEE_POST];

/// A fixed body is no batch.
pub(super) const BATCHED: &[Contestant] = &[JSONRPSEE_POST, CAUDAL_POST, AXUM];

pub(super) const SOCKETS: &[Contestant] = &[
    of(Serve, "bare", "ws", "plain"),
    CAUDAL_WS,
    JSONRPSEE_WS,
    of(Peers, "karyon", "ws", "dotted"),
];

pub(super) const FANS: &[Contestant] = &[
    Contestant {
        argument: "bare-fan",
        ..of(Serve, "bare", "ws", "plain")
    },
    CAUDAL_WS,
    JSONRPSEE_WS,
];

/// Those whose handlers may wait while others go on.
pub(super) const SLOW_PIPED: &[Contestant] =
    &[CAUDAL, RMCP, CAUDAL_HEADER, ASYNC_LSP, TOWER_LSP, VSCODE];
pub(super) const SLOW_POSTED: &[Contestant] = &[CAUDAL_POST, AXUM, JSONRPSEE_POST];
pub(super) const SLOW_SOCKETS: &[Contestant] = &[CAUDAL_WS, JSONRPSEE_WS];

impl Contestant {
    /// What its program is told, to serve over `transport`.
    #[must_use]
    pub fn arguments(&self, transport: &'static str) -> Vec<&'static str> {
        match (self.program, transport, self.framing) {
            (Node | Python, ..) => Vec::new(),
            (_, "http" | "ws", _) | (.., "json") => vec![self.argument, transport],
            (.., framing) => vec![self.argument, transport, framing],
        }
    }

    /// The same so that its instructions can be counted: what the threads of a runtime
    /// say to each other is different on every run. `None` if it cannot be.
    #[must_use]
    pub fn arguments_counted(&self, transport: &'static str) -> Option<Vec<&'static str>> {
        let mut arguments = self.arguments(transport);
        match (self.program, transport) {
            (Node | Python, _) => return None,
            (_, "http" | "ws") if self.argument == "karyon" => return None,
            (_, "http" | "ws") => arguments.push("one"),
            _ => {}
        }
        Some(arguments)
    }

    /// With whom it is compared: the first whose framing is the same, or near.
    #[must_use]
    pub fn family(&self) -> &'static str {
        match self.framing {
            "json" => "line",
            framing => framing,
        }
    }
}
