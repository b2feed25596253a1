//! POSTs that wait for the reply to their requests.
//!
//! The client chooses ids and tokens, and how many of them wait. So nothing here looks at
//! all that waits: finding a POST takes as many look-ups as the message has ids.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use caudal_core::{Id, InvalidKind, Message};
use tokio::sync::mpsc;

use super::byte_limit::{ByteLimit, Reservation};
use super::collect;
use super::session::SessionQueues;
use crate::connection::IdKey;
use crate::sync::lock;

/// Bytes that an id takes besides its text.
const ID_OVERHEAD: usize = 256;

/// All POSTs of a session that wait for a reply.
#[derive(Debug)]
pub(super) struct PendingPosts {
    ids: ByteLimit,
    /// Bytes of replies and progress on their way over POSTs.
    pub(super) replies: ByteLimit,
    state: Mutex<PostIndex>,
}

#[derive(Debug, Default)]
struct PostIndex {
    posts: HashMap<u64, Post>,
    /// Subjects of messages, and the numbers of the posts that these may be for.
    index: BTreeSet<(Subject, u64)>,
    last: u64,
    closed: bool,
}

#[derive(Debug)]
struct Post {
    expected: ExpectedReply,
    messages: mpsc::UnboundedSender<PostMessage>,
    _reservation: Reservation,
}

/// Property of a message by which its POST is found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// A reply to a request with this id, alone.
    Reply(IdKey),
    /// The same in a batch.
    BatchReply(IdKey),
    /// Progress under this token.
    Progress(IdKey),
}

/// Message for a POST.
#[derive(Debug)]
pub(crate) struct PostMessage {
    pub(crate) text: Bytes,
    /// Number of the last of the server's other messages before it.
    pub(crate) after: u64,
    /// True if it is the reply, after which nothing comes.
    pub(crate) is_reply: bool,
    pub(super) reservation: Option<Reservation>,
}

/// Reply and progress that a POST waits for.
#[derive(Debug)]
pub(super) struct ExpectedReply {
    /// A reply for each id that is not cancelled, and progress.
    subjects: Vec<Subject>,
    /// A reply with the id null, which is expected when all others are cancelled. Until then
    /// another id finds this POST more surely.
    null: Option<Subject>,
}

impl ExpectedReply {
    /// Returns the reply that a message of the client wants, if it wants one.
    pub(super) fn to(message: &Message<'_>, tokens: &[String]) -> Option<Self> {
        let (mut subjects, null) = replies(message, |message| match message {
            Message::Request(request) => Some(request.id),
            Message::Invalid(invalid) if invalid.kind == InvalidKind::Request => Some(invalid.id),
            _ => None,
        });
        let null = match subjects.is_empty() {
            true => {
                subjects.push(null?);
                None
            }
            false => null,
        };
        let tokens = tokens.iter().map(|token| IdKey::of_json(token));
        subjects.extend(tokens.map(Subject::Progress));
        Some(Self { subjects, null })
    }

    fn bytes(&self) -> usize {
        let subjects = self.subjects.iter().chain(&self.null);
        subjects
            .map(|subject| subject.id().size() + ID_OVERHEAD)
            .sum()
    }
}

impl Subject {
    fn id(&self) -> &IdKey {
        match self {
            Self::Reply(id) | Self::BatchReply(id) | Self::Progress(id) => id,
        }
    }
}

/// Returns the subjects of the replies with the ids that `pick` finds in a message, and
/// that of a reply with the id null, if it finds that.
fn replies<'m>(
    message: &Message<'m>,
    pick: impl Fn(&Message<'m>) -> Option<Id<'m>>,
) -> (Vec<Subject>, Option<Subject>) {
    let subject = match message {
        Message::Batch(_) => Subject::BatchReply,
        _ => Subject::Reply,
    };
    let ids = collect(message, |message| {
        pick(message).map(|id| (id.is_null(), subject(IdKey::of(id))))
    });
    let (nulls, others): (Vec<_>, Vec<_>) = ids.into_iter().partition(|(is_null, _)| *is_null);
    let null = nulls.into_iter().next();
    let others = others.into_iter().map(|(_, subject)| subject);
    (others.collect(), null.map(|(_, subject)| subject))
}

impl PendingPosts {
    pub(super) fn new(ids: ByteLimit, replies: ByteLimit) -> Self {
        Self {
            ids,
            replies,
            state: Mutex::default(),
        }
    }

    /// Returns the POST that a reply is for.
    pub(super) fn find_reply(&self, message: &Message<'_>) -> Option<u64> {
        let (subjects, null) = replies(message, |message| match message {
            Message::Response(response) => Some(response.id),
            _ => None,
        });
        let null = null.filter(|_| subjects.is_empty());
        let state = self.lock();
        let subjects = subjects.iter().chain(&null);
        subjects.filter_map(|subject| state.first(subject)).min()
    }

