//! `caudal` over https and wss, both ways.
#![allow(clippy::unwrap_used, clippy::string_slice, reason = "a test may")]

use crate::support::{Scratch, Served, caudal, finish, paste, path, run, shell};
use rcgen::{BasicConstraints, CertificateParams, IsCa};

/// Files with a certificate for this machine, which is its own root, and with its key.
fn certificate() -> (Scratch, Scratch) {
    signed(IsCa::NoCa)
}

fn signed(is_ca: IsCa) -> (Scratch, Scratch) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = is_ca;
    let files = (path("cert.pem"), path("key.pem"));
    std::fs::write(&*files.0, params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&*files.1, key.serialize_pem()).unwrap();
    files
}

#[test]
fn what_it_says_works_when_pasted_where_its_certificate_is_trusted() {
    let (cert, key) = certificate();
    let files = [
        "--cert",
        cert.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ];
    for listen in ["https://127.0.0.1:0/rpc", "wss://127.0.0.1:0/rpc"] {
        let server = Served::on(listen, &files);
        let tries = server.tries();
        let results = [
            "3\n",
            "{\"ticks\":3}\n",
            "{\"ticks\":3}\n",
            "{\"ticks\":3}\n",
        ];
        for (line, result) in tries.iter().zip(results) {
            let mut trusting = shell(line);
            trusting.env("SSL_CERT_FILE", &*cert);
            finish(trusting, "").ends(0).prints(result);
            // Nobody vouches for it.
            let hint = ["certificate", "SSL_CERT_FILE"];
            finish(shell(line), "").ends(4).prints("").complains(&hint);
        }
        let schemes = ["https://", "wss://", "https://", "https://", "https://"];
        for (line, scheme) in tries.iter().zip(schemes) {
            assert!(line.contains(scheme), "{line}");
        }
        assert!(server.banner.contains("SSL_CERT_FILE"), "{}", server.banner);
        for scheme in ["http", "ws"] {
            let plain = format!("{scheme}://{}/rpc", server.address());
            let outcome = run(&["call", &plain, "add", "[1,2]"]);
            outcome.prints("").complains(&["https:// or wss://"]);
        }
    }
}

#[test]
fn its_line_for_curl_works_when_pasted_elsewhere() {
    if paste("curl --version").code != Some(0) {
        eprintln!("NOT COUNTED: there is no curl");
        return;
    }
    let (cert, key) = certificate();
    for listen in ["https://127.0.0.1:0/rpc", "wss://127.0.0.1:0/rpc"] {
        let mut serve = caudal(&["serve", "--listen", listen, "--cert", "cert.pem"]);
        serve.arg("--key").arg(&*key);
        serve.current_dir(cert.parent().unwrap());
        let server = Served::start(serve);
        let line = server.tries().pop().unwrap();
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":3}"#;
        paste(&format!("{line} -s")).ends(0).prints(answer);
    }
}

#[test]
fn a_certificate_that_is_none_is_refused() {
    let (cert, key) = certificate();
    let (_other, foreign) = certificate();
    let empty = path("empty.pem");
    std::fs::write(&*empty, "").unwrap();
    let broken = path("broken.pem");
    std::fs::write(&*broken, "-----BEGIN CERTIFICATE-----\n!\n").unwrap();
    let none = path("none.pem");
    let cases = [
        (&empty, &key, "`--cert`: there is no certificate in"),
        (&cert, &empty, "`--key`: there is no private key in"),
        (&none, &key, "`--cert`: cannot read"),
        (&cert, &none, "`--key`: cannot read"),
        (&broken, &key, "`--cert`: "),
        (&cert, &broken, "`--key`: "),
        (&cert, &foreign, "`--key`: the private key in"),
        (&cert, &foreign, "does not belong to the first certificate"),
    ];
    for (cert, key, reason) in cases {
        let files = [
            "--cert",
            cert.to_str().unwrap(),
            "--key",
            key.to_str().unwrap(),
        ];
        let serve = ["serve", "--listen", "https://127.0.0.1:0/"];
        let outcome = run(&[&serve[..], &files].concat());
        outcome.ends(1).prints("").complains(&[reason]);
    }
}

#[test]
fn a_certificate_of_an_authority_is_not_a_server_s_and_says_so() {
    let (cert, key) = signed(IsCa::Ca(BasicConstraints::Unconstrained));
    let files = [
        "--cert",
        cert.to_str().unwrap(),
        "--key",
        key.to_str().unwrap(),
    ];
    let server = Served::on("https://127.0.0.1:0/rpc", &files);
    let mut call = caudal(&["call", &server.endpoint, "add", "[1,2]"]);
    call.env("SSL_CERT_FILE", &*cert);
    let outcome = finish(call, "");
    outcome.ends(4).prints("").complains(&["CA:FALSE"]);
    // It was said at the start, too.
    server.signal("TERM");
    let cert = cert.to_str().unwrap();
    let parts = ["the certificate in", cert, "CA:TRUE", "caudal help serve"];
    server.end().ends(0).complains(&parts);
}

#[test]
fn the_certificate_that_the_manual_makes_is_taken() {
    let help = run(&["serve", "--help"]).stdout;
    let begin = help.find("openssl req").unwrap();
    let (command, _) = help[begin..].split_once("\n\n").unwrap();
    if shell("openssl version")
        .output()
        .is_ok_and(|it| !it.status.success())
    {
        eprintln!("NOT COUNTED: there is no openssl");
        return;
    }
    let cert = path("chain.pem");
    let folder = cert.parent().unwrap();
    let mut make = shell(command);
    make.current_dir(folder);
    finish(make, "").ends(0);
    let mut serve = caudal(&["serve", "--listen", "https://127.0.0.1:0/rpc"]);
    serve.args(["--cert", "chain.pem", "--key", "key.pem"]);
    serve.current_dir(folder);
    let server = Served::start(serve);
    for host in ["127.0.0.1", "localhost"] {
        let to = server.endpoint.replace("127.0.0.1", host);
        let mut call = caudal(&["call", &to, "add", "[1,2]"]);
        call.env("SSL_CERT_FILE", &*cert);
        finish(call, "").ends(0).prints("3\n");
    }
    server.signal("TERM");
    let said = server.end().stderr;
    assert!(!said.contains("certificate"), "{said}");
}
