//! Outgoing calls, 64 in flight: clients take turns against the same server.

use std::path::Path;

use serde::Serialize;

use crate::awake::{self, Awake};
use crate::peer::{self, Called, difference};
use crate::quiet;
use crate::time::Spread;
use crate::tools::Program::{self, Client, Peers};
use crate::tools::Tools;

/// Somebody who calls.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Caller {
    pub(super) name: &'static str,
    #[serde(skip)]
    program: Program,
    #[serde(skip)]
    arguments: &'static [&'static str],
}

/// Clients of one transport, 64 calls in flight; the server is `serve bare`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Clients {
    pub(super) transport: &'static str,
    pub(super) title: &'static str,
    /// Whether processors are kept from halting.
    pub(super) awake: bool,
    /// Each is compared with the first.
    pub(super) clients: &'static [Caller],
}

const fn caller(
    program: Program,
    name: &'static str,
    arguments: &'static [&'static str],
) -> Caller {
    Caller {
        name,
        program,
        arguments,
    }
}

const SOCKETS: &[Caller] = &[
    caller(Peers, "jsonrpsee", &["jsonrpsee-client", "ws"]),
    caller(Client, "caudal", &["caudal-ws"]),
];

const CLIENTS: [Clients; 3] = [
    Clients {
        transport: "ws",
        title: "A call made over WebSocket, 64 in flight",
        awake: false,
        clients: SOCKETS,
    },
    Clients {
        transport: "ws",
        title: "A call made over WebSocket, 64 in flight, processors that are kept awake",
        awake: true,
        clients: SOCKETS,
    },
    Clients {
        transport: "http",
        title: "A call made by POST, 64 in flight",
        awake: false,
        clients: &[
            caller(Client, "hyper", &["hyper"]),
            caller(Client, "caudal", &["caudal-http"]),
            caller(Peers, "jsonrpsee", &["jsonrpsee-client", "http"]),
        ],
    },
];

/// How the clients of one transport did.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Calls {
    #[serde(flatten)]
    pub(super) clients: Clients,
    rounds: Vec<Vec<Called>>,
    instructions: Vec<Option<f64>>,
}

impl Calls {
    /// Where somebody stands who took part.
    fn place(&self, name: &str) -> Option<usize> {
        let mut clients = self.clients.clients.iter();
        let place = clients.position(|client| client.name == name)?;
        (!self.rounds[place].is_empty()).then_some(place)
    }

    pub(super) fn median(&self, name: &str, of: fn(&Called) -> f64) -> Option<f64> {
        let rounds = &self.rounds[self.place(name)?];
        Some(Spread::of(rounds.iter().map(of).collect()).median)
    }

    /// Calls per second of one over those of the other in the same round.
    pub(super) fn ratio(&self, name: &str, base: &str) -> Option<Spread> {
        let [name, base] = [name, base].map(|name| self.place(name));
        let both = self.rounds[name?].iter().zip(&self.rounds[base?]);
        let ratios = both.map(|(a, b)| a.per_second / b.per_second);
        Some(Spread::of(ratios.collect()))
    }

    pub(super) fn instructions(&self, name: &str) -> Option<f64> {
        self.instructions[self.place(name)?]
    }
}

pub(super) fn run(tools: &Tools, quick: bool) -> Result<Vec<Calls>, String> {
    let (rounds, time) = if quick { (2, "0.1s") } else { (7, "0.7s") };
    let mut all = Vec::new();
    for clients in CLIENTS {
        if clients.awake && !awake::is_possible() {
            continue;
        }
        let mut turns = vec![Vec::new(); clients.clients.len()];
        let awake = clients.awake.then(Awake::keep);
        for _ in 0..rounds {
            for (client, turns) in clients.clients.iter().zip(&mut turns) {
                let Some(program) = tools.command(client.program) else {
                    continue;
                };
                let arguments = arguments(tools, &clients, client, time)?;
                let program = Path::new(program.get_program());
                turns.push(quiet::turn(|| peer::client(program, &arguments))?);
            }
        }
        drop(awake);
        let instructions = clients.clients.iter();
        let instructions = instructions.map(|client| instructed(tools, &clients, client, quick));
        all.push(Calls {
            clients,
            rounds: turns,
            instructions: instructions.collect::<Result<_, _>>()?,
        });
    }
    Ok(all)
}

/// The client alone is under callgrind; the server it starts is not.
fn instructed(
    tools: &Tools,
    clients: &Clients,
    client: &Caller,
    quick: bool,
) -> Result<Option<f64>, String> {
    let Some(callgrind) = &tools.callgrind else {
        return Ok(None);
    };
    // They are the same on all processors.
    if clients.awake || quick && client.name != "caudal" {
        return Ok(None);
    }
    let counts = match quick {
        true => (1_280, 3_840),
        false => (6_400, 19_200),
    };
    let Some(program) = tools.command(client.program) else {
        return Ok(None);
    };
    let program = Path::new(program.get_program());
    let total = |count: u64| {
        let arguments = arguments(tools, clients, client, &count.to_string())?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        callgrind.total(program, &arguments, |command| {
            let output = command.output().map_err(|e| e.to_string())?;
            match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        })
    };
    difference(counts, total).map(Some)
}

fn arguments(
    tools: &Tools,
    clients: &Clients,
    client: &Caller,
    amount: &str,
) -> Result<Vec<String>, String> {
    let serve = tools.serve.to_str().ok_or("a path that is not Unicode")?;
    let server = [amount, serve, "bare", clients.transport];
    let arguments = client.arguments.iter().copied().chain(server);
    Ok(arguments.map(str::to_owned).collect())
}
