//! Registration of a webhook: its URL, its secret, and the names of its messages.

use bytes::Bytes;
use http::StatusCode;

use super::lookup::Lookup;
use super::sign::Key;
use super::target::{HookUrl, TargetError, UrlError};
use crate::http::{ClientOptions, Options};

/// Maximum body of the `PUT`, in bytes.
const MAX_BODY: usize = 4 << 10;

/// Target of a session's messages, and what they are signed with.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub(super) url: HookUrl,
    pub(super) key: Key,
    /// Random part of the messages' ids.
    name: String,
    /// True if addresses that are not public may be called.
    pub(super) allow_private: bool,
    pub(super) lookup: Lookup,
    /// Options of the connections to the receiver.
    pub(super) client: ClientOptions,
}

impl Registration {
    /// Returns the body of the `201`. Messages up to number `cursor` are acknowledged.
    pub(crate) fn answer(&self, cursor: u64, options: &Options) -> Bytes {
        let timeout = options.session_timeout.as_secs_f64();
        let answer = serde_json::json!({
            "secret": self.key.reveal(),
            "cursor": cursor,
            "timeout": timeout,
        });
        answer.to_string().into()
    }

    /// Returns the id of a message.
    pub(super) fn id(&self, number: u64) -> String {
        format!("msg_{}_{number}", self.name)
    }
}

/// Reason why nothing was registered. Its text is for the client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrationError {
    #[error("the body is larger than {MAX_BODY} bytes")]
    TooLarge,
    #[error("send a URL, as in {{\"url\":\"https://…\"}}")]
    Malformed(#[source] serde_json::Error),
    #[error("{0}")]
    Url(UrlError),
    #[error("this server cannot call https: TLS is not built in")]
    NoTls,
    /// One text for all causes: they would tell which names are known inside.
    #[error("the host of the URL may not be called, or cannot be found")]
    Target(#[source] TargetError),
    #[error("too many hosts are looked up; try again later")]
    Busy,
    #[error("there is no randomness to make a secret of")]
    Random(#[source] getrandom::Error),
}

impl RegistrationError {
    /// Returns the status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Malformed(_) | Self::Url(_) | Self::NoTls => StatusCode::BAD_REQUEST,
            Self::Target(_) => StatusCode::FORBIDDEN,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Random(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

#[derive(serde::Deserialize)]
struct RegistrationRequest {
    url: String,
}

/// Reads the body of a `PUT`, checks the target of its URL, and makes a secret.
pub(crate) async fn register(
    body: &[u8],
    options: &Options,
    lookup: &Lookup,
) -> Result<Registration, RegistrationError> {
    if body.len() > MAX_BODY {
        return Err(RegistrationError::TooLarge);
    }
    let RegistrationRequest { url } =
        serde_json::from_slice(body).map_err(RegistrationError::Malformed)?;
    let url = HookUrl::parse(&url).map_err(RegistrationError::Url)?;
    if url.target().secure && !cfg!(feature = "tls") {
        return Err(RegistrationError::NoTls);
    }
    let allow_private = options.private_webhooks;
    url.resolve(lookup, allow_private)
        .await
        .map_err(|error| match error {
            TargetError::Busy => RegistrationError::Busy,
            error => RegistrationError::Target(error),
        })?;
    Ok(Registration {
        url,
        key: Key::random().map_err(RegistrationError::Random)?,
        name: random_name().map_err(RegistrationError::Random)?,
        allow_private,
        lookup: lookup.clone(),
        client: client(options),
    })
}

/// Returns the options of connections to receivers.
#[cfg(feature = "tls")]
fn client(options: &Options) -> ClientOptions {
    ClientOptions {
        tls: options.webhook_tls.clone().unwrap_or_default(),
        ..ClientOptions::default()
    }
}

#[cfg(not(feature = "tls"))]
fn client(_: &Options) -> ClientOptions {
    ClientOptions::default()
}

/// Returns 128 random bits in hexadecimal digits.
pub(super) fn random_name() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn status(body: &str, private: bool) -> Result<Registration, u16> {
        let options = Options {
            private_webhooks: private,
            ..Options::default()
        };
        let registered = register(body.as_bytes(), &options, &Lookup::default()).await;
        registered.map_err(|error| error.status().as_u16())
    }

    #[tokio::test]
    async fn a_url_is_registered_with_a_new_secret() {
        let body = r#"{"url":"http://127.0.0.1:9/hook?a=b","more":[1]}"#;
        let one = status(body, true).await.unwrap();
        let two = status(body, true).await.unwrap();
        assert_eq!(one.url.as_str(), "http://127.0.0.1:9/hook?a=b");
        assert!(one.key != two.key && one.name != two.name);
        let answer: serde_json::Value =
            serde_json::from_slice(&one.answer(7, &Options::default())).unwrap();
        assert_eq!(answer["cursor"], 7);
        assert_eq!(answer["timeout"], 300.0);
        let secret = answer["secret"].as_str().unwrap();
        assert_eq!(Key::parse(secret).as_ref(), Some(&one.key));
        let shown = format!("{one:?}");
        assert!(
            !shown.contains("whsec") && !shown.contains("hook?"),
            "{shown}"
        );
        assert!(one.id(12).starts_with("msg_") && one.id(12).ends_with("_12"));
    }

    #[tokio::test]
    async fn what_may_not_be_called_is_not_registered() {
        let bad = [
            ("", 400),
            ("{", 400),
            ("[]", 400),
            (r#"{"uri":"http://a/"}"#, 400),
            (r#"{"url":1}"#, 400),
            (r#"{"url":"ftp://a/"}"#, 400),
            (r#"{"url":"http://u:p@127.0.0.1/"}"#, 400),
            (r#"{"url":"http://127.0.0.1/"}"#, 403),
            (r#"{"url":"http://localhost/"}"#, 403),
            (r#"{"url":"http://[::1]/"}"#, 403),
            (r#"{"url":"http://169.254.169.254/"}"#, 403),
        ];
        for (body, code) in bad {
            let refused = status(body, false).await.map(|_| ());
            assert_eq!(refused, Err(code), "{body}");
        }
        let deep = "[".repeat(MAX_BODY);
        assert_eq!(status(&deep, true).await.map(|_| ()), Err(400));
        assert_eq!(status(&(deep + "["), true).await.map(|_| ()), Err(413));
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_turn_for_a_look_up_is_told_to_come_again() {
        let body = br#"{"url":"http://localhost/"}"#;
        let refused = register(body, &Options::default(), &Lookup::full()).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.to_string().contains("try again later"), "{refused}");
    }

    #[tokio::test]
    async fn without_tls_a_url_of_https_is_refused_and_told_why() {
        let options = Options {
            private_webhooks: true,
            ..Options::default()
        };
        let body = br#"{"url":"https://127.0.0.1:9/"}"#;
        let registered = register(body, &options, &Lookup::default()).await;
        match (registered, cfg!(feature = "tls")) {
            (Ok(_), true) => {}
            (Err(error), false) => {
                assert_eq!(error.status(), StatusCode::BAD_REQUEST);
                assert!(error.to_string().contains("TLS is not built in"), "{error}");
            }
            (registered, _) => panic!("{registered:?}"),
        }
    }
}
