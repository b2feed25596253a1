//! Target of a webhook: a URL that leads to the public internet, and not into a private
//! network.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Uri;

use super::lookup::Lookup;
use crate::endpoint::Target;

/// Maximum length of a URL, in bytes.
const MAX_LENGTH: usize = 2048;

/// URL of a webhook: http or https, no user, no fragment.
#[derive(Clone)]
pub(crate) struct HookUrl {
    text: String,
    uri: Uri,
    port: u16,
    /// Path and query.
    path: String,
}

/// Reason why a text is not the URL of a webhook.
///
/// ```
/// let error = caudal::webhook::Receiver::new("ftp://a/").unwrap_err();
/// assert_eq!(error.to_string(), "the URL does not begin with http:// or https://");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It is longer than 2,048 bytes.
    #[error("the URL is longer than {MAX_LENGTH} bytes")]
    TooLong,
    /// It is no URL at all.
    #[error("the URL cannot be read")]
    Malformed,
    /// Its scheme is not that of HTTP.
    #[error("the URL does not begin with http:// or https://")]
    Scheme,
    /// It has a user or a password.
    #[error("the URL has a user in it; signatures say who calls")]
    User,
    /// It has a fragment, which HTTP does not send.
    #[error("the URL has a fragment")]
    Fragment,
    /// Its port is not valid.
    #[error("the URL has a bad port; use 1–65535")]
    Port,
}

impl HookUrl {
    /// Reads a URL; no name is looked up.
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        if text.len() > MAX_LENGTH {
            return Err(UrlError::TooLong);
        }
        if text.contains('#') {
            return Err(UrlError::Fragment);
        }
        // Readers of URLs disagree about these, and so about which host is meant.
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
        if text.contains(odd) {
            return Err(UrlError::Malformed);
        }
        let uri: Uri = text.parse().map_err(|_| UrlError::Malformed)?;
        let default = match uri.scheme_str() {
            Some("http") => 80,
            Some("https") => 443,
            _ => return Err(UrlError::Scheme),
        };
        let authority = uri.authority().ok_or(UrlError::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(UrlError::User);
        }
        let host = authority.host();
        if host.is_empty() || host == "[]" {
            return Err(UrlError::Malformed);
        }
        let port = match authority.as_str().strip_prefix(host) {
            Some("" | ":") => default,
            Some(_) => authority.port_u16().ok_or(UrlError::Port)?,
            None => return Err(UrlError::Malformed),
        };
        if port == 0 {
            return Err(UrlError::Port);
        }
        let query = uri.query().map(|query| format!("?{query}"));
        Ok(Self {
            text: text.to_owned(),
            port,
            path: uri.path().to_owned() + &query.unwrap_or_default(),
            uri,
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns its parts.
    pub(crate) fn target(&self) -> Target<'_> {
        let host = self.uri.host().unwrap_or_default();
        let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        Target {
            secure: self.uri.scheme_str() == Some("https"),
            host: inner.unwrap_or(host),
            port: self.port,
            authority: self.uri.authority().map_or("", |all| all.as_str()),
            path: &self.path,
        }
    }

    /// Looks its host up, and checks every address. The connection must be made to
    /// one of these: a second look-up might find others.
    pub(super) async fn resolve(
        &self,
        lookup: &Lookup,
        private: bool,
    ) -> Result<Vec<SocketAddr>, TargetError> {
        let target = self.target();
        check(lookup.find(target.host, target.port).await?, private)
    }
}

impl fmt::Debug for HookUrl {
    /// The path is left out: it may be a secret of the receiver.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookUrl")
            .field(&self.target().authority)
            .finish()
    }
}

/// Reason why a host is not called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("the host cannot be found")]
    Unknown(#[source] io::Error),
    #[error("too many hosts are looked up; try again later")]
    Busy,
    #[error("the host has an address that is not public")]
    Private,
}

/// Refuses all addresses if one of them is not public: they were chosen together.
fn check(found: Vec<SocketAddr>, private: bool) -> Result<Vec<SocketAddr>, TargetError> {
    if found.is_empty() {
        return Err(TargetError::Unknown(io::ErrorKind::NotFound.into()));
    }
    match private || found.iter().all(|address| is_public(address.ip())) {
        true => Ok(found),
        false => Err(TargetError::Private),
    }
}

/// Returns true if an address belongs to the public internet, by the registries of IANA for
/// special purposes (RFC 6890).
pub(crate) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

