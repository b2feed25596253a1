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

use std::convert::Infallible;
use std::fmt;
use std::iter;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use caudal_core::Framing;
use thiserror::Error;

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

/// Why a text is not an endpoint: the text, at most 128 characters of it, and
/// where there is a second field, what to try instead.
///
/// ```
/// let error = caudal::Endpoint::try_from("tpc://a:1").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`tpc://a:1` has an unknown scheme; did you mean `tcp://a:1`?",
/// );
/// ```
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum EndpointError {
    #[error("the endpoint is empty; try `stdio:` or `tcp://localhost:4017`")]
    Empty,
    #[error("`{0}` has no scheme; try `{1}`")]
    NoScheme(String, String),
    #[error("`{0}` has an unknown scheme; did you mean `{1}`?")]
    MisspeltScheme(String, String),
    #[error("`{0}` has an unknown scheme; use one of {known}", known = SCHEMES.join(" "))]
    UnknownScheme(String),
    #[error("`{0}` has no valid host; write one as in `localhost:4017` or `[::1]:4017`")]
    BadHost(String),
    #[error("`{0}` has no port; try `{1}`")]
    NoPort(String, String),
    #[error("`{0}` has a bad port; use 1–65535, or 0 to listen on a free one")]
    BadPort(String),
    #[error("`{0}` has no path; try `unix:/tmp/caudal.sock`")]
    NoPath(String),
    #[error("`{0}` has a host before its path; try `{1}`")]
    UnixHost(String, String),
    #[error("`{0}` has no program; try `cmd:pylsp`")]
    NoProgram(String),
    #[error("`{0}` has an open quote or ends in a backslash; close or quote it")]
    OpenQuote(String),
    #[error("`{0}` has {1:?} in its URL; percent-encode it")]
    BadCharacter(String, char),
    #[error("`{0}` has an unknown fragment; HTTP has `#sse` and `#poll`, WebSocket none")]
    UnknownFragment(String),
    #[error("`{0}` has an unknown framing; use `line`, `header` or `concatenated`")]
    UnknownFraming(String),
    #[error("`{0}` has a framing, but WebSocket and HTTP bring their own; remove `?framing=`")]
    FramingRefused(String),
    #[error("`{0}` has something behind its address; only `?framing=…` may follow")]
    Trailing(String),
}

const SCHEMES: [&str; 8] = [
    "stdio:", "tcp://", "unix:", "cmd:", "ws://", "wss://", "http://", "https://",
];
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
        let (body, option) = split_option(text);
        let (scheme, rest) = body.split_once(':').unwrap_or_default();
        let address = match (scheme, rest.strip_prefix("//")) {
            ("stdio", _) if rest.is_empty() => Address::Stdio,
            ("stdio", _) => return Err(EndpointError::Trailing(cut(text))),
            ("tcp", Some(authority)) => tcp(text, authority)?,
            ("unix", path) => unix(text, path, rest)?,
            ("cmd", _) => command(text, rest)?,
            ("ws" | "wss" | "http" | "https", Some(_)) => return url(text).map(Self::new),
            ("tcp" | "ws" | "wss" | "http" | "https", None) => return Err(misspelt(text)),
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
    if authority.contains('?') {
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
        let hint = text.replacen("//", "/", 1);
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
    // Readers of URLs disagree about these, and so about which host is meant.
    let bad = |c: &char| c.is_whitespace() || c.is_control() || *c == '\\';
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
    let downlink = match text.split_once('#') {
        None if url.starts_with("ws") => return Ok(Address::WebSocket { url }),
        None => Downlink::None,
        Some((_, "sse")) if url.starts_with("http") => Downlink::Sse,
        Some((_, "poll")) if url.starts_with("http") => Downlink::Poll,
        Some(_) => return Err(EndpointError::UnknownFragment(cut(text))),
    };
    Ok(Address::Http { url, downlink })
}

/// The host and port of a URL, without the user before them.
fn authority(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let user = authority.rsplit_once('@');
    user.map_or(authority, |(_, authority)| authority)
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
        if host.is_empty() || host.contains(bad) || port.contains(':') {
            return None;
        }
        (host, port)
    };
    Some((host, Some(port).filter(|port| !port.is_empty())))
}

/// Reads a port; unlike `parse` it refuses a plus sign.
fn number(port: &str) -> Option<u16> {
    port.parse().ok().filter(|_| !port.starts_with('+'))
}