    /// Returns the POST that progress under this token, a JSON text, is for.
    pub(super) fn find_progress(&self, token: &str) -> Option<u64> {
        self.lock().first(&Subject::Progress(IdKey::of_json(token)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().posts.is_empty()
    }

    /// Gives a message to a POST.
    ///
    /// # Errors
    /// The message, if the POST does not wait any more.
    pub(super) fn give(&self, post: u64, message: PostMessage) -> Result<(), PostMessage> {
        let (mut state, is_reply) = (self.lock(), message.is_reply);
        let Some(waiting) = state.posts.get(&post) else {
            return Err(message);
        };
        let sent = waiting.messages.send(message);
        if is_reply {
            state.remove(post);
        }
        sent.map_err(|unsent| unsent.0)
    }

    /// Expects no reply to requests with this id, a JSON text. A POST that expects no other
    /// ends.
    pub(super) fn cancel(&self, id: &str) {
        let (id, mut state) = (IdKey::of_json(id), self.lock());
        for subject in [Subject::Reply(id.clone()), Subject::BatchReply(id)] {
            while let Some(post) = state.first(&subject) {
                state.cancel(post, &subject);
            }
        }
    }

    /// Ends all POSTs: no reply comes any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        (state.posts, state.index) = (HashMap::new(), BTreeSet::new());
    }

    fn lock(&self) -> MutexGuard<'_, PostIndex> {
        lock(&self.state)
    }
}

impl PostIndex {
    /// Number of the oldest post that messages with this subject may be for.
    fn first(&self, subject: &Subject) -> Option<u64> {
        let mut from = self.index.range((subject.clone(), 0)..);
        from.next()
            .filter(|(found, _)| found == subject)
            .map(|(_, number)| *number)
    }

    fn insert(&mut self, number: u64, post: Post) {
        let subjects = post.expected.subjects.iter().cloned();
        self.index.extend(subjects.map(|subject| (subject, number)));
        self.posts.insert(number, post);
    }

    fn cancel(&mut self, number: u64, subject: &Subject) {
        self.index.remove(&(subject.clone(), number));
        let Some(Post { expected, .. }) = self.posts.get_mut(&number) else {
            return;
        };
        expected.subjects.retain(|own| own != subject);
        let is_progress = |subject: &Subject| matches!(subject, Subject::Progress(_));
        if !expected.subjects.iter().all(is_progress) {
            return;
        }
        match expected.null.take() {
            Some(null) => {
                expected.subjects.push(null.clone());
                self.index.insert((null, number));
            }
            None => self.remove(number),
        }
    }

    fn remove(&mut self, number: u64) {
        let removed = self.posts.remove(&number);
        for subject in removed.into_iter().flat_map(|post| post.expected.subjects) {
            self.index.remove(&(subject, number));
        }
        if self.posts.is_empty() {
            // Gives back the memory that many had taken.
            self.posts = HashMap::new();
        }
    }
}

/// POST that waits. If it is dropped, messages that it has not taken go with the server's
/// other messages.
#[derive(Debug)]
pub(crate) struct PendingPost {
    queues: Arc<SessionQueues>,
    number: u64,
    messages: mpsc::UnboundedReceiver<PostMessage>,
    next: Option<PostMessage>,
}

impl PendingPost {
    /// Lets a POST wait; `None` if too much is expected already.
    pub(super) fn begin(queues: &Arc<SessionQueues>, expected: ExpectedReply) -> Option<Self> {
        let reservation = queues.posts.ids.try_reserve(expected.bytes())?;
        let (sender, messages) = mpsc::unbounded_channel();
        let mut state = queues.posts.lock();
        state.last += 1;
        let number = state.last;
        if !state.closed {
            let post = Post {
                expected,
                messages: sender,
                _reservation: reservation,
            };
            state.insert(number, post);
        }
        drop(state);
        Some(Self {
            queues: Arc::clone(queues),
            number,
            messages,
            next: None,
        })
    }

    /// The next message, if it is there.
    pub(crate) fn peek(&mut self) -> Option<&PostMessage> {
        if self.next.is_none() {
            self.next = self.messages.try_recv().ok();
        }
        self.next.as_ref()
    }

    /// Waits for the next message, or for the end.
    ///
    /// # Cancel safety
    /// No message is lost.
    pub(crate) async fn wait(&mut self) {
        if self.next.is_none() {
            self.next = self.messages.recv().await;
        }
    }

    /// The next message, if it was seen.
    pub(crate) fn take(&mut self) -> Option<PostMessage> {
        self.next.take()
    }

    /// Returns true if no message comes any more.
    pub(crate) fn is_over(&self) -> bool {
        // In this order: a message may come between the two looks.
        self.next.is_none() && self.messages.is_closed() && self.messages.is_empty()
    }
}

impl Drop for PendingPost {
    fn drop(&mut self) {
        self.queues.posts.lock().remove(self.number);
        self.messages.close();
        while let Some(message) = self.next.take().or_else(|| self.messages.try_recv().ok()) {
            let outbox = &self.queues.outbox;
            outbox.push(message.text, message.reservation);
        }
    }
}
