//! Endpoint that the arguments name, and the options that fit it.

use caudal::http::{ClientOptions, Secret};
use caudal::{Address, Endpoint, EndpointError, Framing};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderName, HeaderValue};

use crate::exit::Failure;

/// The environment variable that has a token.
pub(crate) const TOKEN: &str = "CAUDAL_TOKEN";

/// Headers that the transport writes itself.
const TAKEN: [HeaderName; 6] = [
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Use of an endpoint: not every scheme supports both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Serve,
    Call,
}

impl Role {
    const fn schemes(self) -> &'static str {
        match self {
            Self::Serve => "http:// https:// ws:// wss:// tcp:// unix: stdio:",
            Self::Call => "http:// https:// ws:// wss:// tcp:// unix: cmd:",
        }
    }
}

pub(crate) fn parse(text: &str, framing: Option<Framing>, role: Role) -> Result<Endpoint, Failure> {
    let endpoint = text.parse::<Endpoint>().map_err(|error| {
        Failure::usage(match error {
            EndpointError::Empty => format!(
                "the endpoint is empty; write one such as {EXAMPLE}, tcp://127.0.0.1:4100 or \
                 unix:PATH"
            ),
            // A program cannot be served.
            EndpointError::NoScheme(text, hint) | EndpointError::MisspeltScheme(text, hint)
                if role == Role::Serve && hint.starts_with("cmd:") =>
            {
                format!(
                    "`{text}` is no endpoint; write one such as {EXAMPLE}, tcp://127.0.0.1:4100 \
                     or unix:PATH"
                )
            }
            EndpointError::UnknownScheme(text) => format!(
                "`{text}` has an unknown scheme; use one of {}",
                role.schemes()
            ),
            error => error.to_string(),
        })
    })?;
    with_framing(endpoint, framing)
}

const EXAMPLE: &str = "http://127.0.0.1:4100/rpc";

pub(crate) fn with_framing(
    endpoint: Endpoint,
    framing: Option<Framing>,
) -> Result<Endpoint, Failure> {
    match framing {
        Some(_) if is_url(&endpoint) => Err(Failure::usage(format!(
            "`{endpoint}` has its own framing; leave out `--framing`"
        ))),
        // An address without `?framing` has lines, as one with `?framing=line`.
        Some(framing) if ![Framing::Line, framing].contains(&endpoint.framing()) => {
            Err(Failure::usage(format!(
                "`{endpoint}` has another framing than `--framing`; leave one of them out"
            )))
        }
        Some(framing) => Ok(endpoint.with_framing(framing)),
        None => Ok(endpoint),
    }
}

/// Returns true if the endpoint uses HTTP or WebSocket.
pub(crate) fn is_url(endpoint: &Endpoint) -> bool {
    matches!(
        endpoint.address(),
        Address::Http { .. } | Address::WebSocket { .. }
    )
}

/// Returns true if the endpoint is a program that is started for the call.
pub(crate) const fn is_program(endpoint: &Endpoint) -> bool {
    matches!(endpoint.address(), Address::Command { .. })
}

/// Returns true if the endpoint is a URL with TLS.
pub(crate) fn is_secure(endpoint: &Endpoint) -> bool {
    match endpoint.address() {
        Address::Http { url, .. } | Address::WebSocket { url } => {
            url.starts_with("https:") || url.starts_with("wss:")
        }
        _ => false,
    }
}

/// A token, and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Typed(String),
    Environment(String),
}

impl Token {
    /// The token that was typed, or else that of the environment.
    pub(crate) fn find(typed: Option<String>) -> Result<Option<Self>, Failure> {
        let token = match (typed, std::env::var_os(TOKEN)) {
            (Some(typed), _) => Self::Typed(typed),
            // What is not UTF-8 is not a token either way.
            (None, Some(text)) => Self::Environment(text.to_string_lossy().into_owned()),
            (None, None) => return Ok(None),
        };
        token.check()?;
        Ok(Some(token))
    }

    pub(crate) fn text(&self) -> &str {
        let (Self::Typed(text) | Self::Environment(text)) = self;
        text
    }

    fn check(&self) -> Result<(), Failure> {
        let text = self.text();
        let (from, leave) = match self {
            Self::Typed(_) => ("--token", ""),
            Self::Environment(_) => (TOKEN, "; unset it to go without a token"),
        };
        let visible = |byte: u8| byte.is_ascii_graphic();
        match !text.is_empty() && text.bytes().all(visible) {
            true => Ok(()),
            false => Err(Failure::usage(format!(
                "`{from}` must be visible ASCII without spaces, and not empty{leave}"
            ))),
        }
    }
}

/// Options of the HTTP client.
///
/// # Errors
/// A header or token was given that the endpoint cannot carry.
pub(crate) fn options(
    endpoint: &Endpoint,
    token: Option<Token>,
    headers: &[String],
) -> Result<ClientOptions, Failure> {
    let mut options = ClientOptions::default();
    if !is_url(endpoint) {
        let typed = match token {
            Some(Token::Typed(_)) => "--token",
            _ if !headers.is_empty() => "--header",
            _ => return Ok(options),
        };
        return Err(Failure::usage(format!(
            "`{typed}` is for http(s):// and ws(s)://; `{endpoint}` has no headers to carry it"
        )));
    }
    for text in headers {
        let (name, value) = header(text)?;
        options.headers.append(name, value);
    }
    let written = options.headers.contains_key(AUTHORIZATION);
    options.token = match token {
        Some(Token::Typed(_)) if written => {
            return Err(Failure::usage(
                "`--token` and `--header 'Authorization: …'` are one too many; leave one out",
            ));
        }
        Some(Token::Environment(_)) if written => None,
        token => token.map(|token| Secret::from(token.text())),
    };
    Ok(options)
}

/// The value may be a secret and is not shown.
fn header(text: &str) -> Result<(HeaderName, HeaderValue), Failure> {
    let Some((name, value)) = text.split_once(':') else {
        return Err(Failure::usage(
            "`--header` has no colon; write it as --header 'Name: value'",
        ));
    };
    let name: HeaderName = name.trim().parse().map_err(|_| {
        Failure::usage(format!(
            "`--header` has the name `{name}`, which no header may have"
        ))
    })?;
    if TAKEN.contains(&name) {
        return Err(Failure::usage(format!(
            "`--header` cannot set `{name}`: the connection needs it"
        )));
    }
    let mut value: HeaderValue = value.trim().parse().map_err(|_| {
        Failure::usage(format!(
            "`--header` has a value for `{name}` that is not visible ASCII"
        ))
    })?;
    value.set_sensitive(true);
    Ok((name, value))
}
