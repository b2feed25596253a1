//! POSTs that wait for the reply to what they have brought.
//!
//! The client chooses ids and tokens, and how many of them wait. So nothing here looks at
//! all that waits: finding a POST takes as many look-ups as the message has ids.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use caudal_core::{Id, InvalidKind, Message};
use tokio::sync::mpsc;

use super::byte_limit::{ByteLimit, Reservation};
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
    /// Numbers of the posts that a message may be for: the first is the oldest.
    index: HashMap<Subject, BTreeSet<u64>>,
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    /// A reply to a request with this id, in a batch or alone.
    Reply { is_batch: bool, id: IdKey },
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

/// Ids of the requests in a POST, as far as they are not cancelled.
#[derive(Debug)]
pub(super) struct ExpectedReply {
    is_batch: bool,
    ids: Vec<IdKey>,
    /// True if there will be a reply with the id null. It tells little, so it counts only
    /// where there is no other id.
    has_null: bool,
    /// Tokens under which progress of the requests is reported.
    tokens: Vec<IdKey>,
}

impl ExpectedReply {
    /// Returns what a message of the client asks for, if it asks for anything.
    pub(super) fn to(message: &Message<'_>, tokens: &[String]) -> Option<Self> {
        let id = |message: &Message<'_>| match message {
            Message::Request(request) => Some(same_id(request.id)),
            Message::Invalid(invalid) if invalid.kind == InvalidKind::Request => {
                Some(same_id(invalid.id))
            }
            _ => None,
        };
        let (is_batch, all): (_, Vec<_>) = match message {
            Message::Batch(entries) => (true, entries.iter().filter_map(id).collect()),
            single => (false, id(single).into_iter().collect()),
        };
        (!all.is_empty()).then(|| Self {
            is_batch,
            has_null: all.iter().any(Option::is_none),
            ids: all.into_iter().flatten().collect(),
            tokens: tokens.iter().map(|token| IdKey::of_json(token)).collect(),
        })
    }

    fn subjects(&self) -> Vec<Subject> {
        let ids = self.ids.iter().map(|id| self.reply(id.clone()));
        let null = (self.ids.is_empty() && self.has_null).then(|| self.reply(null()));
        let tokens = self.tokens.iter().cloned().map(Subject::Progress);
        ids.chain(null).chain(tokens).collect()
    }

    fn reply(&self, id: IdKey) -> Subject {
        let is_batch = self.is_batch;
        Subject::Reply { is_batch, id }
    }

    fn bytes(&self) -> usize {
        let ids = self.ids.iter().chain(&self.tokens);
        let bytes: usize = ids.map(|id| id.size() + ID_OVERHEAD).sum();
        bytes + usize::from(self.has_null) * ID_OVERHEAD
    }
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
        let mut ids = Vec::new();
        let is_batch = match message {
            Message::Response(response) => {
                ids.push(same_id(response.id));
                false
            }
            Message::Batch(entries) => {
                ids.extend(entries.iter().filter_map(|entry| match entry {
                    Message::Response(response) => Some(same_id(response.id)),
                    _ => None,
                }));
                true
            }
            _ => return None,
        };
        let state = self.lock();
        let first = |id| state.first(&Subject::Reply { is_batch, id });
        match ids.iter().any(Option::is_some) {
            true => ids.into_iter().flatten().filter_map(first).min(),
            false => first(null()),
        }
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
        for is_batch in [false, true] {
            let id = id.clone();
            let subject = Subject::Reply { is_batch, id };
            for number in state.index.remove(&subject).unwrap_or_default() {
                state.cancel(number, &subject);
            }
        }
    }

    /// Ends all POSTs: no reply comes any more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        (state.posts, state.index) = (HashMap::new(), HashMap::new());
    }

    fn lock(&self) -> MutexGuard<'_, PostIndex> {
        lock(&self.state)
    }
}

impl PostIndex {
    fn first(&self, subject: &Subject) -> Option<u64> {
        self.index.get(subject)?.first().copied()
    }

    fn cancel(&mut self, number: u64, subject: &Subject) {
        let (Some(post), Subject::Reply { id, .. }) = (self.posts.get_mut(&number), subject) else {
            return;
        };
        post.expected.ids.retain(|own| own != id);
        if !post.expected.ids.is_empty() {
            return;
        }
        match post.expected.has_null && *id != null() {
            true => {
                let null = post.expected.reply(null());
                self.index.entry(null).or_default().insert(number);
            }
            false => self.remove(number),
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(post) = self.posts.remove(&number) else {
            return;
        };
        for subject in post.expected.subjects() {
            if let Some(posts) = self.index.get_mut(&subject) {
                posts.remove(&number);
                if posts.is_empty() {
                    self.index.remove(&subject);
                }
            }
        }
        if self.posts.is_empty() {
            // Gives back the memory that many had taken.
            *self = Self {
                last: self.last,
                closed: self.closed,
                ..Self::default()
            };
        }
    }
}

/// POST that waits. If it is dropped, what it has not taken goes with the server's other
/// messages.
#[derive(Debug)]
pub(crate) struct PendingPost {
    queues: Arc<SessionQueues>,
    number: u64,
    messages: mpsc::UnboundedReceiver<PostMessage>,
    next: Option<PostMessage>,
    is_over: bool,
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
            for subject in expected.subjects() {
                state.index.entry(subject).or_default().insert(number);
            }
            let post = Post {
                expected,
                messages: sender,
                _reservation: reservation,
            };
            state.posts.insert(number, post);
        }
        drop(state);
        Some(Self {
            queues: Arc::clone(queues),
            number,
            messages,
            next: None,
            is_over: false,
        })
    }

    /// The next message, if it is there.
    pub(crate) fn peek(&mut self) -> Option<&PostMessage> {
        if self.next.is_none() {
            match self.messages.try_recv() {
                Ok(message) => self.next = Some(message),
                Err(mpsc::error::TryRecvError::Empty) => {}
                Err(mpsc::error::TryRecvError::Disconnected) => self.is_over = true,
            }
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
            self.is_over = self.next.is_none();
        }
    }

    /// The next message; `None` if there is none, or will be none.
    pub(crate) fn take(&mut self) -> Option<PostMessage> {
        self.next.take()
    }

    /// Returns true if it was seen that no message comes any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Drop for PendingPost {
    fn drop(&mut self) {
        self.queues.posts.lock().remove(self.number);
        self.messages.close();
        while self.peek().is_some() {
            if let Some(PostMessage {
                text, reservation, ..
            }) = self.take()
            {
                self.queues.outbox.push(text, reservation);
            }
        }
    }
}

/// An id as it is compared; `None` for null.
fn same_id(id: Id<'_>) -> Option<IdKey> {
    (id.as_str() != "null").then(|| IdKey::of(id))
}

fn null() -> IdKey {
    IdKey::of_json("null")
}
