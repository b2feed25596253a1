//! Order, bounds and readers of an outbox.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

const BOUNDS: Bounds = Bounds {
    output: 10,
    all: 1000,
    each: 1000,
    share: 0,
    replay: 6,
};

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    fn taken(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn outbox(bounds: Bounds) -> Arc<Outbox> {
    Outbox::new(bounds, &Arc::default(), None)
}

fn push(outbox: &Outbox, text: &str) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    outbox.poll_push(&mut cx, text.as_bytes()).is_ready()
}

fn next(reader: &mut Reader) -> Option<(u64, String)> {
    match reader.poll_next(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some((number, text))) => {
            Some((number, String::from_utf8(text.to_vec()).unwrap()))
        }
        _ => None,
    }
}

fn is_over(reader: &mut Reader) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    matches!(reader.poll_next(&mut cx), Poll::Ready(None))
}

#[test]
fn messages_are_numbered_from_one_and_come_in_order() {
    let outbox = outbox(BOUNDS);
    assert!(push(&outbox, "a") && push(&outbox, "b"));
    let mut reader = outbox.attach(Keep::Replay, None);
    assert_eq!(next(&mut reader), Some((1, "a".to_owned())));
    assert_eq!(next(&mut reader), Some((2, "b".to_owned())));
    assert_eq!(next(&mut reader), None);
    assert!(!is_over(&mut reader));
    assert_eq!(outbox.last(), 2);
}

#[test]
fn whoever_pushes_waits_at_the_limit_and_not_before() {
    let outbox = outbox(BOUNDS);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    assert!(outbox.poll_push(cx, b"123456789").is_ready());
    assert!(outbox.poll_push(cx, b"0").is_ready());
    assert!(outbox.poll_push(cx, b"x").is_pending());
    assert_eq!(woken.taken(), 0);
    let mut reader = outbox.attach(Keep::Replay, None);
    assert!(next(&mut reader).is_some());
    assert_eq!(woken.taken(), 1);
    assert!(outbox.poll_push(cx, b"x").is_ready());
}

#[test]
fn one_message_may_pass_the_limit() {
    let outbox = outbox(BOUNDS);
    assert!(push(&outbox, "much longer than ten bytes"));
    assert!(!push(&outbox, "x"));
}

#[test]
fn what_is_not_acknowledged_counts_and_is_never_dropped() {
    let outbox = outbox(BOUNDS);
    let mut reader = outbox.attach(Keep::Acknowledged, None);
    assert!(push(&outbox, "12345") && push(&outbox, "67890"));
    assert!(next(&mut reader).is_some() && next(&mut reader).is_some());
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    assert!(outbox.poll_push(cx, b"x").is_pending());
    // Nothing has changed, so nobody is woken to find that out.
    assert_eq!(woken.taken(), 0);
    assert_eq!(reader.resume_after(0), 0);
    assert_eq!(next(&mut reader), Some((1, "12345".to_owned())));
    outbox.acknowledge(1);
    assert_eq!(woken.taken(), 1);
    assert!(outbox.poll_push(cx, b"x").is_ready());
    assert_eq!(next(&mut reader), Some((2, "67890".to_owned())));
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let outbox = outbox(BOUNDS);
    let mut reader = outbox.attach(Keep::Acknowledged, None);
    assert!(push(&outbox, "a"));
    outbox.acknowledge(u64::MAX);
    assert_eq!(reader.resume_after(u64::MAX), 0);
    assert_eq!(next(&mut reader), Some((1, "a".to_owned())));
}

#[test]
fn sent_messages_are_kept_within_their_limit_and_a_gap_is_counted() {
    let outbox = outbox(BOUNDS);
    let mut reader = outbox.attach(Keep::Replay, None);
    for text in ["aaa", "bbb", "ccc"] {
        assert!(push(&outbox, text));
        assert!(next(&mut reader).is_some());
    }
    // Six bytes are two messages: the first is gone.
    let mut reader = outbox.attach(Keep::Replay, None);
    assert_eq!(reader.resume_after(1), 0);
    assert_eq!(next(&mut reader), Some((2, "bbb".to_owned())));
    assert_eq!(reader.resume_after(0), 1);
    assert_eq!(next(&mut reader), Some((2, "bbb".to_owned())));
    assert_eq!(next(&mut reader), Some((3, "ccc".to_owned())));
    assert_eq!(next(&mut reader), None);
}

