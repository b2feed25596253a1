//! Head of a request: the session it names, and the types and waits that its client accepts.

use std::time::Duration;

use http::header::ACCEPT;
use http::request::Parts;
use http::{HeaderMap, HeaderName};

use crate::http::Options;

pub(super) const EVENTS: &str = "text/event-stream";
pub(super) const JSON: &str = "application/json";

/// Returns the id of the session that a request names.
pub(super) fn session_id<'a>(head: &'a Parts, options: &Options) -> Option<&'a str> {
    match head.headers.get(&options.session_header) {
        // A value that is no text is no id.
        Some(value) => Some(value.to_str().unwrap_or_default()),
        None => query(head, "session"),
    }
}

/// Returns the value of a name in the query.
pub(super) fn query<'a>(head: &'a Parts, name: &str) -> Option<&'a str> {
    let mut pairs = head.uri.query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Reads a number of the query.
pub(super) fn number(text: Option<&str>) -> Result<Option<u64>, std::num::ParseIntError> {
    text.map(|text| text.trim().parse()).transpose()
}

/// Returns the id of the last event that a client has got; an empty one says that there was none.
pub(super) fn last_event_id(head: &Parts) -> Option<&str> {
    let header = head.headers.get("last-event-id");
    let header = header.map(|value| value.to_str().unwrap_or("?"));
    let last = header.or_else(|| query(head, "last-event-id"))?.trim();
    (!last.is_empty()).then_some(last)
}

/// Returns true if a request names this type among those it accepts.
pub(super) fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    items(headers, &ACCEPT).any(|item| {
        let mut parts = item.split(';').map(str::trim);
        parts
            .next()
            .is_some_and(|part| part.eq_ignore_ascii_case(kind))
            && !parts.any(is_refusal)
    })
}

/// Returns true if a parameter is a weight of zero.
fn is_refusal(parameter: &str) -> bool {
    let Some((name, weight)) = parameter.split_once('=') else {
        return false;
    };
    name.trim().eq_ignore_ascii_case("q")
        && weight
            .trim()
            .parse::<f32>()
            .is_ok_and(|weight| weight <= 0.0)
}

/// Returns true if a request accepts every type.
pub(super) fn accepts_anything(headers: &HeaderMap) -> bool {
    !headers.contains_key(ACCEPT) || accepts(headers, "*/*") || accepts(headers, "application/*")
}

/// Returns true if the client does not wait for the reply to its request.
pub(super) fn prefers_async(headers: &HeaderMap) -> bool {
    preferences(headers).any(|(name, _)| name.eq_ignore_ascii_case("respond-async"))
}

/// Returns how long the client would wait.
pub(super) fn preferred_wait(headers: &HeaderMap) -> Option<Duration> {
    let (_, seconds) = preferences(headers).find(|(name, _)| name.eq_ignore_ascii_case("wait"))?;
    Some(Duration::from_secs(
        seconds?.trim_matches('"').parse().ok()?,
    ))
}

fn preferences(headers: &HeaderMap) -> impl Iterator<Item = (&str, Option<&str>)> {
    items(headers, &HeaderName::from_static("prefer")).map(|item| {
        let item = item.split(';').next().unwrap_or_default();
        match item.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (item.trim(), None),
        }
    })
}

/// Returns the items of a list that may stand in several headers.
fn items<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> + use<'a> {
    let values = headers.get_all(name).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(','))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, http::HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn accept_is_a_list_with_weights() {
        let both = headers("accept", &["text/html, Application/JSON;q=0.5", EVENTS]);
        assert!(accepts(&both, JSON) && accepts(&both, EVENTS));
        assert!(!accepts_anything(&both));
        let never = headers("accept", &["application/json; q=0.0, text/event-streams"]);
        assert!(!accepts(&never, JSON) && !accepts(&never, EVENTS));
        assert!(accepts_anything(&HeaderMap::new()));
        assert!(accepts_anything(&headers("accept", &["*/*"])));
        assert!(!accepts(&headers("accept", &["*/*"]), JSON));
    }

    #[test]
    fn preferences_are_a_list_too() {
        let prefer = headers(
            "prefer",
            &["handling=lenient; x=1, Respond-Async", "wait=7"],
        );
        assert!(prefers_async(&prefer));
        assert_eq!(preferred_wait(&prefer), Some(Duration::from_secs(7)));
        for wrong in ["wait", "wait=x", "wait=-1", "waits=1"] {
            assert_eq!(preferred_wait(&headers("prefer", &[wrong])), None);
        }
        assert!(!prefers_async(&HeaderMap::new()));
    }

    #[test]
    fn the_query_has_what_headers_cannot() {
        let request = http::Request::get("/?a=1&session=x&cursor=7&session=y");
        let (head, ()) = request.body(()).unwrap().into_parts();
        assert_eq!(session_id(&head, &Options::default()), Some("x"));
        assert_eq!(number(query(&head, "cursor")), Ok(Some(7)));
        assert_eq!(number(query(&head, "b")), Ok(None));
        assert!(number(Some("x")).is_err());
    }
}
