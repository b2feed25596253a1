//! Where a peer is: one address grammar for the library and the command line.
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
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use caudal_core::Framing;

pub use self::error::EndpointError;
use self::error::{cut, no_scheme};

mod error;

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
    /// A WebSocket.
    WebSocket { url: String },
    /// An HTTP server; the URL stands without its fragment.
    Http { url: String, downlink: Downlink },
}

/// How an HTTP server reaches its client.
///
/// ```
/// assert_eq!(caudal::Downlink::default(), caudal::Downlink::None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Downlink {
    /// It only answers.
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

    /// How messages are told apart; of no meaning for WebSocket and HTTP.
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

    /// Whether only this machine can be at the other end: a host is `localhost`,
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

/// The parts of a URL.
#[cfg(feature = "http")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Whether it asks for TLS.
    pub(crate) secure: bool,
    /// Without its brackets.
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// Host and port as they stand in the URL.
    pub(crate) authority: &'a str,
    /// `/` at least, with what is asked behind it.
    pub(crate) path: &'a str,
}

#[cfg(feature = "http")]
impl Endpoint {
    /// The parts of a URL; `None` for all other addresses.
    pub(crate) fn target(&self) -> Option<Target<'_>> {
        let (Address::WebSocket { url } | Address::Http { url, .. }) = &self.address else {
            return None;
        };
        let secure = url.starts_with("https:") || url.starts_with("wss:");
        let authority = authority(url);
        let (host, port) = host_and_port(authority)?;
        let default = if secure { 443 } else { 80 };
        let (_, rest) = url.split_once("://")?;
        let path = rest.find(['/', '?']).and_then(|start| rest.get(start..));
        Some(Target {
            secure,
            host,
            port: port.map_or(Some(default), number)?,
            authority,
            path: path.unwrap_or("/"),
        })
    }

    /// The same URL with the port that the system chose.
    pub(crate) fn with_port(mut self, port: u16) -> Self {
        let Some(target) = self.target() else {
            return self;
        };
        let host = match target.host.contains(':') {
            true => format!("[{}]", target.host),
            false => target.host.to_owned(),
        };
        let old = target.authority.to_owned();
        if let Address::WebSocket { url } | Address::Http { url, .. } = &mut self.address {
            *url = url.replacen(&old, &format!("{host}:{port}"), 1);
        }
        self
    }
}

/// Reads the grammar at the top of the module.
///
/// # Errors
/// [`EndpointError`], whose message says what to write instead.
impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        Self::read(text).map_err(|error| match text.trim() {
            trimmed if trimmed == text => error,
            trimmed => match Self::read(trimmed) {
                Ok(_) => EndpointError::Spaces(cut(text), cut(trimmed)),
                Err(error) => error,
            },
        })
    }
}

impl Endpoint {
    fn read(text: &str) -> Result<Self, EndpointError> {
        let (body, option) = split_option(text);
        let (scheme, rest) = body.split_once(':').unwrap_or_default();
        let address = match (scheme, rest.strip_prefix("//")) {
            ("stdio", _) if rest.is_empty() => Address::Stdio,
            ("stdio", _) => return Err(EndpointError::Trailing(cut(text))),
            ("tcp", Some(authority)) => tcp(text, authority)?,
            ("unix", path) => unix(text, path, rest)?,
            ("cmd", _) => command(text, rest)?,
            ("ws" | "wss" | "http" | "https", Some(_)) => return url(text).map(Self::new),
            ("tcp" | "ws" | "wss" | "http" | "https", None) => {
                let hint = format!("{scheme}://{}", after_scheme(text).trim_start_matches('/'));
                return Err(EndpointError::NoSlashes(cut(text), cut(&hint)));
            }
            _ => return Err(no_scheme(text)),
        };
        let framing = match option {
            None => Framing::Line,
            Some(name) => {
                let known = FRAMINGS.iter().find(|(known, _)| *known == name);
                known
                    .ok_or_else(|| EndpointError::UnknownFraming(cut(text)))?
                    .1
            }
        };
        Ok(Self { address, framing })
    }
}

/// Splits the framing off. Paths and arguments may hold question marks too, so
/// only a bare word at the very end counts.
fn split_option(text: &str) -> (&str, Option<&str>) {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match text.rsplit_once(OPTION) {
        Some((body, word)) if word.bytes().all(bare) => (body, Some(word)),
        _ => (text, None),
    }
}

fn tcp(text: &str, authority: &str) -> Result<Address, EndpointError> {
    if authority.find(['?', '/', '#']).is_some_and(|at| at > 0) {
        return Err(EndpointError::Trailing(cut(text)));
    }
    let parts = host_and_port(authority);
    let (host, port) = parts.ok_or_else(|| EndpointError::BadHost(cut(text)))?;
    let Some(port) = port else {
        let option = split_option(text).1.map(|word| format!("{OPTION}{word}"));
        let hint = Endpoint::tcp(host, 4017).to_string() + &option.unwrap_or_default();
        return Err(EndpointError::NoPort(cut(text), cut(&hint)));
    };
    let port = number(port).ok_or_else(|| EndpointError::BadPort(cut(text)))?;
    let host = host.to_owned();
    Ok(Address::Tcp { host, port })
}

