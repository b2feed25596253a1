//! The table of outgoing calls: the whole life of many that wait at once.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use caudal_core::{CallId, IdFormat, Pending};

use super::Contestant;

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
