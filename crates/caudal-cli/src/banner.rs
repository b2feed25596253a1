//! First output of `caudal serve`: its address, and commands that can be pasted and run.

use std::fmt::{self, Display, Write as _};
use std::path::{Path, PathBuf};

use caudal::{Address, Endpoint};
use caudal_cli::demo;

use crate::endpoint::{TOKEN, Token, is_secure, is_url};
use crate::params::quote;

const TICKS: &str = r#"'{"every_ms":300,"count":3,"wait":true}'"#;

/// The whole text; writing to a string does not fail. `cert` is the file that has the
/// certificate, where there is TLS.
pub(crate) fn text(endpoint: &Endpoint, token: Option<&Token>, cert: Option<&Path>) -> String {
    let mut text = format!("caudal serves its demo methods on {endpoint}\n");
    let tries = tries(endpoint, token, cert);
    if !tries.is_empty() {
        // The shell of another terminal does not know this one's environment.
        let set = match token {
            Some(Token::Environment(_)) if is_url(endpoint) => format!(" that has {TOKEN} too"),
            _ => String::new(),
        };
        let folder = match program() {
            Program::BuiltHere(_) => ", in this folder",
            _ => "",
        };
        let _ = writeln!(text, "\nTry, in another terminal{set}{folder}:");
    }
    for line in tries {
        let _ = writeln!(text, "  {line}");
    }
    if is_secure(endpoint) {
        text += "If the system does not trust the certificate, have SSL_CERT_FILE name a file with \
                 its root there.\n";
    }
    if *endpoint.address() == Address::Stdio {
        return text + "The end of the input stops it.\n";
    }
    let router = demo::router();
    let mut methods: Vec<_> = router.names().collect();
    methods.sort_unstable();
    let _ = writeln!(text, "\nMethods: {}\nCtrl-C stops it.", methods.join(", "));
    text
}

/// Commands to try.
fn tries(endpoint: &Endpoint, token: Option<&Token>, cert: Option<&Path>) -> Vec<String> {
    let caudal = program();
    let reached = reached(endpoint);
    let url = match endpoint.address() {
        Address::Http { .. } | Address::WebSocket { .. } => reached,
        Address::Stdio => return Vec::new(),
        _ => {
            let to = quote(&reached);
            return vec![
                format!("{caudal} call {to} add '[1,2]'"),
                format!("{caudal} call {to} ticks.start {TICKS} --verbose"),
            ];
        }
    };
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let (flag, header) = match token {
        Some(Token::Typed(token)) => (
            format!(" --token {}", quote(token)),
            format!(" -H {}", quote(&format!("Authorization: Bearer {token}"))),
        ),
        Some(Token::Environment(_)) => (
            format!(" --token \"${TOKEN}\""),
            format!(" -H \"Authorization: Bearer ${TOKEN}\""),
        ),
        None => Default::default(),
    };
    let s = match is_secure(endpoint) {
        true => "s",
        false => "",
    };
    let trust = cert.map(trusting).unwrap_or_default();
    let call = |to: &str, rest: &str| format!("{caudal} call {} {rest}{flag}", quote(to));
    vec![
        call(&format!("http{s}://{rest}"), "add '[1,2]'"),
        call(
            &format!("ws{s}://{rest}"),
            &format!("ticks.start {TICKS} --verbose"),
        ),
        call(
            &format!("http{s}://{rest}#sse"),
            &format!("ticks.start {TICKS} --verbose"),
        ),
        call(
            &format!("http{s}://{rest}#poll"),
            &format!("ticks.start {TICKS} --verbose"),
        ),
        format!(
            "curl {}{trust}{header} -H 'Content-Type: application/json' -d '{}'",
            quote(&format!("http{s}://{rest}")),
            r#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#,
        ),
    ]
}

/// The flag by which curl trusts it. The path is whole, as the other terminal may be in
/// another folder.
fn trusting(cert: &Path) -> String {
    let path = std::path::absolute(cert).unwrap_or(cert.to_owned());
    format!(" --cacert {}", quote(&path.to_string_lossy()))
}

