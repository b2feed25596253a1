//! Addresses of peers: one grammar for the library and the command line.
//!
//! | address | peer |
//! |---|---|
//! | `stdio:` | this process's standard input and output |
//! | `tcp://host:port` | a TCP socket; IPv6 in brackets; port 0 listens on a free one |
//! | `unix:path`, `unix:///path` | a Unix socket; the path is taken as it stands |
//! | `cmd:program args` | a child process; quotes as in a shell, but no shell runs |
//! | `ws://…`, `wss://…` | a WebSocket |
//! | `http://…`, `https://…` | HTTP; `#sse` or `#poll` lets the server speak first |
//!
//! The first four may end in `?framing=line`, `header` or `concatenated`.

use std::fmt;
use std::iter;
use std::net::IpAddr;
use std::path::PathBuf;

use caudal_core::Framing;

pub use self::error::EndpointError;
use self::parse::{authority, host_and_port, number};
#[cfg(feature = "http")]
pub(crate) use self::target::Target;

mod error;
mod parse;
#[cfg(feature = "http")]
mod target;

/// An address and its framing; [`Display`](fmt::Display) writes what parses back.
///
/// The exceptions are parts that the grammar refuses, such as an empty host, and
/// paths that are not Unicode. A function that takes
/// `impl TryInto<Endpoint, Error: Into<EndpointError>>` takes text as well.
///
/// ```
/// use caudal::{Endpoint, Framing};
///
/// let endpoint: Endpoint = "cmd:pylsp -v ?framing=header".parse()?;
/// assert_eq!(endpoint, Endpoint::command("pylsp", ["-v"]).with_framing(Framing::Header));
/// assert_eq!(endpoint.to_string(), "cmd:pylsp -v?framing=header");
/// # Ok::<(), caudal::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    address: Address,
    framing: Framing,
}

/// The kinds of address.
///
/// ```
/// use caudal::{Address, Endpoint};
///
/// assert_eq!(Endpoint::stdio().address(), &Address::Stdio);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Address {
    /// This process's standard input and output.
    Stdio,
    /// A TCP socket; an IPv6 host stands without its brackets.
    Tcp { host: String, port: u16 },
    /// A Unix socket.
    Unix { path: PathBuf },
    /// A child process, started without a shell.
    Command { program: String, args: Vec<String> },
    /// A WebSocket. [`serve`](crate::serve()) makes the same server of it as of
    /// [`Http`](Self::Http).
    WebSocket { url: String },
    /// An HTTP server; the URL stands without its fragment.
    Http { url: String, downlink: Downlink },
}

/// Channel on which an HTTP server sends messages to its client.
///
/// ```
/// assert_eq!(caudal::Downlink::default(), caudal::Downlink::None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Downlink {
    /// No channel: the server only answers requests.
    #[default]
    None,
    /// By server-sent events: `#sse`.
    Sse,
    /// By long polling: `#poll`.
    Poll,
}

const FRAMINGS: [(&str, Framing); 3] = [
    ("line", Framing::Line),
    ("header", Framing::Header),
    ("concatenated", Framing::Concatenated),
];
const OPTION: &str = "?framing=";

impl Endpoint {
    const fn new(address: Address) -> Self {
        let framing = Framing::Line;
        Self { address, framing }
    }

    /// This process's standard input and output.
    #[must_use]
    pub const fn stdio() -> Self {
        Self::new(Address::Stdio)
    }

