//! The table of outgoing calls: the whole life of many that wait at once.

use std::time::{Duration, Instant};

use caudal_core::{IdFormat, Pending};

use super::Contestant;

pub(super) struct Calls {
    pub(super) waiting: u32,
}

impl Contestant for Calls {
    /// All calls are made within a second and have 30; every other one is
    /// answered, and the clock is followed until the last has expired.
    fn take(&mut self, _: &[u8], _: &mut Vec<u8>) {
        let start = Instant::now();
        let mut pending = Pending::new(Pending::<u32>::MAX_LIMIT, IdFormat::Integer, start);
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
        while let Some(wakeup) = pending.next_wakeup() {
            expired += pending.expire(wakeup).count();
        }
        assert_eq!(expired, ids.len() / 2);
    }
}
