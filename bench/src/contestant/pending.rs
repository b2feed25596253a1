//! The table of outgoing calls, with many of them waiting.

use std::time::{Duration, Instant};

use caudal_core::{IdFormat, Pending};

use super::Contestant;

pub(super) struct Calls {
    pending: Pending<u32>,
    start: Instant,
    now: Duration,
}

impl Calls {
    pub(super) fn new(waiting: u32) -> Self {
        let start = Instant::now();
        let mut pending = Pending::new(Pending::<u32>::MAX_LIMIT, IdFormat::Integer, start);
        for call in 0..waiting {
            let deadline = start + Duration::from_secs(30) + Duration::from_micros(call.into());
            pending.insert(call, Some(deadline)).expect("there is room");
        }
        let now = Duration::ZERO;
        Self {
            pending,
            start,
            now,
        }
    }
}

impl Contestant for Calls {
    /// One call made, one look at the clock, one call answered.
    fn take(&mut self, _: &[u8], _: &mut Vec<u8>) {
        self.now += Duration::from_micros(1);
        let now = self.start + self.now;
        let deadline = now + Duration::from_secs(30);
        let id = self
            .pending
            .insert(0, Some(deadline))
            .expect("there is room");
        assert_eq!(self.pending.expire(now).count(), 0);
        assert!(self.pending.next_wakeup().is_some());
        assert!(self.pending.cancel(id).is_some());
    }
}
