//! Counting replies without reading them: only where they end.

use std::os::fd::AsFd;
use std::str::FromStr;

use memchr::{memchr, memchr_iter, memchr2, memmem, memrchr};

use crate::Problem;
use crate::call::Task;

/// Boundary between messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    Line,
    Header,
    /// One value after the other, and nothing between them.
    Json,
    /// A request of its own for each message, on a connection that is kept.
    Post,
    WebSocket,
}

/// Every frame of a client is masked; a real client would choose another key for
/// each.
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

impl FromStr for Framing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "line" => Ok(Self::Line),
            "header" => Ok(Self::Header),
            "json" => Ok(Self::Json),
            "post" => Ok(Self::Post),
            "ws" => Ok(Self::WebSocket),
            other => Err(format!("no framing `{other}`")),
        }
    }
}

impl Framing {
    pub(crate) fn frame(self, text: &str) -> Vec<u8> {
        let length = text.len();
        match self {
            Self::Line => format!("{text}\n").into_bytes(),
            Self::Header => format!("Content-Length: {length}\r\n\r\n{text}").into_bytes(),
            Self::Json => text.as_bytes().to_vec(),
            Self::Post => format!(
                "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{text}"
            )
            .into_bytes(),
            Self::WebSocket => {
                let mut frame = vec![0x81];
                match u16::try_from(length) {
                    Ok(short @ ..126) => frame.push(0x80 | short as u8),
                    Ok(long) => {
                        frame.push(0x80 | 126);
                        frame.extend(long.to_be_bytes());
                    }
                    Err(_) => {
                        frame.push(0x80 | 127);
                        frame.extend((length as u64).to_be_bytes());
                    }
                }
                frame.extend(KEY);
                let key = KEY.iter().cycle();
                frame.extend(text.bytes().zip(key).map(|(byte, key)| byte ^ key));
                frame
            }
        }
    }

    /// Offset of the text in a frame of `length` bytes that carries `text`.
    pub(crate) fn start(self, length: usize, text: &str) -> usize {
        match self {
            Self::Line => 0,
            _ => length - text.len(),
        }
    }

    /// Mask of the byte at `place` of a text.
    pub(crate) fn key(self, place: usize) -> u8 {
        match self {
            Self::WebSocket => KEY[place % 4],
            _ => 0,
        }
    }

    /// The first message in `bytes`: where its body begins and ends, and where
    /// the next message begins.
    fn first(self, bytes: &[u8]) -> Result<Option<(usize, usize, usize)>, Problem> {
        match self {
            Self::Line => Ok(memchr(b'\n', bytes).map(|end| (0, end, end + 1))),
            Self::Header => {
                let Some(head) = memmem::find(bytes, b"\r\n\r\n") else {
                    return Ok(None);
                };
                let body = head + 4;
                let length = length(&bytes[..head], b"Content-Length: ");
                let end = body + length.ok_or("a reply without a length")?;
                Ok((end <= bytes.len()).then_some((body, end, end)))
            }
            Self::Json => Ok(value(bytes).map(|end| (0, end, end))),
            Self::Post => {
                let Some(head) = memmem::find(bytes, b"\r\n\r\n") else {
                    return Ok(None);
                };
                let body = head + 4;
                if !bytes.starts_with(b"HTTP/1.1 200 ") {
                    let head = String::from_utf8_lossy(&bytes[..head]);
                    return Err(format!("a wrong status: {head}").into());
                }
                // Servers in Rust write names in small letters.
                let length = length(&bytes[..head], b"content-length: ");
                let end = body + length.ok_or("a reply without a length")?;
                Ok((end <= bytes.len()).then_some((body, end, end)))
            }
            Self::WebSocket => {
                let (body, length) = match *bytes {
                    [0x81, 126, high, low, ..] => (4, u64::from(u16::from_be_bytes([high, low]))),
                    [0x81, short @ ..126, ..] => (2, u64::from(short)),
                    [0x81, 127, a, b, c, d, e, f, g, h, ..] => {
                        (10, u64::from_be_bytes([a, b, c, d, e, f, g, h]))
                    }
                    [0x81, ..] | [] => return Ok(None),
                    [other, ..] => {
                        return Err(format!("a frame that begins with {other:#x}").into());
                    }
                };
                let end = body + length as usize;
                Ok((end <= bytes.len()).then_some((body, end, end)))
            }
        }
    }
}

/// The number behind `name`, which often comes first.
fn length(head: &[u8], name: &[u8]) -> Option<usize> {
    let at = match head.starts_with(name) {
        true => 0,
        false => memmem::find(head, name)?,
    };
    let digits = head[at + name.len()..].iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |all, digit| all * 10 + usize::from(digit - b'0')))
}

/// Returns the end of the object or array that `bytes` begin with. Trusts its sender: a
/// bracket is not compared with the one it closes.
fn value(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Some(at + 1),
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = string(bytes, at)?,
            _ => {}
        }
        at += 1;
    }
}