/// Name or path by which this program can be run.
enum Program {
    /// Its name, which is found in `PATH`.
    Found,
    /// The path from the current folder, in which the program was built.
    BuiltHere(String),
    /// The whole path.
    Elsewhere(String),
}

impl Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found => f.write_str("caudal"),
            Self::BuiltHere(path) | Self::Elsewhere(path) => f.write_str(&quote(path)),
        }
    }
}

fn program() -> Program {
    let Ok(here) = std::env::current_exe() else {
        return Program::Found;
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|folder: PathBuf| folder.join("caudal"));
    let first = found.find(|program| program.is_file());
    let first = first.and_then(|program| program.canonicalize().ok());
    if first.is_some() && first == here.canonicalize().ok() {
        return Program::Found;
    }
    let folder = std::env::current_dir().unwrap_or_default();
    match short(&here, &folder) {
        Some(path) => Program::BuiltHere(path),
        None => Program::Elsewhere(here.to_string_lossy().into_owned()),
    }
}

/// The path from a folder that is a project and has built this program.
fn short(program: &Path, folder: &Path) -> Option<String> {
    let path = program.strip_prefix(folder).ok()?;
    let built = path.starts_with("target");
    built.then(|| path.to_string_lossy().into_owned())
}

/// Address for a client on this machine: an unspecified address cannot be called.
fn reached(endpoint: &Endpoint) -> String {
    let text = endpoint.to_string();
    match is_unspecified(endpoint) {
        true => {
            text.replacen("://0.0.0.0:", "://127.0.0.1:", 1)
                .replacen("://[::]:", "://[::1]:", 1)
        }
        false => text,
    }
}

/// Returns true if the endpoint listens on every address of the machine.
fn is_unspecified(endpoint: &Endpoint) -> bool {
    let text = endpoint.to_string();
    text.contains("://0.0.0.0:") || text.contains("://[::]:")
}

/// The same address with another port.
pub(crate) fn with_port(endpoint: &Endpoint, port: u16) -> String {
    let text = endpoint.to_string();
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once(':') {
        Some((host, digits)) if digits.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    format!("{scheme}://{host}:{port}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    #[test]
    fn a_port_is_replaced() {
        let cases = [
            ("http://127.0.0.1:4100/rpc", "http://127.0.0.1:0/rpc"),
            ("http://[::1]/rpc?a:1", "http://[::1]:0/rpc?a:1"),
            ("tcp://a:1?framing=header", "tcp://a:0?framing=header"),
        ];
        for (from, to) in cases {
            assert_eq!(with_port(&endpoint(from), 0), to);
        }
    }

    #[test]
    fn an_unspecified_address_is_reached_by_loopback() {
        assert_eq!(
            reached(&endpoint("http://0.0.0.0:1/x")),
            "http://127.0.0.1:1/x"
        );
        assert_eq!(reached(&endpoint("tcp://[::]:1")), "tcp://[::1]:1");
    }

    #[test]
    fn commands_carry_the_token() {
        let here = endpoint("http://127.0.0.1:1/rpc");
        let typed = tries(&here, Some(&Token::Typed("it's".to_owned())), None);
        for line in &typed {
            assert!(line.contains(r"it'\''s"), "{line}");
        }
        let environment = tries(&here, Some(&Token::Environment("secret".to_owned())), None);
        for line in &environment {
            assert!(
                line.contains("$CAUDAL_TOKEN") && !line.contains("secret"),
                "{line}"
            );
        }
    }

    #[test]
    fn what_cargo_has_built_is_named_from_its_folder() {
        let short = |program: &str| short(Path::new(program), Path::new("/a project"));
        assert_eq!(
            short("/a project/target/release/caudal").as_deref(),
            Some("target/release/caudal")
        );
        for other in [
            "/a project/bin/caudal",
            "/a project/caudal",
            "/b/target/release/caudal",
            "/a project 2/target/release/caudal",
        ] {
            assert_eq!(short(other), None, "{other}");
        }
    }
}
