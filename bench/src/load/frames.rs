//! Counting replies without reading them: only where they end.

use std::os::fd::AsFd;
use std::str::FromStr;

use memchr::{memchr, memchr_iter, memmem, memrchr};

use crate::Problem;
use crate::call::Dialect;

/// Where one message ends and the next begins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    Line,
    Header,
}

impl FromStr for Framing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "line" => Ok(Self::Line),
            "header" => Ok(Self::Header),
            other => Err(format!("no framing `{other}`")),
        }
    }
}

impl Framing {
    pub(crate) fn frame(self, text: &str) -> Vec<u8> {
        match self {
            Self::Line => format!("{text}\n"),
            Self::Header => format!("Content-Length: {}\r\n\r\n{text}", text.len()),
        }
        .into_bytes()
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
                let end = body + length(&bytes[..head]).ok_or("a reply without a length")?;
                Ok((end <= bytes.len()).then_some((body, end, end)))
            }
        }
    }
}

/// The number behind `Content-Length:`, which most servers send alone.
fn length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"Content-Length: ";
    let at = match head.starts_with(NAME) {
        true => 0,
        false => memmem::find(head, NAME)?,
    };
    let digits = head[at + NAME.len()..].iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |all, digit| all * 10 + usize::from(digit - b'0')))
}

/// The bytes that came in and were not yet counted.
#[derive(Debug)]
pub(crate) struct Frames {
    framing: Framing,
    buffer: Vec<u8>,
    end: usize,
}

const ROOM: usize = 256 * 1024;

impl Frames {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            buffer: vec![0; ROOM],
            end: 0,
        }
    }

    /// One read; an error if the server has gone.
    pub(crate) fn read(&mut self, from: impl AsFd) -> Result<(), rustix::io::Errno> {
        // A reply longer than the room would be one of somebody else's.
        let room = &mut self.buffer[self.end..];
        match rustix::io::read(from, room)? {
            0 => Err(rustix::io::Errno::PIPE),
            read => {
                self.end += read;
                Ok(())
            }
        }
    }

    /// How many replies have come in whole; checks the last of them if told.
    pub(crate) fn count(&mut self, check: Option<Dialect>) -> Result<u64, Problem> {
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
            Framing::Header => {
                while let Some((body, end, next)) = self.framing.first(&bytes[taken..])? {
                    last = taken + body..taken + end;
                    taken += next;
                    count += 1;
                }
            }
        }
        if let (1.., Some(dialect)) = (count, check) {
            dialect.check(&bytes[last])?;
        }
        self.drop_first(taken);
        Ok(count)
    }

    /// Shows every reply that has come in whole.
    pub(crate) fn each(
        &mut self,
        mut see: impl FnMut(&[u8]) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let mut taken = 0;
        while let Some((body, end, next)) = self.framing.first(&self.buffer[taken..self.end])? {
            see(&self.buffer[taken + body..taken + end])?;
            taken += next;
        }
        self.drop_first(taken);
        Ok(())
    }

    fn drop_first(&mut self, taken: usize) {
        self.buffer.copy_within(taken..self.end, 0);
        self.end -= taken;
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, Framing};

    #[test]
    fn counts_what_is_whole_and_keeps_the_rest() {
        for framing in [Framing::Line, Framing::Header] {
            let two = [framing.frame("{}"), framing.frame("[1]")].concat();
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
}