/// Says what a text with none of the known schemes was probably meant to be.
fn no_scheme(text: &str) -> EndpointError {
    let (body, _) = split_option(text);
    let (word, rest) = text.split_once(':').unwrap_or_default();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    let has_word = !word.is_empty() && word.chars().all(is_word);
    let has_port = has_word && rest.starts_with(|c: char| c.is_ascii_digit());
    let path_like = text.starts_with(['/', '.']) || body.ends_with(".sock");
    let hint = if text.trim().is_empty() {
        return EndpointError::Empty;
    } else if let Some(known) = SCHEMES.iter().find(|known| name(known) == body) {
        text.replacen(body, known, 1)
    } else if has_port || text.starts_with(['[', ':']) {
        format!("tcp://{text}")
    } else if has_word {
        return misspelt(text);
    } else if path_like && !text.contains(char::is_whitespace) {
        format!("unix:{text}")
    } else {
        format!("cmd:{text}")
    };
    EndpointError::NoScheme(cut(text), cut(&hint))
}

fn misspelt(text: &str) -> EndpointError {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    let word = word.to_ascii_lowercase();
    let known = SCHEMES.map(|known| (distance(&word, name(known)), known));
    // A distance of the whole name would make `ws` of any two letters.
    let near = |(distance, known): &(usize, &str)| *distance <= 2 && *distance < name(known).len();
    let Some((_, known)) = known
        .into_iter()
        .filter(near)
        .min_by_key(|(distance, _)| *distance)
    else {
        return EndpointError::UnknownScheme(cut(text));
    };
    let rest = if known.ends_with('/') {
        rest.trim_start_matches('/')
    } else {
        rest
    };
    EndpointError::MisspeltScheme(cut(text), cut(&format!("{known}{rest}")))
}

fn name(scheme: &str) -> &str {
    scheme.trim_end_matches(['/', ':'])
}