fn unix(text: &str, after_slashes: Option<&str>, rest: &str) -> Result<Address, EndpointError> {
    let path = after_slashes.unwrap_or(rest);
    if path.is_empty() {
        return Err(EndpointError::NoPath(cut(text)));
    }
    if after_slashes.is_some() && !path.starts_with('/') {
        // One name is a relative path; of more, the first was meant to have a slash.
        let slash = if path.contains('/') { "/" } else { "" };
        let hint = text.replacen("//", slash, 1);
        return Err(EndpointError::UnixHost(cut(text), cut(&hint)));
    }
    Ok(Address::Unix { path: path.into() })
}

fn command(text: &str, line: &str) -> Result<Address, EndpointError> {
    let words = shlex::split(line).ok_or_else(|| EndpointError::OpenQuote(cut(text)))?;
    let mut words = words.into_iter();
    let program = words.next().filter(|program| !program.is_empty());
    let program = program.ok_or_else(|| EndpointError::NoProgram(cut(text)))?;
    let args = words.collect();
    Ok(Address::Command { program, args })
}

fn url(text: &str) -> Result<Address, EndpointError> {
    // It would not be sent, and a password would be in every message.
    if authority(text).contains('@') {
        return Err(EndpointError::User);
    }
    // Readers of URLs disagree about these, and so about which host is meant.
    let bad = |c: &char| !c.is_ascii_graphic() || *c == '\\';
    if let Some(c) = text.chars().find(bad) {
        return Err(EndpointError::BadCharacter(cut(text), c));
    }
    if text.split('#').any(|part| split_option(part).1.is_some()) {
        return Err(EndpointError::FramingRefused(cut(text)));
    }
    let url = text.split('#').next().unwrap_or(text).to_owned();
    let parts = host_and_port(authority(&url));
    let (_, port) = parts.ok_or_else(|| EndpointError::BadHost(cut(text)))?;
    if port.is_some_and(|port| number(port).is_none()) {
        return Err(EndpointError::BadPort(cut(text)));
    }
    if let Some(plain) = without_dots(&url) {
        return Err(EndpointError::DotInPath(cut(text), cut(&plain)));
    }
    let downlink = match text.split_once('#') {
        None if url.starts_with("ws") => return Ok(Address::WebSocket { url }),
        None => Downlink::None,
        Some((_, "sse")) if url.starts_with("http") => Downlink::Sse,
        Some((_, "poll")) if url.starts_with("http") => Downlink::Poll,
        Some(_) => return Err(EndpointError::UnknownFragment(cut(text))),
    };
    Ok(Address::Http { url, downlink })
}

/// What others make of a URL whose path has `.` or `..` for a step; `None` if it has none.
fn without_dots(url: &str) -> Option<String> {
    let (before, asked) = url.split_once('?').unwrap_or((url, ""));
    let (scheme, rest) = before.split_once("://")?;
    let mut steps: Vec<&str> = rest.split('/').collect();
    if !steps.iter().skip(1).any(|step| [".", ".."].contains(step)) {
        return None;
    }
    let (host, path) = (steps.remove(0), steps);
    let mut plain: Vec<&str> = Vec::new();
    for step in path {
        match step {
            "." => {}
            ".." => drop(plain.pop()),
            step => plain.push(step),
        }
    }
    let asked = if asked.is_empty() {
        String::new()
    } else {
        format!("?{asked}")
    };
    Some(format!("{scheme}://{host}/{}{asked}", plain.join("/")))
}

/// What stands before the path of a URL: host and port.
fn authority(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    rest.split(['/', '?']).next().unwrap_or(rest)
}

fn host_and_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']')?;
        let (ip, _zone) = host.split_once('%').unwrap_or((host, ""));
        ip.parse::<Ipv6Addr>().ok()?;
        match port {
            "" => (host, ""),
            port => (host, port.strip_prefix(':')?),
        }
    } else {
        let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
        let bad = |c: char| c.is_whitespace() || c.is_control() || "/\\@[]#".contains(c);
        // A second colon is an IPv6 address without its brackets.
        if host.is_empty() || host.contains(bad) || port.contains(':') || is_no_ip(host) {
            return None;
        }
        (host, port)
    };
    Some((host, Some(port).filter(|port| !port.is_empty())))
}

/// Whether this was meant to be an IPv4 address, which no name looks like.
fn is_no_ip(host: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    host.split('.').count() == 4
        && host.split('.').all(is_number)
        && host.parse::<Ipv4Addr>().is_err()
}

fn after_scheme(text: &str) -> &str {
    text.split_once(':').unwrap_or_default().1
}

/// Reads a port; unlike `parse` it refuses a plus sign.
fn number(port: &str) -> Option<u16> {
    port.parse().ok().filter(|_| !port.starts_with('+'))
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