/// Networks that are not public, each with the length of its prefix.
const SPECIAL: [(Ipv4Addr, u32); 14] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),       // this network
    (Ipv4Addr::new(10, 0, 0, 0), 8),      // private
    (Ipv4Addr::new(100, 64, 0, 0), 10),   // behind a carrier's NAT
    (Ipv4Addr::new(127, 0, 0, 0), 8),     // loopback
    (Ipv4Addr::new(169, 254, 0, 0), 16),  // link-local; metadata of clouds, with secrets
    (Ipv4Addr::new(172, 16, 0, 0), 12),   // private
    (Ipv4Addr::new(192, 0, 0, 0), 24),    // protocol assignments
    (Ipv4Addr::new(192, 0, 2, 0), 24),    // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24),  // relays of 6to4
    (Ipv4Addr::new(192, 168, 0, 0), 16),  // private
    (Ipv4Addr::new(198, 18, 0, 0), 15),   // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24),  // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 3),     // multicast, reserved, broadcast
];

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let within = |(network, bits): &(Ipv4Addr, u32)| {
        (ip.to_bits() ^ network.to_bits()).leading_zeros() >= *bits
    };
    !SPECIAL.iter().any(within)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let v4 = |high: u16, low: u16| {
        let bits = u32::from(high) << 16 | u32::from(low);
        is_public_v4(Ipv4Addr::from_bits(bits))
    };
    match ip.segments() {
        // An IPv4 address in another dress: mapped, by NAT64, by 6to4.
        [0, 0, 0, 0, 0, 0xffff, a, b] => v4(a, b),
        [0x64, 0xff9b, 0, 0, 0, 0, a, b] => v4(a, b),
        [0x2002, a, b, ..] => v4(a, b),
        // Protocol assignments: Teredo, benchmarks, ORCHID.
        [0x2001, 0..=0x01ff, ..] => false,
        // Documentation.
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => false,
        // All else that is global, and nothing outside of it: not loopback,
        // fc00::/7, fe80::/10, ff00::/8, nor `::a.b.c.d`.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and last address of each range is refused, its neighbours are not
    /// unless they are in another one.
    #[test]
    fn only_public_addresses_pass() {
        let refused = "
            0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.0 10.1.2.3 10.255.255.255
            100.64.0.0 100.127.255.255 127.0.0.0 127.0.0.1 127.255.255.255
            169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0 172.31.255.255
            192.0.0.0 192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.0 192.88.99.255
            192.168.0.0 192.168.255.255 198.18.0.0 198.19.255.255
            198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255
            224.0.0.0 239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255
            :: ::1 ::2 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254
            ::ffff:100.64.0.1 ::ffff:0.0.0.0 ::ffff:255.255.255.255
            ::127.0.0.1 ::10.0.0.1 ::8.8.8.8 ::ffff:0:8.8.8.8 ::fffe:8.8.8.8
            64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b::192.168.0.1 64:ff9b::
            64:ff9b:1::8.8.8.8 64:ff9b:1:ffff::1 64:ff9b:0:1::8.8.8.8
            100::1 1fff:ffff::1
            2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1
            2001:1ff:ffff::1 2001:db8:: 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff
            2002:7f00:1:: 2002:a00:1::1 2002:c0a8:1::1 2002:a9fe:a9fe::1 2002:6440:1::1
            3fff::1 3fff:fff:ffff::1 4000:: 5f00::1
            fc00:: fc00::1 fdff:ffff::1 fe80:: fe80::1 febf::1 fec0::1 feff::1
            ff00:: ff02::1 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        for text in refused.split_whitespace() {
            let ip: IpAddr = text.parse().expect(text);
            assert!(!is_public(ip), "{text}");
        }
        let public = "
            1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0
            126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0
            191.255.255.255 192.0.1.0 192.0.1.255 192.0.3.0 192.88.98.255 192.88.100.0
            192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0
            203.0.112.255 203.0.114.0 223.255.255.255
            ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1
            2000:: 2001:200::1 2001:4860:4860::8888 2001:db7:ffff::1 2001:db9::1
            2003::1 2606:4700:4700::1111 2a00::1 3ffe::1 3fff:1000::1";
        for text in public.split_whitespace() {
            let ip: IpAddr = text.parse().expect(text);
            assert!(is_public(ip), "{text}");
        }
    }

    #[test]
    fn every_address_of_a_name_must_be_public() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (good, bad) = (at("8.8.8.8:443"), at("[::1]:443"));
        assert_eq!(check(vec![good, good], false).unwrap().len(), 2);
        for mixed in [vec![good, bad], vec![bad, good], vec![bad]] {
            let refused = check(mixed.clone(), false);
            assert!(matches!(refused, Err(TargetError::Private)), "{mixed:?}");
            assert!(check(mixed, true).is_ok());
        }
        assert!(matches!(check(vec![], true), Err(TargetError::Unknown(_))));
    }

    #[tokio::test]
    async fn names_and_numbers_of_this_machine_are_found_out() {
        let near = "http://localhost/ http://127.0.0.1:1/ http://[::1]/ http://[::ffff:127.0.0.1]/ \
                    https://0.0.0.0/ http://127.1/ http://0x7f.1/ http://2130706433/ \
                    http://017700000001/ http://169.254.169.254/latest/meta-data";
        let lookup = Lookup::default();
        for text in near.split_whitespace() {
            let url = HookUrl::parse(text).expect(text);
            // A resolver may also not know the odd notations.
            let refused = url.resolve(&lookup, false).await;
            assert!(refused.is_err(), "{text}: {refused:?}");
        }
        let url = HookUrl::parse("http://127.0.0.1:81/").unwrap();
        let found = url.resolve(&lookup, true).await.unwrap();
        assert_eq!(found, ["127.0.0.1:81".parse().unwrap()]);
    }

    #[test]
    fn a_url_is_read_into_its_parts() {
        let good = [
            ("http://a", (false, "a", 80, "a", "/")),
            ("https://a", (true, "a", 443, "a", "/")),
            ("http://a:/x", (false, "a", 80, "a:", "/x")),
            (
                "https://a.b:8443/x?y=z",
                (true, "a.b", 8443, "a.b:8443", "/x?y=z"),
            ),
            ("http://[::1]:81/@", (false, "::1", 81, "[::1]:81", "/@")),
            ("http://[::1]?q", (false, "::1", 80, "[::1]", "/?q")),
            ("http://a/?framing=x", (false, "a", 80, "a", "/?framing=x")),
        ];
        for (text, (secure, host, port, authority, path)) in good {
            let url = HookUrl::parse(text).expect(text);
            let parts = Target {
                secure,
                host,
                port,
                authority,
                path,
            };
            assert_eq!(url.target(), parts, "{text}");
            assert_eq!(url.as_str(), text);
        }
    }

    #[test]
    fn other_urls_are_refused() {
        let bad = [
            ("", UrlError::Malformed),
            ("a", UrlError::Scheme),
            ("/a", UrlError::Scheme),
            ("ftp://a/", UrlError::Scheme),
            ("file:///etc/passwd", UrlError::Malformed),
            ("ws://a/", UrlError::Scheme),
            ("http:///a", UrlError::Malformed),
            ("http://:1/", UrlError::Malformed),
            ("http://u@a/", UrlError::User),
            ("http://u:p@a/", UrlError::User),
            ("http://@a/", UrlError::User),
            ("http://a/#x", UrlError::Fragment),
            ("http://a#", UrlError::Fragment),
            ("http://a\\@b/", UrlError::Malformed),
            ("http://a b/", UrlError::Malformed),
            ("http://a/\r\nX: y", UrlError::Malformed),
            ("http://a:0/", UrlError::Port),
            ("http://a:65536/", UrlError::Port),
            ("http://a:x/", UrlError::Malformed),
        ];
        for (text, error) in bad {
            let refused = HookUrl::parse(text).map(|url| url.text);
            // What the parser itself refuses, it may refuse in its own way.
            match error {
                UrlError::Malformed | UrlError::Port => assert!(refused.is_err(), "{text}"),
                _ => assert_eq!(refused, Err(error), "{text}"),
            }
        }
        let at = |size: usize| format!("http://a/{}", "x".repeat(size - 9));
        assert!(HookUrl::parse(&at(2048)).is_ok());
        assert_eq!(
            HookUrl::parse(&at(2049)).map(|url| url.text),
            Err(UrlError::TooLong)
        );
    }

    #[test]
    fn what_is_behind_the_host_is_not_shown() {
        let url = HookUrl::parse("https://a/?token=s3cret").unwrap();
        assert_eq!(format!("{url:?}"), r#"HookUrl("a")"#);
    }
}
