//! Registration of a webhook: its URL, its secret, and the names of its messages.

use std::fmt;

use bytes::Bytes;
use http::StatusCode;

use super::lookup::Lookup;
use super::sign::Key;
use super::target::{HookUrl, TargetError};
use crate::http::session::random_name;
use crate::http::{ClientOptions, Options};

/// Target of a session's messages, and the key that signs them.
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
        let timeout = options.session_timeout.unwrap_or_default().as_secs_f64();
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

/// Status and text of the response that refuses a registration.
pub(crate) type Refusal = (StatusCode, String);

#[derive(serde::Deserialize)]
struct RegistrationRequest {
    url: String,
}

/// Reads the body of a `PUT`, checks the target of its URL, and makes a secret.
pub(crate) async fn register(
    body: &[u8],
    options: &Options,
    lookup: &Lookup,
) -> Result<Registration, Refusal> {
    let refusal = |status, text: &dyn fmt::Display| (status, format!("{text}\n"));
    let bad_request = |text: &dyn fmt::Display| refusal(StatusCode::BAD_REQUEST, text);
    let RegistrationRequest { url } = serde_json::from_slice(body)
        .map_err(|_| bad_request(&r#"send a URL, as in {"url":"https://…"}"#))?;
    let url = HookUrl::parse(&url).map_err(|error| bad_request(&error))?;
    if url.target().secure && !cfg!(feature = "tls") {
        let text = "this server cannot call https: TLS is not built in";
        return Err(bad_request(&text));
    }
    let allow_private = options.private_webhooks;
    let resolved = url.resolve(lookup, allow_private).await;
    resolved.map_err(|error| match error {
        TargetError::Busy => refusal(StatusCode::SERVICE_UNAVAILABLE, &error),
        // One text for all other causes: the cause would reveal the names of a private network.
        _ => refusal(
            StatusCode::FORBIDDEN,
            &"the host of the URL may not be called, or cannot be found",
        ),
    })?;
    let no_random = |error| refusal(StatusCode::INTERNAL_SERVER_ERROR, &error);
    Ok(Registration {
        url,
        key: Key::random().map_err(no_random)?,
        name: random_name().map_err(no_random)?,
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

#[cfg(test)]
mod tests {
    use super::*;

    async fn status(body: &str, private: bool) -> Result<Registration, u16> {
        let options = Options {
            private_webhooks: private,
            ..Options::default()
        };
        let registered = register(body.as_bytes(), &options, &Lookup::default()).await;
        registered.map_err(|(status, _)| status.as_u16())
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
        let deep = "[".repeat(4 << 10);
        assert_eq!(status(&deep, true).await.map(|_| ()), Err(400));
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_turn_for_a_look_up_is_told_to_come_again() {
        let body = br#"{"url":"http://localhost/"}"#;
        let refused = register(body, &Options::default(), &Lookup::full()).await;
        let (status, text) = refused.unwrap_err();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(text.contains("try again later"), "{text}");
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
            (Err((status, text)), false) => {
                assert_eq!(status, StatusCode::BAD_REQUEST);
                assert!(text.contains("TLS is not built in"), "{text}");
            }
            (registered, _) => panic!("{registered:?}"),
        }
    }
}
