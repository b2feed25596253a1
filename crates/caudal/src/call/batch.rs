//! The answers to a batch, in the order of its entries, as they come in.

use bytes::BytesMut;

use super::Exchange;

/// The answers to one batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The answers that were ready at once, a comma behind each.
    pub(crate) text: BytesMut,
    answers: Vec<Answer>,
    /// How many are still to come.
    open: usize,
    /// What those have that came later.
    late: usize,
}

#[derive(Debug)]
enum Answer {
    /// One or more, up to here in `text`, from where those before ended.
    Ready(usize),
    Open,
    Late(BytesMut),
}

impl Batch {
    /// With room for short answers to so many entries.
    pub(crate) fn with_room(entries: usize) -> Self {
        const SHORT: usize = r#"{"jsonrpc":"2.0","id":1234,"result":1234},"#.len();
        Self {
            text: BytesMut::with_capacity(entries * SHORT),
            ..Self::default()
        }
    }

    /// Where the next answer begins.
    pub(crate) fn begin(&self) -> usize {
        self.text.len()
    }

    /// Ends an entry, which has an answer if anything was written.
    pub(crate) fn end(&mut self, begin: usize) {
        if self.text.len() == begin {
            return;
        }
        self.text.extend_from_slice(b",");
        let end = self.text.len();
        match self.answers.last_mut() {
            Some(Answer::Ready(last)) => *last = end,
            _ => self.answers.push(Answer::Ready(end)),
        }
    }

    /// Leaves an answer open, and returns its place.
    pub(crate) fn leave_open(&mut self, begin: usize) -> usize {
        self.text.truncate(begin);
        self.open += 1;
        self.answers.push(Answer::Open);
        self.answers.len() - 1
    }

    /// Puts an answer into its place, and says whether it was the last.
    pub(crate) fn fill(&mut self, place: usize, text: BytesMut) -> bool {
        if let Some(answer @ Answer::Open) = self.answers.get_mut(place) {
            self.late += text.len();
            *answer = Answer::Late(text);
            self.open -= 1;
        }
        self.is_complete()
    }

    /// How much it holds.
    pub(crate) fn bytes(&self) -> usize {
        self.text.len() + self.late
    }

    /// Whether no answer is open.
    pub(crate) fn is_complete(&self) -> bool {
        self.open == 0
    }

    /// Writes the array, unless it would be empty.
    pub(crate) fn write(&self, exchange: &mut Exchange<'_>) {
        let mut pieces = self
            .pieces()
            .filter(|(text, _)| !text.is_empty())
            .peekable();
        if pieces.peek().is_none() {
            return;
        }
        let written: Result<(), std::convert::Infallible> = exchange.put(|out| {
            out.extend_from_slice(b"[");
            for (text, comma) in pieces {
                out.extend_from_slice(text);
                out.extend_from_slice(comma);
            }
            if let Some(last_comma) = out.last_mut() {
                *last_comma = b']';
            }
            Ok(())
        });
        let Ok(()) = written;
    }

    /// The answers, and the comma that some still need.
    fn pieces(&self) -> impl Iterator<Item = (&[u8], &'static [u8])> {
        let mut begin = 0;
        self.answers.iter().map(move |answer| match answer {
            Answer::Ready(end) => {
                let piece = self.text.get(begin..*end).unwrap_or_default();
                begin = *end;
                (piece, &b""[..])
            }
            Answer::Open => (&[][..], &b""[..]),
            Answer::Late(text) => (&text[..], &b","[..]),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::BytesMut;

    use super::Batch;
    use super::Exchange;
    use crate::connection::Link;

    fn written(batch: &Batch) -> BytesMut {
        let (link, mut out) = (Link::nowhere(Arc::default()), BytesMut::new());
        batch.write(&mut Exchange::for_entry(&link, &mut out));
        out
    }

    fn ready(batch: &mut Batch, text: &[u8]) {
        let begin = batch.begin();
        batch.text.extend_from_slice(text);
        batch.end(begin);
    }

    fn open(batch: &mut Batch) -> usize {
        let begin = batch.begin();
        batch.text.extend_from_slice(b"half an answer");
        batch.leave_open(begin)
    }

    #[test]
    fn answers_keep_their_order_whenever_they_come() {
        let mut batch = Batch::with_room(6);
        let first = open(&mut batch);
        ready(&mut batch, b"2");
        ready(&mut batch, b"");
        ready(&mut batch, b"4");
        let fifth = open(&mut batch);
        let silent = open(&mut batch);
        assert!(!batch.fill(silent, BytesMut::new()));
        assert!(!batch.fill(fifth, b"5"[..].into()));
        assert!(batch.fill(first, b"1"[..].into()));
        assert_eq!(&written(&batch)[..], b"[1,2,4,5]");
    }

    #[test]
    fn nothing_but_silence_is_no_array() {
        let mut batch = Batch::default();
        ready(&mut batch, b"");
        let silent = open(&mut batch);
        batch.fill(silent, BytesMut::new());
        assert!(written(&batch).is_empty());
        ready(&mut batch, b"1");
        assert_eq!(&written(&batch)[..], b"[1]");
    }
}
