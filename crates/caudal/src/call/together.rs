//! Many futures in one task, each polled only when it was woken.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

/// Many futures in one task.
pub(crate) struct Together<F> {
    /// None where one is done.
    running: Vec<Option<Entry<F>>>,
    left: usize,
    woken: Arc<Mutex<Woken>>,
}

type Entry<F> = (Pin<Box<F>>, Arc<Own>);

#[derive(Default)]
struct Woken {
    /// Those that are to be polled.
    places: Vec<usize>,
    task: Option<Waker>,
}

/// What one of them is woken by.
struct Own {
    place: usize,
    /// Whether it is among those that are to be polled.
    is_woken: AtomicBool,
    woken: Arc<Mutex<Woken>>,
}

impl Wake for Own {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, AcqRel) {
            return;
        }
        let mut woken = lock(&self.woken);
        woken.places.push(self.place);
        let task = woken.task.take();
        drop(woken);
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl<F: Future> Together<F> {
    pub(crate) fn new(all: impl Iterator<Item = F>) -> Self {
        let woken = Arc::<Mutex<Woken>>::default();
        let own = |place| {
            Arc::new(Own {
                place,
                is_woken: AtomicBool::new(true),
                woken: Arc::clone(&woken),
            })
        };
        let running: Vec<_> = all
            .enumerate()
            .map(|(place, future)| Some((Box::pin(future), own(place))))
            .collect();
        lock(&woken).places = (0..running.len()).collect();
        Self {
            left: running.len(),
            running,
            woken,
        }
    }

    /// Ready when all are done; `done` gets what each of them returns.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mut done: impl FnMut(F::Output),
    ) -> Poll<()> {
        let mut woken = lock(&self.woken);
        woken.task = Some(cx.waker().clone());
        let places = std::mem::take(&mut woken.places);
        drop(woken);
        for place in places {
            let Some(entry) = self.running.get_mut(place) else {
                continue;
            };
            let Some((future, own)) = entry else { continue };
            // What was done before it was woken is seen, also by whom it was woken twice.
            own.is_woken.swap(false, AcqRel);
            let waker = Waker::from(Arc::clone(own));
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                *entry = None;
                self.left -= 1;
                done(output);
            }
        }
        match self.left {
            0 => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

fn lock(woken: &Mutex<Woken>) -> MutexGuard<'_, Woken> {
    woken
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn only_what_was_woken_is_polled() {
        const ALL: usize = 100;
        let polls = AtomicUsize::new(0);
        let (gates, waits): (Vec<_>, Vec<_>) = (0..ALL).map(|_| oneshot::channel()).unzip();
        let futures = waits.into_iter().map(|mut wait| {
            let polls = &polls;
            poll_fn(move |cx| {
                polls.fetch_add(1, Relaxed);
                Pin::new(&mut wait).poll(cx)
            })
        });
        let mut together = Together::new(futures);
        let mut sum = 0;
        let all = poll_fn(|cx| together.poll(cx, |n: Result<usize, _>| sum += n.unwrap()));
        let open = async {
            tokio::task::yield_now().await;
            // Each in a turn of its own, from the last to the first.
            for (n, gate) in gates.into_iter().enumerate().rev() {
                gate.send(n).unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(all, open);
        assert_eq!(sum, ALL * (ALL - 1) / 2);
        assert_eq!(polls.load(Relaxed), 2 * ALL);
    }

    #[tokio::test]
    async fn nothing_is_done_at_once() {
        let mut none = Together::new(std::iter::empty::<std::future::Ready<()>>());
        poll_fn(|cx| none.poll(cx, |()| ())).await;
    }
}
