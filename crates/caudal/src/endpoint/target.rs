//! Parts of a URL that are needed to connect to it.

use super::parse::{authority, host_and_port};
use super::{Address, Endpoint};

/// The parts of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// True if the URL asks for TLS.
    pub(crate) secure: bool,
    /// Host without its brackets.
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// Host and port as they stand in the URL.
    pub(crate) authority: &'a str,
    /// Path and query; `/` if the URL has none.
    pub(crate) path: &'a str,
}

impl Endpoint {
    /// The parts of a URL; `None` for all other addresses.
    pub(crate) fn target(&self) -> Option<Target<'_>> {
        let (Address::WebSocket { url } | Address::Http { url, .. }) = &self.address else {
            return None;
        };
        let secure = url.starts_with("https:") || url.starts_with("wss:");
        let authority = authority(url);
        let (host, _) = host_and_port(authority)?;
        let (_, rest) = url.split_once("://")?;
        let path = rest.find(['/', '?']).and_then(|start| rest.get(start..));
        Some(Target {
            secure,
            host,
            port: self.port()?,
            authority,
            path: path.unwrap_or("/"),
        })
    }
}