/// Counts the letters to insert, remove or replace (Levenshtein, one row).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (1..=to.len()).collect();
    for (index, a) in from.bytes().enumerate() {
        let (mut diagonal, mut left) = (index, index + 1);
        for (cell, b) in row.iter_mut().zip(to.bytes()) {
            left = (diagonal + usize::from(a != b))
                .min(left + 1)
                .min(*cell + 1);
            diagonal = std::mem::replace(cell, left);
        }
    }
    row.last().copied().unwrap_or(from.len())
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(128) {
        Some((end, _)) => text.split_at(end).0.to_owned() + "…",
        None => text.to_owned(),
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

/// Lets one signature take texts and endpoints, whose conversion cannot fail.
impl From<Infallible> for EndpointError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(url: &str, downlink: Downlink) -> Endpoint {
        let url = url.to_owned();
        Endpoint::new(Address::Http { url, downlink })
    }

    fn ws(url: &str) -> Endpoint {
        Endpoint::new(Address::WebSocket {
            url: url.to_owned(),
        })
    }

    #[test]
    fn every_address_is_read_and_written_back() {
        let none: [&str; 0] = [];
        let header = |endpoint: Endpoint| endpoint.with_framing(Framing::Header);
        // A third column where the text is written in another way.
        let good = [
            ("stdio:", Endpoint::stdio(), ""),
            ("stdio:?framing=line", Endpoint::stdio(), "stdio:"),
            ("stdio:?framing=header", header(Endpoint::stdio()), ""),
            ("tcp://a:1", Endpoint::tcp("a", 1), ""),
            ("tcp://0.0.0.0:0", Endpoint::tcp("0.0.0.0", 0), ""),
            ("tcp://[::1]:65535", Endpoint::tcp("[::1]", 65535), ""),
            (
                "tcp://[fe80::1%eth0]:1",
                Endpoint::tcp("fe80::1%eth0", 1),
                "",
            ),
            (
                "tcp://a:1?framing=header",
                header(Endpoint::tcp("a", 1)),
                "",
            ),
            (
                "tcp://a:1?framing=concatenated",
                Endpoint::tcp("a", 1).with_framing(Framing::Concatenated),
                "",
            ),
            ("unix:x.sock", Endpoint::unix("x.sock"), ""),
            ("unix:/tmp/a b?c", Endpoint::unix("/tmp/a b?c"), ""),
            ("unix:///tmp/x", Endpoint::unix("/tmp/x"), "unix:/tmp/x"),
            ("unix:////tmp/x", Endpoint::unix("//tmp/x"), ""),
            ("unix:x?framing=header", header(Endpoint::unix("x")), ""),
            (
                "unix:x?framing=header?framing=line",
                Endpoint::unix("x?framing=header"),
                "",
            ),
            ("cmd:pylsp", Endpoint::command("pylsp", none), ""),
            (
                "cmd:pylsp?framing=header",
                header(Endpoint::command("pylsp", none)),
                "",
            ),
            (
                "cmd:pylsp ?framing=header",
                header(Endpoint::command("pylsp", none)),
                "cmd:pylsp?framing=header",
            ),
            ("cmd:a 'b c' ''", Endpoint::command("a", ["b c", ""]), ""),
            (
                "cmd:a \"it's\" $HOME",
                Endpoint::command("a", ["it's", "$HOME"]),
                "cmd:a \"it's\" '$HOME'",
            ),
            (
                "cmd:curl x/?framing=header&y",
                Endpoint::command("curl", ["x/?framing=header&y"]),
                "cmd:curl 'x/?framing=header&y'?framing=line",
            ),
            (
                "cmd:a 'b?framing=header'?framing=line",
                Endpoint::command("a", ["b?framing=header"]),
                "",
            ),
            ("ws://a", ws("ws://a"), ""),
            (
                "wss://u:p@[::1]:1/x?framing=a&b=c",
                ws("wss://u:p@[::1]:1/x?framing=a&b=c"),
                "",
            ),
            ("http://a:/", http("http://a:/", Downlink::None), ""),
            (
                "http://a:80/x#sse",
                http("http://a:80/x", Downlink::Sse),
                "",
            ),
            ("https://a?b#poll", http("https://a?b", Downlink::Poll), ""),
        ];
        for (text, endpoint, written) in good {
            assert_eq!(text.parse().as_ref(), Ok(&endpoint), "{text}");
            let written = if written.is_empty() { text } else { written };
            assert_eq!(endpoint.to_string(), written);
            assert_eq!(written.parse(), Ok(endpoint), "{written}");
        }
    }

    #[test]
    fn every_error_says_what_to_do() {
        let host = "no valid host; write one as in `localhost:4017` or `[::1]:4017`";
        let port = "a bad port; use 1–65535, or 0 to listen on a free one";
        let scheme =
            "an unknown scheme; use one of stdio: tcp:// unix: cmd: ws:// wss:// http:// https://";
        let framing = "an unknown framing; use `line`, `header` or `concatenated`";
        let refused = "a framing, but WebSocket and HTTP bring their own; remove `?framing=`";
        let fragment = "an unknown fragment; HTTP has `#sse` and `#poll`, WebSocket none";
        let trailing = "something behind its address; only `?framing=…` may follow";
        let quote = "an open quote or ends in a backslash; close or quote it";
        let bad = [
            ("a:1", "no scheme; try `tcp://a:1`"),
            (
                "a-b.c:1?framing=header",
                "no scheme; try `tcp://a-b.c:1?framing=header`",
            ),
            ("[::1]:1", "no scheme; try `tcp://[::1]:1`"),
            ("stdio", "no scheme; try `stdio:`"),
            (
                "stdio?framing=header",
                "no scheme; try `stdio:?framing=header`",
            ),
            ("/tmp/x.sock", "no scheme; try `unix:/tmp/x.sock`"),
            ("x.sock", "no scheme; try `unix:x.sock`"),
            ("pylsp", "no scheme; try `cmd:pylsp`"),
            ("./serve -p a:1", "no scheme; try `cmd:./serve -p a:1`"),
            ("tpc://a:1", "an unknown scheme; did you mean `tcp://a:1`?"),
            ("TCP://a:1", "an unknown scheme; did you mean `tcp://a:1`?"),
            ("tcp:a:1", "an unknown scheme; did you mean `tcp://a:1`?"),
            ("htp:/a", "an unknown scheme; did you mean `http://a`?"),
            (
                "unx:/tmp/x",
                "an unknown scheme; did you mean `unix:/tmp/x`?",
            ),
            ("sdtio:", "an unknown scheme; did you mean `stdio:`?"),
            ("gopher://a", scheme),
            ("ab:c", scheme),
            ("tcp://a", "no port; try `tcp://a:4017`"),
            ("tcp://a:", "no port; try `tcp://a:4017`"),
            (
                "tcp://[::1]?framing=header",
                "no port; try `tcp://[::1]:4017?framing=header`",
            ),
            ("tcp://", host),
            ("tcp://:1", host),
            ("tcp://::1:1", host),
            ("tcp://[a]:1", host),
            ("tcp://u@a:1", host),
            ("http:///a", host),
            ("tcp://a:65536", port),
            ("tcp://a:+1", port),
            ("tcp://a:1/", port),
            ("ws://a:x", port),
            ("unix:", "no path; try `unix:/tmp/caudal.sock`"),
            (
                "unix://?framing=line",
                "no path; try `unix:/tmp/caudal.sock`",
            ),
            ("unix://tmp/x", "a host before its path; try `unix:/tmp/x`"),
            ("cmd:", "no program; try `cmd:pylsp`"),
            ("cmd: ?framing=line", "no program; try `cmd:pylsp`"),
            ("cmd:'' a", "no program; try `cmd:pylsp`"),
            ("cmd:a 'b", quote),
            ("cmd:a\\", quote),
            ("stdio:?framing=lsp", framing),
            ("tcp://a:1?framing=", framing),
            ("cmd:a ?framing=content-length", framing),
            ("ws://a?framing=line", refused),
            ("http://a?framing=x#sse", refused),
            ("http://a#sse?framing=line", refused),
            ("http://a#ses", fragment),
            ("http://a#", fragment),
            ("ws://a#sse", fragment),
            ("stdio://", trailing),
            ("tcp://a:1?frame=line", trailing),
            ("http://a/b c", "' ' in its URL; percent-encode it"),
            (
                "http://a\\@localhost",
                "'\\\\' in its URL; percent-encode it",
            ),
        ];
        for (text, message) in bad {
            let error = Endpoint::try_from(text).unwrap_err().to_string();
            assert_eq!(error, format!("`{text}` has {message}"));
        }
        for text in ["", " "] {
            let error = Endpoint::try_from(text).unwrap_err().to_string();
            assert_eq!(
                error,
                "the endpoint is empty; try `stdio:` or `tcp://localhost:4017`"
            );
        }
    }

    #[test]
    fn a_very_long_text_is_cut_between_characters() {
        let error = Endpoint::try_from("é".repeat(1000)).unwrap_err();
        let (text, hint) = ("é".repeat(128) + "…", format!("cmd:{}…", "é".repeat(124)));
        assert_eq!(error, EndpointError::NoScheme(text, hint));
    }

    #[test]
    fn one_signature_takes_texts_and_endpoints() {
        fn take(
            endpoint: impl TryInto<Endpoint, Error: Into<EndpointError>>,
        ) -> Result<Endpoint, EndpointError> {
            endpoint.try_into().map_err(Into::into)
        }
        let endpoint = Endpoint::tcp("a", 1);
        let text = endpoint.to_string();
        assert_eq!(take("tcp://a:1"), Ok(endpoint.clone()));
        assert_eq!(take(&text), Ok(endpoint.clone()));
        assert_eq!(take(text), Ok(endpoint.clone()));
        assert_eq!(take(&endpoint), Ok(endpoint.clone()));
        assert_eq!(take(endpoint.clone()), Ok(endpoint));
    }

    #[test]
    fn only_hosts_of_this_machine_are_loopback() {
        let near = "stdio: unix:x cmd:a tcp://LocalHost:1 tcp://127.9.9.9:1 tcp://[::1]:1 \
                    ws://localhost/x http://u:p@127.0.0.1:1/ https://[::1]?a#sse";
        for text in near.split_whitespace() {
            assert!(text.parse::<Endpoint>().unwrap().is_loopback(), "{text}");
        }
        let far = "tcp://a:1 tcp://0.0.0.0:0 tcp://[::]:1 tcp://128.0.0.1:1 ws://localhost.a \
                   http://localhost@a http://a/@localhost https://a?@localhost http://127.1";
        for text in far.split_whitespace() {
            assert!(!text.parse::<Endpoint>().unwrap().is_loopback(), "{text}");
        }
    }

    #[test]
    fn a_message_based_transport_keeps_its_own_framing() {
        let endpoint = ws("ws://a").with_framing(Framing::Header);
        assert_eq!(endpoint, ws("ws://a"));
    }
}