#[test]
fn the_last_that_was_sent_is_kept_however_large_it_is() {
    let outbox = outbox(BOUNDS);
    let mut reader = outbox.attach(Keep::Replay, None);
    let large = "more than six bytes";
    assert!(push(&outbox, "a") && push(&outbox, large));
    assert!(next(&mut reader).is_some() && next(&mut reader).is_some());
    assert_eq!(reader.resume_after(1), 0);
    assert_eq!(next(&mut reader), Some((2, large.to_owned())));
    // The next one takes its place.
    assert!(push(&outbox, "b"));
    assert_eq!(next(&mut reader), Some((3, "b".to_owned())));
    assert_eq!(reader.resume_after(1), 1);
    assert_eq!(next(&mut reader), Some((3, "b".to_owned())));
}

#[test]
fn nothing_is_kept_past_what_all_may_keep_or_where_nothing_is_to_be() {
    for (all, replay) in [(10, 6), (1000, 0)] {
        let outbox = outbox(Bounds {
            all,
            each: all,
            replay,
            ..BOUNDS
        });
        let mut reader = outbox.attach(Keep::Replay, None);
        assert!(push(&outbox, "more than ten bytes"));
        assert!(next(&mut reader).is_some());
        assert_eq!(reader.resume_after(0), 1, "{all} {replay}");
    }
}

#[test]
fn without_its_last_number_a_reader_gets_what_was_never_sent() {
    let outbox = outbox(BOUNDS);
    assert!(push(&outbox, "a") && push(&outbox, "b"));
    let mut one = outbox.attach(Keep::Replay, None);
    assert_eq!(next(&mut one), Some((1, "a".to_owned())));
    drop(one);
    let mut other = outbox.attach(Keep::Replay, None);
    assert_eq!(next(&mut other), Some((2, "b".to_owned())));
}

#[test]
fn a_new_reader_ends_the_old_one_and_is_not_ended_by_its_drop() {
    let outbox = outbox(BOUNDS);
    let mut old = outbox.attach(Keep::Replay, None);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(old.poll_next(&mut Context::from_waker(&waker)).is_pending());
    let mut new = outbox.attach(Keep::Replay, None);
    assert_eq!(woken.taken(), 1);
    assert!(push(&outbox, "a"));
    assert!(is_over(&mut old));
    assert_eq!(old.resume_after(0), 0);
    drop(old);
    assert_eq!(next(&mut new), Some((1, "a".to_owned())));
}

#[test]
fn a_lent_reader_gives_way_and_comes_back() {
    let outbox = outbox(BOUNDS);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    let mut lent = outbox.lend(cx, 1).unwrap();
    assert!(outbox.lend(cx, 2).is_none());
    let main = outbox.attach(Keep::Replay, None);
    assert!(is_over(&mut lent));
    drop(lent);
    assert!(outbox.lend(cx, 1).is_none());
    assert!(outbox.poll_unread(cx, 1).is_pending());
    assert_eq!(woken.taken(), 0);
    drop(main);
    assert_eq!(woken.taken(), 2, "both are told that they may");
    assert!(outbox.lend(cx, 1).is_some());
    drop(outbox.attach(Keep::Acknowledged, None));
    assert!(outbox.lend(cx, 1).is_none(), "those who poll get all there");
    outbox.leave(1);
    assert!(outbox.lock().others.is_empty());
}

#[test]
fn what_went_over_a_lent_reader_is_neither_kept_nor_missed() {
    let outbox = outbox(BOUNDS);
    let cx = &mut Context::from_waker(Waker::noop());
    let mut main = outbox.attach(Keep::Replay, None);
    assert!(push(&outbox, "a"));
    assert!(next(&mut main).is_some());
    drop(main);
    let mut lent = outbox.lend(cx, 1).unwrap();
    assert!(push(&outbox, "b") && push(&outbox, "c"));
    assert_eq!(next(&mut lent), Some((2, "b".to_owned())));
    assert_eq!(next(&mut lent), Some((3, "c".to_owned())));
    drop(lent);
    assert!(push(&outbox, "d"));
    for (last, first) in [(0, (1, "a")), (1, (4, "d")), (2, (4, "d")), (3, (4, "d"))] {
        let mut main = outbox.attach(Keep::Replay, None);
        assert_eq!(main.resume_after(last), 0);
        assert_eq!(next(&mut main), Some((first.0, first.1.to_owned())));
    }
    let mut main = outbox.attach(Keep::Replay, None);
    assert_eq!(main.resume_after(1), 0);
    assert!(outbox.due(cx).is_some());
    assert_eq!(next(&mut main), Some((4, "d".to_owned())));
    assert_eq!(next(&mut main), None);
    assert!(outbox.due(cx).is_none());
    assert_eq!(outbox.lock().messages.len(), 2);
    // Those that went so do not add up.
    drop(main);
    let mut lent = outbox.lend(cx, 1).unwrap();
    for _ in 0..100 {
        assert!(push(&outbox, "x") && next(&mut lent).is_some());
    }
    assert_eq!(outbox.lock().messages.len(), 2);
    assert_eq!(outbox.last(), 104);
    drop(lent);
    let mut main = outbox.attach(Keep::Replay, None);
    assert_eq!(main.resume_after(4), 0);
    assert!(outbox.due(cx).is_none());
}

