//! Requests by POST, blocking: for clients, which need the right answers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use memchr::memmem;

use super::super::{Outcome, accept, bare::answer, listen};

const CHUNK: usize = 64 * 1024;

pub(super) fn serve() -> Outcome {
    let listener = listen()?;
    loop {
        let stream = accept(&listener)?;
        std::thread::spawn(move || answer_all(&stream));
    }
}

fn answer_all(mut stream: &TcpStream) -> std::io::Result<()> {
    let mut input = vec![0; CHUNK];
    let mut end = 0;
    let (mut reply, mut output) = (Vec::new(), Vec::new());
    loop {
        // Only grows when a request is longer than a chunk.
        if end == input.len() {
            input.resize(end * 2, 0);
        }
        match stream.read(&mut input[end..])? {
            0 => return Ok(()),
            read => end += read,
        }
        let mut taken = 0;
        while let Some((body, next)) = first(&input[taken..end]) {
            reply.clear();
            answer(&input[taken + body..taken + next], &mut reply);
            write!(
                output,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                reply.len()
            )?;
            output.extend_from_slice(&reply);
            taken += next;
        }
        if !output.is_empty() {
            stream.write_all(&output)?;
            output.clear();
        }
        input.copy_within(taken..end, 0);
        end -= taken;
    }
}

/// The first request: where its body begins, and where the next request does.
fn first(bytes: &[u8]) -> Option<(usize, usize)> {
    let head = memmem::find(bytes, b"\r\n\r\n")?;
    let lines = bytes[..head].split(|byte| *byte == b'\n');
    let length = lines.filter_map(length_in).next().expect("a length");
    let end = head + 4 + length;
    (end <= bytes.len()).then_some((head + 4, end))
}

fn length_in(line: &[u8]) -> Option<usize> {
    let (name, value) = line.split_at_checked(15)?;
    let digits = name
        .eq_ignore_ascii_case(b"content-length:")
        .then(|| value.trim_ascii())?;
    let sum = |all, digit: &u8| all * 10 + usize::from(digit - b'0');
    Some(digits.iter().fold(0, sum))
}
