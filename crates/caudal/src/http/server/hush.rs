//! A wake-up for each request that is for nobody.
//!
//! When a piece of a body is taken, hyper wakes the task of its connection to read on.
//! After the last piece there is nothing to read, and yet the task is queued and polled
//! once more, perhaps by another thread. So that one is held back, and passed on only
//! if there is more to come.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Another waker for the same task, which can be hushed.
pub(super) fn waker(task: &Waker) -> Waker {
    Arc::new(Task(task.clone())).into()
}

/// The task of a connection.
struct Task(Waker);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let mut task = Some(self);
        // Where the thread ends, nothing is held back.
        let _ = HUSH.try_with(|hush| match hush.take() {
            Hush::On => hush.set(task.take().map_or(Hush::On, Hush::Held)),
            other => hush.set(other),
        });
        if let Some(task) = task {
            task.0.wake_by_ref();
        }
    }
}

#[derive(Default)]
enum Hush {
    #[default]
    Off,
    On,
    Held(Arc<Task>),
}

thread_local! {
    static HUSH: Cell<Hush> = const { Cell::new(Hush::Off) };
}

/// While it lasts, the next wake-up that comes from this thread is held back; then it
/// is passed on.
#[derive(Debug)]
pub(super) struct Hushed(());

impl Hushed {
    pub(super) fn begin() -> Self {
        let before = HUSH.replace(Hush::On);
        debug_assert!(matches!(before, Hush::Off), "one at a time");
        Self(())
    }

    /// Nobody waits for it: it is not passed on.
    pub(super) fn forget(self) {
        drop(HUSH.take());
    }
}

impl Drop for Hushed {
    fn drop(&mut self) {
        if let Hush::Held(task) = HUSH.take() {
            task.0.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::{Context, Wake, Waker};

    use http::{Request, Response};
    use http_body::Body as _;
    use hyper::body::Incoming;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::{Hushed, waker};
    use crate::http::server::body::Body;
    use crate::http::server::drain_body::Lingering;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn task() -> (Waker, impl Fn() -> usize) {
        let count = Arc::new(Count::default());
        let hushable = waker(&Arc::clone(&count).into());
        (hushable, move || count.0.swap(0, Relaxed))
    }

    #[test]
    fn one_that_is_for_nobody_is_forgotten() {
        let (task, woken) = task();
        let hushed = Hushed::begin();
        task.wake_by_ref();
        hushed.forget();
        assert_eq!(woken(), 0);
        task.wake_by_ref();
        assert_eq!(woken(), 1);
    }

    #[test]
    fn one_that_is_for_somebody_is_late() {
        let (task, woken) = task();
        let hushed = Hushed::begin();
        task.wake_by_ref();
        assert_eq!(woken(), 0);
        drop(hushed);
        assert_eq!(woken(), 1);
        task.wake();
        assert_eq!(woken(), 1);
    }

    #[test]
    fn no_other_is_lost() {
        let (task, woken) = task();
        let hushed = Hushed::begin();
        let foreign = task.clone();
        std::thread::spawn(|| foreign.wake()).join().unwrap();
        assert_eq!(woken(), 1, "of another thread");
        task.wake_by_ref();
        task.wake_by_ref();
        assert_eq!(woken(), 1, "a second one");
        hushed.forget();
        assert_eq!(woken(), 0);
    }

    /// What hyper really does: a request that is all there wakes nobody, and one that
    /// is not is read on.
    #[tokio::test]
    async fn a_request_is_served_in_one_go() {
        let (mut client, server) = tokio::io::duplex(4096);
        let service = service_fn(|request: Request<Incoming>| async {
            let (head, body) = request.into_parts();
            let mut body = pin!(Lingering::new(&head, body));
            while !body.is_end_stream() {
                poll_fn(|cx| body.as_mut().poll_frame(cx)).await;
            }
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let mut served =
            pin!(http1::Builder::new().serve_connection(TokioIo::new(server), service));
        let (task, woken) = task();
        let cx = &mut Context::from_waker(&task);
        let mut answer = [0; 256];

        for whole in [true, false] {
            client
                .write_all(b"POST / HTTP/1.1\r\ncontent-length: 4\r\n\r\n[1")
                .await
                .unwrap();
            if !whole {
                woken();
                assert!(served.as_mut().poll(cx).is_pending());
                assert!(woken() > 0, "nothing says that there is more to read");
                assert!(served.as_mut().poll(cx).is_pending());
            }
            client.write_all(b"2]").await.unwrap();
            woken();
            assert!(served.as_mut().poll(cx).is_pending());
            // Who waits for a body is woken in between.
            assert_eq!(woken(), usize::from(!whole), "woken for nothing");
            let count = client.read(&mut answer).await.unwrap();
            let (answer, _) = answer.split_at(count);
            assert!(answer.starts_with(b"HTTP/1.1 200 OK"), "{answer:?}");
        }
    }
}
