//! `serve CONTESTANT stdio|tcp [line|header] [one]`: a server with the method `add`; `one`
//! is for callgrind, a runtime of one thread: what threads say to each other is different
//! on every run.
//!
//! ```text
//! bare           every framing and transport; also knows `echo` and `place`
//! caudal         the same, with a plain handler, and `spin`: an `add` that takes 100 µs of
//!                processor time
//! caudal-async   the same, with a handler that is a ready future
//! ```
//!
//! `serve CONTESTANT http|ws [one]`: the same over HTTP and WebSocket; see `web`.
//!
//! The peers are in a package of their own, `peers`.
//!
//! Over sockets a server listens on a free port of 127.0.0.1, prints the port on a
//! line of its own, and ends when its standard input does.

mod bare;
mod caudal;
mod web;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;

/// Boundary between messages.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Line,
    Header,
}

/// Transport of the bytes.
#[derive(Clone, Copy, Debug)]
enum Transport {
    Stdio,
    Tcp,
}

type Outcome = Result<(), Box<dyn std::error::Error>>;

pub(crate) fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("serve: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> Outcome {
    let (name, transport, framing) = match *arguments {
        [name, transport @ ("http" | "ws")] => return web::serve(name, transport, false),
        [name, transport @ ("http" | "ws"), "one"] => return web::serve(name, transport, true),
        [name, transport] => (name, transport, "line"),
        [name, transport, framing] | [name, transport, framing, "one"] => {
            (name, transport, framing)
        }
        _ => return Err("serve CONTESTANT stdio|tcp [line|header] [one]".into()),
    };
    let one_thread = arguments.last() == Some(&"one");
    let transport = match transport {
        "stdio" => Transport::Stdio,
        "tcp" => Transport::Tcp,
        other => return Err(format!("no transport `{other}`").into()),
    };
    let framing = match framing {
        "line" => Framing::Line,
        "header" => Framing::Header,
        other => return Err(format!("no framing `{other}`").into()),
    };
    match name {
        "bare" => bare::serve(transport, framing),
        "caudal" => caudal::serve(transport, framing, false, one_thread),
        "caudal-async" => caudal::serve(transport, framing, true, one_thread),
        _ => Err(format!("no contestant `{name}`").into()),
    }
}

/// Listens on a free port of this machine only, and says which.
fn listen() -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    announce(listener.local_addr()?.port())?;
    Ok(listener)
}

/// Says where this server listens, and ends it when nobody wants it any more.
fn announce(port: u16) -> std::io::Result<()> {
    println!("{port}");
    std::io::stdout().flush()?;
    // Whoever started this process holds the other end: nothing stays behind
    // when that process goes.
    std::thread::spawn(|| {
        let mut ignored = [0; 64];
        while matches!(std::io::stdin().read(&mut ignored), Ok(1..)) {}
        std::process::exit(0);
    });
    Ok(())
}

/// The next connection, which sends what is written at once.
fn accept(listener: &TcpListener) -> std::io::Result<TcpStream> {
    let (stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