/// A receiver of webhooks refuses what does not follow on the one before.
#[cfg(feature = "webhook")]
#[test]
fn what_is_owed_begins_after_what_went_over_a_lent_reader() {
    let outbox = outbox(BOUNDS);
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(push(&outbox, "a"));
    assert!(next(&mut outbox.attach(Keep::Replay, None)).is_some());
    assert!(push(&outbox, "b"));
    assert!(next(&mut outbox.lend(cx, 1).unwrap()).is_some());
    assert!(push(&outbox, "c") && push(&outbox, "d"));
    assert!(next(&mut outbox.attach(Keep::Acknowledged, None)).is_some());
    let (mut reader, before) = outbox.attach_owed();
    assert_eq!(before, 2);
    assert_eq!(next(&mut reader), Some((3, "c".to_owned())));
    assert_eq!(next(&mut reader), Some((4, "d".to_owned())));
}

#[test]
fn when_it_is_closed_the_rest_is_read_and_then_it_ends() {
    let outbox = outbox(BOUNDS);
    assert!(push(&outbox, "a"));
    let mut reader = outbox.attach(Keep::Replay, None);
    let cx = &mut Context::from_waker(Waker::noop());
    outbox.close();
    assert!(outbox.due(cx).is_some());
    assert!(push(&outbox, "late"));
    assert!(next(&mut reader).is_some());
    assert!(is_over(&mut reader));
    assert!(outbox.due(cx).is_none());
}

#[test]
fn all_outboxes_share_one_limit_and_give_back_what_they_held() {
    let budget = Arc::<Budget>::default();
    let bounds = Bounds { all: 12, ..BOUNDS };
    let one = Outbox::new(bounds, &budget, None);
    let other = Outbox::new(bounds, &budget, None);
    assert!(push(&one, "123456") && push(&other, "123456"));
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    assert!(other.poll_push(cx, b"x").is_pending());
    assert!(other.poll_push(cx, b"x").is_pending());
    assert_eq!(woken.taken(), 0);
    drop(one);
    assert_eq!(woken.taken(), 1);
    assert!(other.poll_push(cx, b"x").is_ready());
    other.discard();
    drop(other);
    assert_eq!(budget.held().kept, 0);
    let last = Outbox::new(Bounds { all: 1, ..bounds }, &budget, None);
    assert!(push(&last, "fits, since nothing else is there"));
}

#[test]
fn who_reads_has_room_whatever_others_hold() {
    let budget = Arc::<Budget>::default();
    let bounds = Bounds {
        all: 12,
        share: 3,
        ..BOUNDS
    };
    let full = Outbox::new(bounds, &budget, None);
    let other = Outbox::new(bounds, &budget, None);
    assert!(push(&full, "123456") && push(&full, "123456"));
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    assert!(
        other.poll_push(cx, b"1234").is_pending(),
        "too much for a share"
    );
    assert!(other.poll_push(cx, b"12").is_ready());
    assert!(other.poll_push(cx, b"3").is_ready());
    assert!(other.poll_push(cx, b"4").is_pending());
    let mut reader = other.attach(Keep::Replay, None);
    assert_eq!(woken.taken(), 0);
    assert!(next(&mut reader).is_some());
    assert!(woken.taken() > 0);
    assert!(other.poll_push(cx, b"4").is_ready());
}

#[test]
fn what_all_outboxes_keep_is_bounded_too() {
    let budget = Arc::<Budget>::default();
    let bounds = Bounds { all: 8, ..BOUNDS };
    let one = Outbox::new(bounds, &budget, None);
    let other = Outbox::new(bounds, &budget, None);
    for outbox in [&one, &other] {
        assert!(push(outbox, "12345"));
        assert!(next(&mut outbox.attach(Keep::Replay, None)).is_some());
    }
    assert_eq!(one.attach(Keep::Replay, None).resume_after(0), 0);
    assert_eq!(other.attach(Keep::Replay, None).resume_after(0), 1);
    assert_eq!(budget.held().kept, 5);
}

