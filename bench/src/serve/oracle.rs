//! Knows every answer beforehand: what no server can be faster than.
//!
//! ```text
//! read → six digits of each call, at their place → the answer, all but six digits of it
//! made long ago → one write, or one for so many
//! ```
//!
//! It parses nothing and trusts that all calls are those of `load`, which differ in six
//! digits. So what it reaches is what pipe, processors and generator allow.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;

use super::{Framing, Outcome};

const CHUNK: usize = 64 * 1024;

const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","id":100000,"result":100007}"#;
/// The digits of its id are there, and those of the sum
const ID: usize = 22;
const SUM: usize = 38;
const DIGITS: usize = 6;

/// `piece` is how many answers are written at once.
pub(super) fn serve(framing: Framing, piece: usize) -> Outcome {
    let mut from = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut to = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let (head, tail) = match framing {
        Framing::Line => (String::new(), "\n"),
        Framing::Header => (format!("Content-Length: {}\r\n\r\n", ANSWER.len()), ""),
    };
    let answer = [head.as_bytes(), ANSWER, tail.as_bytes()].concat();
    let (mut input, mut end, mut size) = (vec![0; CHUNK], 0, None);
    let mut output = Vec::new();
    loop {
        let read = from.read(&mut input[end..])?;
        if read == 0 {
            return Ok(());
        }
        end += read;
        let (size, id) = match size {
            Some(known) => known,
            None => *size.insert(measure(&input[..end], framing).ok_or("half a call")?),
        };
        let calls = input[..end].chunks_exact(size);
        let taken = calls.len() * size;
        for (number, call) in calls.enumerate() {
            let id = &call[id..id + DIGITS];
            let begin = output.len() + head.len();
            output.extend_from_slice(&answer);
            output[begin + ID..][..DIGITS].copy_from_slice(id);
            add_seven(id, &mut output[begin + SUM..][..DIGITS]);
            if (number + 1) % piece == 0 {
                to.write_all(&output)?;
                output.clear();
            }
        }
        if !output.is_empty() {
            to.write_all(&output)?;
            output.clear();
        }
        input.copy_within(taken..end, 0);
        end -= taken;
    }
}

/// How long a call is, and where its id is.
fn measure(first: &[u8], framing: Framing) -> Option<(usize, usize)> {
    let begin = first.iter().position(|byte| *byte == b'{')?;
    let size = match framing {
        Framing::Line => memchr::memchr(b'\n', first)? + 1,
        Framing::Header => {
            let digits = first.get(b"Content-Length: ".len()..begin)?.trim_ascii();
            let digits = std::str::from_utf8(digits).ok()?;
            begin + digits.parse::<usize>().ok()?
        }
    };
    Some((size, begin + ID))
}

/// The sum has as many digits, but for the last seven ids, whose sums nobody looks at.
fn add_seven(id: &[u8], sum: &mut [u8]) {
    let mut carry = 7;
    for (to, digit) in sum.iter_mut().zip(id).rev() {
        let value = digit - b'0' + carry;
        *to = b'0' + value % 10;
        carry = value / 10;
    }
}