    /// A TCP socket; an IPv6 host may have its brackets.
    ///
    /// ```
    /// # use caudal::Endpoint;
    /// assert_eq!(Endpoint::tcp("::1", 4017).to_string(), "tcp://[::1]:4017");
    /// ```
    #[must_use]
    pub fn tcp(host: impl Into<String>, port: u16) -> Self {
        let mut host = host.into();
        if let Some(inner) = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            host = inner.to_owned();
        }
        Self::new(Address::Tcp { host, port })
    }

    /// A Unix socket.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::new(Address::Unix { path: path.into() })
    }

    /// A child process; the arguments reach it as they are.
    ///
    /// ```
    /// # use caudal::Endpoint;
    /// let endpoint = Endpoint::command("sed", ["s/a b/c/"]);
    /// assert_eq!(endpoint.to_string(), "cmd:sed 's/a b/c/'");
    /// ```
    #[must_use]
    pub fn command(
        program: impl Into<String>,
        args: impl IntoIterator<Item: Into<String>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::new(Address::Command {
            program: program.into(),
            args,
        })
    }

    /// The address.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// The port; of a URL that names none, that of its scheme.
    ///
    /// ```
    /// let endpoint: caudal::Endpoint = "https://localhost/rpc".parse()?;
    /// assert_eq!(endpoint.port(), Some(443));
    /// # Ok::<(), caudal::EndpointError>(())
    /// ```
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        match &self.address {
            Address::Tcp { port, .. } => Some(*port),
            Address::WebSocket { url } | Address::Http { url, .. } => {
                let (_, port) = host_and_port(authority(url))?;
                let secure = url.starts_with("https:") || url.starts_with("wss:");
                port.map_or(Some(if secure { 443 } else { 80 }), number)
            }
            Address::Stdio | Address::Unix { .. } | Address::Command { .. } => None,
        }
    }

    /// The same with the port that the system chose, if the address has a port.
    pub(crate) fn with_port(mut self, chosen: Option<u16>) -> Self {
        let Some(chosen) = chosen else {
            return self;
        };
        match &mut self.address {
            Address::Tcp { port, .. } => *port = chosen,
            Address::WebSocket { url } | Address::Http { url, .. } => {
                let old = authority(url).to_owned();
                if let Some((host, _)) = host_and_port(&old) {
                    let host = match host.contains(':') {
                        true => format!("[{host}]"),
                        false => host.to_owned(),
                    };
                    *url = url.replacen(&old, &format!("{host}:{chosen}"), 1);
                }
            }
            Address::Stdio | Address::Unix { .. } | Address::Command { .. } => {}
        }
        self
    }

    /// Framing of the messages; not used by WebSocket and HTTP.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.framing
    }

    /// Sets the framing; WebSocket and HTTP bring their own and stay as they are.
    #[must_use]
    pub const fn with_framing(mut self, framing: Framing) -> Self {
        if !matches!(
            self.address,
            Address::WebSocket { .. } | Address::Http { .. }
        ) {
            self.framing = framing;
        }
        self
    }

    /// Returns true if only this machine can be at the other end: the host is `localhost`,
    /// 127.0.0.0/8 or `::1`, or there is no host. No name is looked up.
    ///
    /// ```
    /// # use caudal::Endpoint;
    /// assert!(Endpoint::tcp("127.0.0.1", 0).is_loopback());
    /// assert!(!Endpoint::tcp("0.0.0.0", 0).is_loopback());
    /// ```
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let host = match &self.address {
            Address::Stdio | Address::Unix { .. } | Address::Command { .. } => return true,
            Address::Tcp { host, .. } => Some(host.as_str()),
            Address::WebSocket { url } | Address::Http { url, .. } => {
                host_and_port(authority(url)).map(|(host, _)| host)
            }
        };
        host.is_some_and(|host| {
            host.eq_ignore_ascii_case("localhost")
                || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = match &self.address {
            Address::Stdio => "stdio:".to_owned(),
            Address::Tcp { host, port } if host.contains(':') => format!("tcp://[{host}]:{port}"),
            Address::Tcp { host, port } => format!("tcp://{host}:{port}"),
            Address::Unix { path } if path.to_string_lossy().starts_with("//") => {
                format!("unix://{}", path.display())
            }
            Address::Unix { path } => format!("unix:{}", path.display()),
            Address::Command { program, args } => {
                let words = iter::once(program).chain(args).map(String::as_str);
                let quoter = shlex::Quoter::new().allow_nul(true);
                format!("cmd:{}", quoter.join(words).map_err(|_| fmt::Error)?)
            }
            Address::WebSocket { url } => return f.write_str(url),
            Address::Http { url, downlink } => {
                return match downlink {
                    Downlink::None => f.write_str(url),
                    Downlink::Sse => write!(f, "{url}#sse"),
                    Downlink::Poll => write!(f, "{url}#poll"),
                };
            }
        };
        f.write_str(&body)?;
        let name = FRAMINGS.iter().find(|(_, known)| *known == self.framing);
        match name {
            // The default is written where a path or an argument looks like one.
            Some((name, _)) if self.framing != Framing::Line || body.contains(OPTION) => {
                write!(f, "{OPTION}{name}")
            }
            _ => Ok(()),
        }
    }
}

macro_rules! try_from_text {
    ($($text:ty),*) => {$(
        impl TryFrom<$text> for Endpoint {
            type Error = EndpointError;

            fn try_from(text: $text) -> Result<Self, EndpointError> {
                text.parse()
            }
        }
    )*};
}
try_from_text!(&str, String, &String);

impl From<&Self> for Endpoint {
    fn from(endpoint: &Self) -> Self {
        endpoint.clone()
    }
}

#[cfg(test)]
mod tests;
