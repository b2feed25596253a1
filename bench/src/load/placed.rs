//! Where the threads of a server are while it is loaded.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use caudal_bench::process;

/// To look takes some ten microseconds, so that this takes less than a hundredth.
const EVERY: Duration = Duration::from_millis(5);

/// The processor of each thread, at one time.
type Places = HashMap<String, u32>;

/// A thread that looks, again and again.
pub(crate) struct Watch {
    pid: u32,
    ended: Arc<AtomicBool>,
    seen: JoinHandle<Vec<Places>>,
}

impl Watch {
    pub(crate) fn start(pid: u32) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&ended);
        let seen = thread::spawn(move || {
            let mut seen = Vec::new();
            while !watched.load(Ordering::Relaxed) {
                seen.extend(process::places(pid));
                thread::sleep(EVERY);
            }
            seen
        });
        Self { pid, ended, seen }
    }

    /// How much of the time the two threads that worked most were on one processor.
    pub(crate) fn together(self) -> Option<f64> {
        let mut threads = process::threads(self.pid).ok()?;
        self.ended.store(true, Ordering::Relaxed);
        let seen = self.seen.join().ok()?;
        threads.sort_by_key(|(_, cpu)| std::cmp::Reverse(*cpu));
        let [(one, _), (other, _), ..] = &threads[..] else {
            return None;
        };
        share(&seen, one, other)
    }
}

fn share(seen: &[Places], one: &str, other: &str) -> Option<f64> {
    let both = |places: &Places| Some(places.get(one)? == places.get(other)?);
    let both: Vec<bool> = seen.iter().filter_map(both).collect();
    let together = both.iter().filter(|together| **together).count();
    (!both.is_empty()).then(|| together as f64 / both.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::{Places, Watch, share};

    fn seen(places: &[&[(&str, u32)]]) -> Vec<Places> {
        let at_once = |places: &&[(&str, u32)]| {
            let places = places.iter();
            places
                .map(|(name, place)| ((*name).to_owned(), *place))
                .collect()
        };
        places.iter().map(at_once).collect()
    }

    #[test]
    fn two_are_together_on_the_same_processor() {
        let times: [&[_]; 5] = [
            &[("a", 0), ("b", 1), ("c", 1)],
            &[("a", 1), ("b", 1)],
            &[("a", 0), ("b", 0)],
            &[("a", 0), ("b", 0)],
            // Nobody knows where `b` is.
            &[("a", 0)],
        ];
        assert_eq!(share(&seen(&times), "a", "b"), Some(0.75));
        assert_eq!(share(&seen(&times), "a", "d"), None);
    }

    #[test]
    fn a_process_is_seen() {
        let watch = Watch::start(std::process::id());
        std::thread::sleep(super::EVERY);
        let share = watch
            .together()
            .expect("two threads at least: this and the one that looks");
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
}
