//! Why a text is not an endpoint, and what was probably meant.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt;
use std::net::Ipv4Addr;

use thiserror::Error;

use super::parse::{number, split_option};

/// Why a text is not an endpoint: the text, at most 128 characters of it, and
/// where there is a second field, what to try instead.
///
/// `Debug` prints the same as `Display`, for a `main` that returns it.
///
/// ```
/// let error = caudal::Endpoint::try_from("tpc://a:1").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`tpc://a:1` has an unknown scheme; did you mean `tcp://a:1`?",
/// );
/// ```
#[derive(Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say it")]
pub enum EndpointError {
    #[error("the endpoint is empty; try `stdio:` or `tcp://localhost:4017`")]
    Empty,
    #[error("`{0}` has no scheme; try `{1}`")]
    NoScheme(String, String),
    #[error("`{0}` has spaces around it; try `{1}`")]
    Spaces(String, String),
    #[error("`{0}` has a scheme that needs two slashes; try `{1}`")]
    NoSlashes(String, String),
    #[error("`{0}` has an unknown scheme; did you mean `{1}`?")]
    MisspeltScheme(String, String),
    #[error("`{0}` has an unknown scheme; use one of {known}", known = SCHEMES.join(" "))]
    UnknownScheme(String),
    #[error(
        "`{0}` has no valid host; write one as in `{scheme}localhost:4017` or `{scheme}[::1]:4017`",
        scheme = scheme(.0)
    )]
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
    #[error("the URL has a user before its host; send a token or a header instead")]
    User,
    #[error("`{0}` has a dot alone in its path, which others take out; write `{1}`")]
    DotInPath(String, String),
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
    #[error("`{0}` is no protocol; use a framing, or a URL such as `http://localhost/rpc`")]
    NoUrl(String),
    #[error("`{0}` cannot be served; use one of {served}", served = served().join(" "))]
    NotServed(String),
}

const SCHEMES: [&str; 8] = [
    "stdio:", "tcp://", "unix:", "cmd:", "ws://", "wss://", "http://", "https://",
];

/// The schemes of what can be listened on.
fn served() -> Vec<&'static str> {
    let schemes = SCHEMES.into_iter();
    schemes.filter(|scheme| *scheme != "cmd:").collect()
}

impl EndpointError {
    pub(crate) fn no_url(text: &str) -> Self {
        Self::NoUrl(cut(text))
    }

    /// The same for a server: no program is proposed.
    pub(crate) fn for_server(self) -> Self {
        match self {
            Self::NoScheme(text, hint) | Self::MisspeltScheme(text, hint)
                if hint.starts_with("cmd:") =>
            {
                Self::NotServed(text)
            }
            Self::UnknownScheme(text) | Self::NoProgram(text) | Self::OpenQuote(text) => {
                Self::NotServed(text)
            }
            other => other,
        }
    }
}

impl fmt::Debug for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Lets one signature take texts and endpoints, whose conversion cannot fail.
impl From<Infallible> for EndpointError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Says what a text with none of the known schemes was probably meant to be.
pub(super) fn no_scheme(text: &str) -> EndpointError {
    let (body, _) = split_option(text);
    let (word, rest) = text.split_once(':').unwrap_or_default();
    let is_word = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
    let has_word = !word.is_empty() && word.chars().all(is_word);
    let has_port = has_word && rest.starts_with(|c: char| c.is_ascii_digit());
    // Of those that have a path behind a host, HTTP is the likeliest.
    let (host, has_path) = match body.split_once('/') {
        Some((host, _)) => (host, true),
        None => (body, false),
    };
    let has_host = host == "localhost" || host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok();
    let has_bare_port = host
        .strip_prefix(':')
        .is_some_and(|port| number(port).is_some());
    let path_like = text.starts_with(['/', '.']) || body.ends_with(".sock");
    let hint = if text.trim().is_empty() {
        return EndpointError::Empty;
    } else if let Some(known) = SCHEMES.iter().find(|known| name(known) == body) {
        text.replacen(body, known, 1)
    } else if let Some(port) = body.strip_prefix(':').or(Some(body))
        && number(port).is_some()
    {
        text.replacen(body, &format!("tcp://localhost:{port}"), 1)
    } else if body == "localhost" || body.parse::<Ipv4Addr>().is_ok() {
        text.replacen(body, &format!("tcp://{body}:4017"), 1)
    } else if has_path && (has_port || has_host) {
        format!("http://{text}")
    } else if has_path && has_bare_port {
        format!("http://localhost{text}")
    } else if has_port || text.starts_with('[') {
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

/// The scheme that a text has, for what to write instead.
fn scheme(text: &str) -> &'static str {
    let known = SCHEMES.iter().find(|known| text.starts_with(**known));
    known.unwrap_or(&"tcp://")
}

fn misspelt(text: &str) -> EndpointError {
    let (word, rest) = text.split_once(':').unwrap_or((text, ""));
    let word = word.to_ascii_lowercase();
    let known = SCHEMES.map(|known| (distance(&word, name(known)), known));
    // Two letters apart are `ftp` and `tcp` too, unless they have changed places.
    let swapped = |known: &str| sorted(&word) == sorted(name(known));
    let near =
        |(distance, known): &(usize, &str)| *distance < 2 || (*distance == 2 && swapped(known));
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

fn sorted(word: &str) -> Vec<u8> {
    let mut letters = word.as_bytes().to_vec();
    letters.sort_unstable();
    letters
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

/// At most 128 characters of a text, without the password before a host.
pub(super) fn cut(text: &str) -> String {
    let text = &*masked(text);
    match text.char_indices().nth(128) {
        Some((end, _)) => text.split_at(end).0.to_owned() + "…",
        None => text.to_owned(),
    }
}

fn masked(text: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = text.split_once("//") else {
        return text.into();
    };
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    match authority.rsplit_once('@') {
        Some((user, _)) if user.contains(':') => {
            let host = rest.get(user.len()..).unwrap_or_default();
            format!("{scheme}//…{host}").into()
        }
        _ => text.into(),
    }
}
