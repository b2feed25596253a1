//! Addresses that parse, and what is said of those that do not.

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
            "wss://[::1]:1/x?framing=a&b=c",
            ws("wss://[::1]:1/x?framing=a&b=c"),
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
    let host = "no valid host; write one as in `tcp://localhost:4017` or `tcp://[::1]:4017`";
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
        (
            "tcp:127.0.0.1:4017",
            "a scheme that needs two slashes; try `tcp://127.0.0.1:4017`",
        ),
        (
            "http:/a?b",
            "a scheme that needs two slashes; try `http://a?b`",
        ),
        (" tcp://a:1", "spaces around it; try `tcp://a:1`"),
        ("stdio: ", "spaces around it; try `stdio:`"),
        ("http://a/b\n", "spaces around it; try `http://a/b`"),
        (":4017", "no scheme; try `tcp://localhost:4017`"),
        (
            "4017?framing=header",
            "no scheme; try `tcp://localhost:4017?framing=header`",
        ),
        ("localhost", "no scheme; try `tcp://localhost:4017`"),
        (
            "localhost:4100/rpc",
            "no scheme; try `http://localhost:4100/rpc`",
        ),
        ("127.0.0.1/rpc", "no scheme; try `http://127.0.0.1/rpc`"),
        ("[::1]:4100/rpc", "no scheme; try `http://[::1]:4100/rpc`"),
        (":4100/rpc", "no scheme; try `http://localhost:4100/rpc`"),
        ("127.0.0.1", "no scheme; try `tcp://127.0.0.1:4017`"),
        ("99999", "no scheme; try `cmd:99999`"),
        ("ftp://x", scheme),
        ("ssh://x", scheme),
        ("udp://a:1", scheme),
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
        ("tcp://256.0.0.1:1", host),
        ("tcp://1.2.3.04:1", host),
        (
            "http:///a",
            "no valid host; write one as in `http://localhost:4017` or `http://[::1]:4017`",
        ),
        ("tcp://a:65536", port),
        ("tcp://a:+1", port),
        ("tcp://a:1/", trailing),
        ("tcp://a:1/x", trailing),
        ("tcp://a/x", trailing),
        ("tcp:///x", host),
        ("ws://a:x", port),
        ("unix:", "no path; try `unix:/tmp/caudal.sock`"),
        (
            "unix://?framing=line",
            "no path; try `unix:/tmp/caudal.sock`",
        ),
        ("unix://tmp/x", "a host before its path; try `unix:/tmp/x`"),
        ("unix://x.sock", "a host before its path; try `unix:x.sock`"),
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
        ("http://a\\b", "'\\\\' in its URL; percent-encode it"),
        ("http://a/ä", "'ä' in its URL; percent-encode it"),
        (
            "http://a:1/b/./c/../d?e=/../f",
            "a dot alone in its path, which others take out; write `http://a:1/b/d?e=/../f`",
        ),
        (
            "ws://a/..",
            "a dot alone in its path, which others take out; write `ws://a/`",
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
fn a_user_in_a_url_is_refused_and_no_password_is_repeated() {
    for text in [
        "http://u:pa55@a/x",
        "https://u@a:1#sse",
        "ws://u:pa55@a",
        " wss://u:pa55@[::1]:1/x ",
        "http://u:pa 55@a",
        "http://a\\@localhost",
        "http://u:pa55#x@a",
    ] {
        let error = Endpoint::try_from(text).unwrap_err();
        assert_eq!(error, EndpointError::User, "{text}");
        assert!(error.to_string().contains("a token or a header"));
    }
    for text in ["htp://u:pa55@a/x", "tcp://u:pa55@a:1", "foo://u:pa55@a"] {
        let error = Endpoint::try_from(text).unwrap_err().to_string();
        assert!(!error.contains("pa55"), "{error}");
    }
    assert!(Endpoint::try_from("http://a/u:p@b").is_ok());
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
                ws://localhost/x http://127.0.0.1:1/ https://[::1]?a#sse";
    for text in near.split_whitespace() {
        assert!(text.parse::<Endpoint>().unwrap().is_loopback(), "{text}");
    }
    let far = "tcp://a:1 tcp://0.0.0.0:0 tcp://[::]:1 tcp://128.0.0.1:1 ws://localhost.a \
               http://a/@localhost https://a?@localhost http://127.1";
    for text in far.split_whitespace() {
        assert!(!text.parse::<Endpoint>().unwrap().is_loopback(), "{text}");
    }
}

#[test]
fn a_message_based_transport_keeps_its_own_framing() {
    let endpoint = ws("ws://a").with_framing(Framing::Header);
    assert_eq!(endpoint, ws("ws://a"));
}

#[test]
fn the_error_inside_the_spaces_is_told() {
    let error = Endpoint::try_from(" a:1 ").unwrap_err();
    assert_eq!(error.to_string(), "`a:1` has no scheme; try `tcp://a:1`");
    assert_eq!(format!("{error:?}"), error.to_string());
    // A path is taken as it stands.
    assert_eq!("unix:x ".parse(), Ok(Endpoint::unix("x ")));
}
