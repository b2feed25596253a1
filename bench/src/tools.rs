//! The programs that take part, built once.

use std::path::PathBuf;
use std::process::Command;

use crate::callgrind::Callgrind;
use crate::foreign::{self, Foreign};
use crate::neighbour;

/// Which program somebody is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Serve,
    Client,
    Peers,
    /// Programs in other languages, which may be missing.
    Node,
    Python,
}

/// Where they are.
#[derive(Debug)]
pub struct Tools {
    pub load: PathBuf,
    pub serve: PathBuf,
    pub client: PathBuf,
    /// Not there if nobody else is to take part.
    pub peers: Option<PathBuf>,
    /// The same with a counting allocator.
    pub serve_counted: PathBuf,
    pub client_counted: PathBuf,
    pub foreign: Foreign,
    pub callgrind: Option<Callgrind>,
}

impl Tools {
    /// Builds what must be built, and looks for the rest; `alone`, nothing that others
    /// have made, whose building takes longest.
    ///
    /// # Errors
    /// Something could not be built.
    pub fn find(alone: bool) -> Result<Self, String> {
        let names = ["load", "serve", "client", "serve-counted", "client-counted"];
        let [load, serve, client, serve_counted, client_counted] =
            neighbour::build("caudal-bench", names)?;
        let peers = match alone {
            true => None,
            false => Some(neighbour::build("caudal-bench-peers", ["peers"])?),
        };
        Ok(Self {
            load,
            serve,
            client,
            peers: peers.map(|[peers]| peers),
            serve_counted,
            client_counted,
            foreign: match alone {
                true => Foreign::default(),
                false => foreign::find(),
            },
            callgrind: Callgrind::find(),
        })
    }

    /// How a program is started, if it is there.
    #[must_use]
    pub fn command(&self, program: Program) -> Option<Command> {
        let of_path = |path: &PathBuf| Some(Command::new(path));
        match program {
            Program::Serve => of_path(&self.serve),
            Program::Client => of_path(&self.client),
            Program::Peers => of_path(self.peers.as_ref()?),
            Program::Node => foreign_command(self.foreign.node.as_ref()?),
            Program::Python => foreign_command(self.foreign.python.as_ref()?),
        }
    }
}

fn foreign_command(program: &foreign::Program) -> Option<Command> {
    let (program, arguments) = program.argv.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}
