//! `caudal`: call any JSON-RPC 2.0 endpoint, or serve one to try.
//!
//! ```text
//! args    what was typed
//!  ├→ call    params → endpoint → one call → result on stdout
//!  │    └→ explain or what went wrong
//!  └→ serve   demo methods → banner → until a signal
//!       └→ log     what the library warns of
//! exit    how it ended: one number for each kind
//! ```

mod args;
mod banner;
mod call;
mod endpoint;
mod exit;
mod explain;
mod findings;
mod layout;
mod limits;
mod log;
mod params;
mod serve;
mod signals;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use clap::error::ContextKind;

use args::{Cli, Command};
use exit::{Exit, Failure};
use signals::{HANGS, within};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            // It would be to pass what is unknown after `--`, where a program stands here.
            error.remove(ContextKind::Suggested);
            // Also --help and --version come this way; a closed pipe is no matter.
            let _ = error.print();
            return match error.use_stderr() {
                true => Exit::Usage.into(),
                false => Exit::Ok.into(),
            };
        }
    };
    let (started, limit) = (Instant::now(), cli.command.limit());
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            let exit = failure.exit;
            // A stderr that is not read may delay the end for as long as the call's timeout.
            let patience = limit.saturating_sub(started.elapsed()).max(HANGS);
            within(patience, move || failure.report());
            exit.into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let mut runtime = match &cli.command {
        Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        Command::Call(_) => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new(Exit::Usage, format!("cannot start the runtime: {error}")))?;
    let done = runtime.block_on(async {
        match cli.command {
            Command::Serve(serve) => Box::pin(serve::run(serve)).await,
            Command::Call(call) => Box::pin(call::run(call)).await,
        }
    });
    // A thread may still read a terminal, and would be waited for.
    runtime.shutdown_background();
    done
}
