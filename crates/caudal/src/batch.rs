//! The answers to a batch, in the order of its entries, as they come in.

use bytes::BytesMut;

use crate::dispatch::Exchange;

/// The answers to one batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The answers that were ready at once, one after the other.
    pub(crate) text: BytesMut,
    answers: Vec<Answer>,
    /// How many are still to come.
    open: usize,
}

#[derive(Debug)]
enum Answer {
    /// Ends here in `text`, where the one before it ended.
    Ready(usize),
    Open,
    Late(BytesMut),
}

impl Batch {
    /// Where the next answer begins.
    pub(crate) fn begin(&self) -> usize {
        self.text.len()
    }

    /// Ends an entry, which has an answer if anything was written.
    pub(crate) fn end(&mut self, begin: usize) {
        if self.text.len() > begin {
            self.answers.push(Answer::Ready(self.text.len()));
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
            *answer = Answer::Late(text);
            self.open -= 1;
        }
        self.is_complete()
    }

    /// Whether no answer is open.
    pub(crate) fn is_complete(&self) -> bool {
        self.open == 0
    }

    /// Writes the array, unless it would be empty.
    pub(crate) fn write(&self, exchange: &mut Exchange<'_>) {
        let mut answers = self.pieces().filter(|piece| !piece.is_empty()).peekable();
        if answers.peek().is_none() {
            return;
        }
        let written: Result<(), std::convert::Infallible> = exchange.put(|out| {
            let mut separator = b"[";
            for answer in answers {
                out.extend_from_slice(separator);
                out.extend_from_slice(answer);
                separator = b",";
            }
            out.extend_from_slice(b"]");
            Ok(())
        });
        let Ok(()) = written;
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let mut begin = 0;
        self.answers.iter().map(move |answer| match answer {
            Answer::Ready(end) => {
                let piece = self.text.get(begin..*end).unwrap_or_default();
                begin = *end;
                piece
            }
            Answer::Open => &[],
            Answer::Late(text) => text,
        })
    }
}