#[test]
fn what_is_on_its_way_counts_for_all_and_stops_nobody_alone() {
    let budget = Arc::<Budget>::default();
    let bounds = Bounds {
        all: 3000,
        ..BOUNDS
    };
    let one = Outbox::new(bounds, &budget, None);
    let other = Outbox::new(bounds, &budget, None);
    let text = Bytes::from(vec![b'x'; 1500]);
    let (first, second) = (
        one.on_its_way(Verb::Post, text.clone()),
        one.on_its_way(Verb::Post, text.clone()),
    );
    assert_eq!(first, text);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    assert!(other.poll_push(cx, b"x").is_pending());
    assert!(one.poll_push(cx, b"x").is_pending());
    let part = second.slice(7..);
    drop(second);
    assert_eq!(woken.taken(), 0, "a part of it is still there");
    drop(part);
    assert!(woken.taken() > 0);
    assert!(other.poll_push(cx, b"x").is_ready());
    // Its own limit is about what nobody has come for.
    assert!(one.poll_push(cx, b"x").is_ready());
    drop((first, one, other));
    assert_eq!(budget.held().owed, 0);
}

#[test]
fn one_opener_takes_its_part_and_no_more() {
    let budget = Arc::<Budget>::default();
    let bounds = Bounds {
        all: 100,
        each: 12,
        share: 2,
        ..BOUNDS
    };
    let of = |name: &str| {
        let opener = Opener::Caller(name.to_owned());
        Outbox::new(bounds, &budget, Some(&opener))
    };
    let (one, other, bob) = (of("ada"), of("ada"), of("bob"));
    assert!(push(&one, "12345678") && push(&other, "12345678"));
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    assert!(one.poll_push(cx, b"x").is_pending());
    assert!(push(&of("ada"), "12"), "a share of its own");
    assert!(push(&bob, "12345678"), "others have their part");
    assert!(next(&mut bob.attach(Keep::Replay, None)).is_some());
    assert_eq!(woken.taken(), 0);
    // What is on its way when a session has ended counts no less.
    let text = other.on_its_way(Verb::Post, Bytes::from(vec![b'x'; 2000]));
    other.discard();
    drop((one, other));
    let late = of("ada");
    assert!(late.poll_push(cx, b"123").is_pending());
    assert_eq!(budget.parts(), (2, 2));
    drop(text);
    assert!(woken.taken() > 0);
    assert!(late.poll_push(cx, b"123").is_ready());
    drop((late, bob));
    assert_eq!((budget.parts(), budget.held()), ((0, 0), Held::default()));
}

#[test]
fn what_one_opener_keeps_is_bounded() {
    let budget = Arc::<Budget>::default();
    let bounds = Bounds { each: 8, ..BOUNDS };
    let keep = |name: &str| {
        let opener = Opener::Caller(name.to_owned());
        let outbox = Outbox::new(bounds, &budget, Some(&opener));
        assert!(push(&outbox, "12345"));
        assert!(next(&mut outbox.attach(Keep::Replay, None)).is_some());
        outbox
    };
    let (one, other, bob) = (keep("ada"), keep("ada"), keep("bob"));
    assert_eq!(one.attach(Keep::Replay, None).resume_after(0), 0);
    assert_eq!(other.attach(Keep::Replay, None).resume_after(0), 1);
    assert_eq!(bob.attach(Keep::Replay, None).resume_after(0), 0);
    assert_eq!(budget.held().kept, 10);
}

#[test]
fn a_session_has_so_much_on_its_way_and_no_more() {
    let bounds = Bounds {
        output: 3000,
        all: 1 << 20,
        each: 1 << 20,
        ..BOUNDS
    };
    let outbox = outbox(bounds);
    let [text, heard] = [1500, 256 << 10].map(|size| Bytes::from(vec![b'x'; size]));
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    let first = outbox.on_its_way(Verb::Post, text.clone());
    assert!(outbox.poll_set_aside(cx, 10).is_ready() && !outbox.has_much_on_its_way(Verb::Post));
    let second = outbox.on_its_way(Verb::Post, text);
    assert!(outbox.poll_set_aside(cx, 10).is_pending() && outbox.has_much_on_its_way(Verb::Post));
    // What goes another way does not wait for that, nor does who comes to listen.
    assert!(outbox.poll_push(cx, b"x").is_ready());
    assert!(!outbox.has_much_on_its_way(Verb::Get));
    drop(second);
    assert!(woken.taken() > 0);
    assert!(outbox.poll_set_aside(cx, 10).is_ready());
    // What is heard counts for both.
    let heard = outbox.on_its_way(Verb::Get, heard);
    for verb in [Verb::Get, Verb::Post] {
        assert!(outbox.has_much_on_its_way(verb));
    }
    drop((first, heard));
}

