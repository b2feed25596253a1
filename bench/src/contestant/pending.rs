//! The table of outgoing calls: the whole life of many that wait at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use caudal::{CallError, Config, Peer, Router};
use caudal_core::{CallId, IdFormat, Pending};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Contestant;
use crate::peer::ROOM;

pub(super) struct Calls {
    pub(super) waiting: u32,
}

impl Contestant for Calls {
    /// All calls are made within a second and have 30; every other one is
    /// answered, and the clock is followed until the last has expired.
    fn take(&mut self, _: &[u8], _: &mut Vec<u8>) {
        let start = Instant::now();
        let mut pending = Pending::new(usize::MAX, IdFormat::Integer);
        let step = Duration::from_secs(1) / self.waiting;
        let ids: Vec<_> = (0..self.waiting)
            .map(|call| {
                let deadline = start + Duration::from_secs(30) + step * call;
                pending.insert(call, Some(deadline)).expect("there is room")
            })
            .collect();
        for id in ids.iter().step_by(2) {
            assert!(pending.cancel(*id).is_some());
        }
        let mut expired = 0;
        while let Some(wakeup) = pending.next_deadline() {
            expired += pending.expire(wakeup).count();
        }
        assert_eq!(expired, ids.len() / 2);
    }
}

/// As many calls wait all the time; for each that is made, the oldest is answered.
pub(super) struct Steady {
    pending: Pending<u32>,
    ids: VecDeque<CallId>,
    now: Instant,
}

impl Steady {
    pub(super) fn new(waiting: u32) -> Self {
        let now = Instant::now();
        let mut steady = Self {
            pending: Pending::new(usize::MAX, IdFormat::Integer),
            ids: VecDeque::new(),
            now,
        };
        // One more waits while the oldest is answered.
        for _ in 1..waiting {
            steady.call();
        }
        steady
    }

    /// A call every millisecond, each with 30 seconds: even of 10,000 none expires.
    fn call(&mut self) {
        self.now += Duration::from_millis(1);
        assert_eq!(self.pending.expire(self.now).count(), 0);
        let deadline = self.now + Duration::from_secs(30);
        let id = self.pending.insert(7, Some(deadline));
        self.ids.push_back(id.expect("there is room"));
    }
}

impl Contestant for Steady {
    fn take(&mut self, _: &[u8], _: &mut Vec<u8>) {
        self.call();
        let oldest = self.ids.pop_front().expect("one was made");
        assert_eq!(self.pending.cancel(oldest), Some(7));
    }
}

/// The same through two peers, both ends on this thread: a call waits in the table of
/// one and in a handler of the other.
pub(super) struct Paired {
    runtime: Runtime,
    peer: Peer,
    _other: Peer,
    /// By what each handler is told to go on, the oldest first.
    doors: Doors,
    calls: VecDeque<JoinHandle<Result<i64, CallError>>>,
    waiting: usize,
}

type Doors = Arc<Mutex<VecDeque<oneshot::Sender<()>>>>;

impl Paired {
    pub(super) fn new(waiting: u32) -> Self {
        let doors = Doors::default();
        let inside = Arc::clone(&doors);
        let router = Router::new().method("wait", move |(a, b): (i64, i64)| {
            let (door, opened) = oneshot::channel();
            lock(&inside).push_back(door);
            async move {
                opened.await.expect("every door is opened");
                Ok(a + b)
            }
        });
        let mut config = Config::default();
        config.pending = ROOM;
        config.in_flight = ROOM;
        // Under callgrind a second is short.
        config.call_timeout = Some(Duration::from_secs(3600));
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let pair = || Peer::pair_with(Router::new(), router, &config);
        let (peer, other) = runtime.block_on(async { pair() });
        let mut paired = Self {
            runtime,
            peer,
            _other: other,
            doors,
            calls: VecDeque::new(),
            waiting: 0,
        };
        // One more waits while the oldest is answered.
        for _ in 1..waiting {
            paired.call();
        }
        paired
    }

    /// Returns when its handler waits.
    fn call(&mut self) {
        self.waiting += 1;
        let peer = self.peer.clone();
        let call = async move { peer.call("wait", (1, 2)).await };
        self.calls.push_back(self.runtime.spawn(call));
        self.runtime.block_on(async {
            while lock(&self.doors).len() < self.waiting {
                tokio::task::yield_now().await;
            }
        });
    }
}

impl Contestant for Paired {
    fn take(&mut self, _: &[u8], _: &mut Vec<u8>) {
        self.call();
        let door = lock(&self.doors).pop_front().expect("one waits");
        door.send(()).expect("its handler waits");
        let oldest = self.calls.pop_front().expect("one was made");
        let sum = self.runtime.block_on(oldest).expect("no panic");
        assert_eq!(sum.expect("an answer"), 3);
        self.waiting -= 1;
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Contestant as _, Paired};

    #[test]
    fn as_many_calls_wait_as_before() {
        let mut paired = Paired::new(20);
        for _ in 0..50 {
            paired.take(b"", &mut Vec::new());
            assert_eq!(paired.calls.len(), 19);
        }
    }
}