/// Returns the end of the string that begins at `at`: the place of its last quote.
fn string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1 + memchr2(b'"', b'\\', bytes.get(at + 1..)?)?;
        match bytes[at] {
            b'"' => return Some(at),
            // Whatever is escaped, it is not the end.
            _ => at += 1,
        }
    }
}

/// The bytes that came in and were not yet counted.
#[derive(Debug)]
pub(crate) struct Frames {
    framing: Framing,
    buffer: Vec<u8>,
    end: usize,
    /// Number of bytes that were looked at, and do not end a message.
    seen: usize,
}

const ROOM: usize = 256 * 1024;

impl Frames {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            buffer: vec![0; ROOM],
            end: 0,
            seen: 0,
        }
    }

    /// One read; an error if the server has gone.
    pub(crate) fn read(&mut self, from: impl AsFd) -> Result<(), rustix::io::Errno> {
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 2, 0);
        }
        let room = &mut self.buffer[self.end..];
        match rustix::io::read(from, room)? {
            0 => Err(rustix::io::Errno::PIPE),
            read => {
                self.end += read;
                Ok(())
            }
        }
    }

    /// Returns the number of whole replies that have come in; checks the last of them if told.
    pub(crate) fn count(&mut self, check: Option<Task>) -> Result<u64, Problem> {
        if !self.may_end() {
            return Ok(0);
        }
        let bytes = &self.buffer[..self.end];
        let mut taken = 0;
        let mut count = 0;
        let mut last = 0..0;
        match self.framing {
            Framing::Line => {
                if let Some(end) = memrchr(b'\n', bytes) {
                    taken = end + 1;
                    count = memchr_iter(b'\n', &bytes[..taken]).count() as u64;
                    last = memrchr(b'\n', &bytes[..end]).map_or(0, |before| before + 1)..end;
                }
            }
            _ => {
                while let Some((body, end, next)) = self.framing.first(&bytes[taken..])? {
                    last = taken + body..taken + end;
                    taken += next;
                    count += 1;
                }
            }
        }
        if let (1.., Some(task)) = (count, check) {
            task.check(&bytes[last])?;
        }
        self.drop_first(taken);
        Ok(count)
    }

    /// Shows every reply that has come in whole.
    pub(crate) fn each(
        &mut self,
        mut see: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        if !self.may_end() {
            return Ok(());
        }
        let mut taken = 0;
        while let Some((body, end, next)) = self.framing.first(&self.buffer[taken..self.end])? {
            see(&self.buffer[taken + body..taken + end])?;
            taken += next;
        }
        self.drop_first(taken);
        Ok(())
    }

    /// Whether anything that is new could end a message: a long one, which comes
    /// in many reads, is looked through only once.
    fn may_end(&mut self) -> bool {
        let new = &self.buffer[self.seen..self.end];
        let may_end = match self.framing {
            Framing::Line => memchr(b'\n', new).is_some(),
            Framing::Json => memchr2(b'}', b']', new).is_some(),
            // These say how long they are.
            Framing::Header | Framing::Post | Framing::WebSocket => true,
        };
        self.seen = self.end;
        may_end
    }

    fn drop_first(&mut self, taken: usize) {
        if taken > 0 {
            self.buffer.copy_within(taken..self.end, 0);
            self.end -= taken;
        }
        self.seen = self.end;
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, Framing};

    #[test]
    fn counts_what_is_whole_and_keeps_the_rest() {
        for framing in [Framing::Line, Framing::Header, Framing::Json] {
            let texts = [r#"{"a":["}\\\""]}"#, "[[],1]"];
            let two = texts.map(|text| framing.frame(text)).concat();
            for cut in 0..=two.len() {
                let mut frames = Frames::new(framing);
                let mut counted = 0;
                for part in [&two[..cut], &two[cut..]] {
                    frames.buffer[frames.end..][..part.len()].copy_from_slice(part);
                    frames.end += part.len();
                    counted += frames.count(None).expect("frames");
                }
                assert_eq!((counted, frames.end), (2, 0), "cut at {cut}");
            }
        }
    }

    #[test]
    fn reads_what_a_web_server_sends() {
        let post = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let long = [b"\x81\x7e\x01\x00".as_slice(), &[b'1'; 256]].concat();
        for (framing, bytes, body) in [
            (Framing::Post, post.as_bytes(), 38..40),
            (Framing::WebSocket, b"\x81\x02{}", 2..4),
            (Framing::WebSocket, &long, 4..260),
        ] {
            let first = framing.first(bytes).expect("a frame");
            assert_eq!(first, Some((body.start, body.end, bytes.len())));
            let cut = framing.first(&bytes[..bytes.len() - 1]);
            assert_eq!(cut.expect("part of a frame"), None);
        }
        assert!(Framing::Post.first(b"HTTP/1.1 400 \r\n\r\n").is_err());
        assert!(Framing::WebSocket.first(b"\x88\x00").is_err());
    }
}