#[test]
fn what_is_due_is_told_when_it_changes() {
    let outbox = outbox(BOUNDS);
    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    let mut due = || {
        outbox
            .due(cx)
            .map(|due| (due.is_sent, due.is_read, due.listens))
    };
    assert_eq!(due(), None);
    assert!(push(&outbox, "a"));
    assert_eq!(due(), Some((false, false, false)));
    outbox.promise();
    outbox.close();
    woken.taken();
    assert_eq!(due(), Some((false, false, true)));
    for _ in 0..2 {
        let mut reader = outbox.attach(Keep::Acknowledged, None);
        assert_eq!(woken.taken(), 1);
        reader.resume_after(0);
        assert_eq!(due(), Some((false, true, true)));
        assert!(next(&mut reader).is_some());
        assert_eq!(woken.taken(), 1);
        assert_eq!(due(), Some((true, true, true)));
        drop(reader);
        assert_eq!(woken.taken(), 1);
        assert_eq!(due(), Some((true, false, true)));
    }
    outbox.acknowledge(1);
    assert_eq!(woken.taken(), 1);
    assert_eq!(due(), None);
}

/// Nobody would ever acknowledge it.
#[cfg(feature = "webhook")]
#[test]
fn what_was_sent_on_a_stream_is_not_owed_to_a_webhook() {
    let outbox = outbox(BOUNDS);
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(push(&outbox, "a"));
    assert!(next(&mut outbox.attach(Keep::Replay, None)).is_some());
    let (_reader, before) = outbox.attach_owed();
    assert_eq!((before, outbox.due(cx)), (1, None));
}

/// At most so much of the next message.
fn part(reader: &mut Reader, size: usize) -> Option<(u64, String, bool)> {
    let mut cx = Context::from_waker(Waker::noop());
    match reader.poll_part(&mut cx, u64::MAX, size) {
        Poll::Ready(Some(part)) => {
            let text = String::from_utf8(part.text.to_vec()).unwrap();
            Some((part.number, text, part.is_last))
        }
        _ => None,
    }
}

#[test]
fn what_was_given_in_part_was_not_sent() {
    let outbox = outbox(BOUNDS);
    assert!(push(&outbox, "abcdefgh") && push(&outbox, "ij"));
    let mut first = outbox.attach(Keep::Replay, None);
    assert_eq!(part(&mut first, 5), Some((1, "abcde".to_owned(), false)));
    // Nothing is dropped for it, and nobody has room before it is taken.
    assert!(!push(&outbox, "k"));
    let mut second = outbox.attach(Keep::Replay, None);
    assert_eq!(part(&mut first, 5), None);
    assert_eq!(part(&mut second, 7), Some((1, "abcdefg".to_owned(), false)));
    assert_eq!(part(&mut second, 7), Some((1, "h".to_owned(), true)));
    assert!(push(&outbox, "k"));
    assert_eq!(part(&mut second, 2), Some((2, "ij".to_owned(), true)));
    // So is what comes a second time.
    assert_eq!(second.resume_after(1), 0);
    assert_eq!(part(&mut second, 1), Some((2, "i".to_owned(), false)));
    outbox.close();
    assert!(!second.is_last());
    assert_eq!(part(&mut second, 1), Some((2, "j".to_owned(), true)));
    assert_eq!(part(&mut second, 1), Some((3, "k".to_owned(), true)));
    assert_eq!(part(&mut second, 1), None);
    assert!(second.is_last());
}

#[test]
fn a_part_is_followed_by_nothing_else() {
    let outbox = outbox(BOUNDS);
    assert!(push(&outbox, "abc") && push(&outbox, "d"));
    let mut reader = outbox.attach(Keep::Acknowledged, None);
    assert_eq!(part(&mut reader, 1), Some((1, "a".to_owned(), false)));
    outbox.discard();
    assert!(is_over(&mut reader));
    assert!(!reader.is_last(), "no event may be added to what was begun");
}

#[test]
fn a_post_takes_a_message_whole() {
    let outbox = outbox(BOUNDS);
    assert!(push(&outbox, "abc"));
    let mut lent = outbox.lend(&mut Context::from_waker(Waker::noop()), 1);
    let lent = lent.as_mut().unwrap();
    assert_eq!(part(lent, 1), Some((1, "abc".to_owned(), true)));
}
