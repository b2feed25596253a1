//! Text to address, and what to write instead of what is none.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use caudal_core::Framing;

use super::error::{EndpointError, cut, no_scheme};
use super::{Address, Downlink, Endpoint, FRAMINGS, OPTION};

/// Reads the grammar at the top of `endpoint`.
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
pub(super) fn split_option(text: &str) -> (&str, Option<&str>) {
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

/// Resolves the `.` and `..` steps in the path of a URL; `None` if it has none.
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

/// Host and port of a URL: the text before its path.
pub(super) fn authority(url: &str) -> &str {
    let (_, rest) = url.split_once("://").unwrap_or_default();
    rest.split(['/', '?']).next().unwrap_or(rest)
}

pub(super) fn host_and_port(authority: &str) -> Option<(&str, Option<&str>)> {
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

/// Returns true if the host has the form of an IPv4 address, but is not a valid one.
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
pub(super) fn number(port: &str) -> Option<u16> {
    port.parse().ok().filter(|_| !port.starts_with('+'))
}
