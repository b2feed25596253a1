//! Protocol of connections that the application accepts or listens for itself.

use std::str::FromStr;

use caudal_core::Framing;

use crate::endpoint::{Address, Endpoint, EndpointError};

/// Protocol that a server speaks on a socket of the application.
///
/// It is not an [`Endpoint`]: an endpoint also says where to listen, and that is
/// known here, since the socket exists.
///
/// The default is JSON-RPC in lines. A [`Framing`] is another way to separate messages, and
/// a URL is HTTP and WebSocket, as in [`serve`](crate::serve()): its path is served, and its
/// host is the one that clients send as `Host`.
/// With `https` or `wss` it is HTTP over TLS, with the certificate in
/// [`http::Options`](crate::http::Options).
///
/// ```
/// use caudal::{Framing, Protocol};
///
/// assert_eq!(Protocol::default(), Protocol::from(Framing::Line));
/// let http = Protocol::try_from("http://localhost/rpc")?;
/// assert!(Protocol::try_from("tcp://localhost:4017").is_err());
/// # let _ = http; Ok::<(), caudal::EndpointError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub(super) Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Framed(Framing),
    /// An endpoint that is a URL.
    Http(Endpoint),
}

impl Default for Protocol {
    fn default() -> Self {
        Framing::Line.into()
    }
}

impl From<Framing> for Protocol {
    fn from(framing: Framing) -> Self {
        Self(Kind::Framed(framing))
    }
}

/// Reads a URL with the scheme `http`, `https`, `ws` or `wss`.
impl FromStr for Protocol {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::try_from(text)?;
        match endpoint.address() {
            Address::Http { .. } | Address::WebSocket { .. } => Ok(Self(Kind::Http(endpoint))),
            _ => Err(EndpointError::no_url(text)),
        }
    }
}

impl TryFrom<&str> for Protocol {
    type Error = EndpointError;

    fn try_from(text: &str) -> Result<Self, EndpointError> {
        text.parse()
    }
}

impl TryFrom<String> for Protocol {
    type Error = EndpointError;

    fn try_from(text: String) -> Result<Self, EndpointError> {
        text.parse()
    }
}
