//! Outgoing calls: every one settles once, on time, and for the right reason.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::time::{Duration, Instant};

use caudal_core::{
    CallError, CallId, CloseReason, FrameError, IdFormat, Message, OldResponses, Pending, Policy,
    decode,
};
use proptest::prelude::*;

const FORMATS: [IdFormat; 2] = [IdFormat::Integer, IdFormat::Uuid];

/// Gives the reply with this id text to the table.
fn reply<W>(pending: &mut Pending<W>, id: &str) -> Option<W> {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#);
    match decode(text.as_bytes(), &Policy::default()) {
        Message::Response(response) => pending.take(response.id),
        other => panic!("{other:?}"),
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Proves: A26, A29
#[test]
fn a_reply_finds_its_own_caller() {
    for format in FORMATS {
        let mut pending = Pending::new(100, format);
        let ids: Vec<_> = (0..100).map(|n| pending.insert(n, None).unwrap()).collect();
        for n in [50, 0, 99, 7] {
            assert_eq!(reply(&mut pending, &ids[n].to_string()), Some(n));
        }
        assert_eq!(pending.len(), 96);
    }
}

/// Proves: A26, A40
#[test]
fn a_late_duplicate_or_foreign_reply_finds_no_one() {
    for format in FORMATS {
        let start = Instant::now();
        let mut pending = Pending::new(2, format);
        let first = pending.insert("first", Some(start)).unwrap();
        assert_eq!(pending.expire(start).count(), 1);
        let second = pending.insert("second", None).unwrap();
        assert_ne!(first, second);
        assert_eq!(reply(&mut pending, &first.to_string()), None, "late");
        for foreign in [
            "null",
            "0",
            "-1",
            "3",
            "999",
            "1.5",
            "1e300",
            "\"1\"",
            "\"\"",
            "18446744073709551617",
        ] {
            assert_eq!(reply(&mut pending, foreign), None, "{foreign}");
        }
        let uuid = "\"00000000-0000-4000-8000-000000000000\"";
        assert_eq!(reply(&mut pending, uuid), None);
        assert_eq!(reply(&mut pending, &second.to_string()), Some("second"));
        assert_eq!(reply(&mut pending, &second.to_string()), None, "duplicate");
        assert_eq!(pending.cancel(second), None);
        assert!(!pending.set_deadline(second, None));
    }
}

/// Proves: A26, C53
#[test]
fn ids_are_compared_as_json_values() {
    let mut pending = Pending::new(8, IdFormat::Integer);
    for spelled in ["1.0", "2.000"] {
        pending.insert(spelled, None).unwrap();
        // A string is never the number it spells.
        assert_eq!(reply(&mut pending, &format!("\"{spelled}\"")), None);
    }
    for close in [
        "1.00000000000000000000001",
        "0.99999999999999999999999",
        "1e0",
    ] {
        assert_eq!(reply(&mut pending, close), None, "{close}");
    }
    for spelled in ["1.0", "2.000"] {
        assert_eq!(reply(&mut pending, spelled), Some(spelled));
    }
    let mut pending = Pending::new(8, IdFormat::Uuid);
    let id = pending.insert("call", None).unwrap().to_string();
    let escaped = id
        .replacen('-', r"\u002d", 1)
        .to_uppercase()
        .replace(r"\U002D", r"\u002d");
    assert_eq!(reply(&mut pending, &escaped), Some("call"));
}

#[test]
fn an_id_that_comes_back_as_a_string_is_accepted_by_choice_only() {
    let table = |format, old| Pending::new(8, format).with_old_responses(old);
    let mut strict = table(IdFormat::Integer, OldResponses::Reject);
    strict.insert("call", None).unwrap();
    assert_eq!(reply(&mut strict, "\"1\""), None);
    assert_eq!(reply(&mut strict, "1"), Some("call"));

    let mut old = table(IdFormat::Integer, OldResponses::Accept);
    for call in ["first", "second", "third"] {
        old.insert(call, None).unwrap();
    }
    for foreign in [
        "\"\"",
        "\"x\"",
        "\"0\"",
        "\"-1\"",
        "\"+1\"",
        "\"01\"",
        "\" 1\"",
        "\"1 \"",
        "\"1.0\"",
        "\"1e0\"",
        "\"4\"",
        "\"18446744073709551617\"",
        r#""\"1\"""#,
        "null",
    ] {
        assert_eq!(reply(&mut old, foreign), None, "{foreign}");
    }
    assert_eq!(reply(&mut old, "\"1\""), Some("first"));
    assert_eq!(reply(&mut old, "\"1\""), None, "an answer counts once");
    assert_eq!(reply(&mut old, "1"), None);
    assert_eq!(reply(&mut old, r#""\u0032""#), Some("second"));
    assert_eq!(reply(&mut old, "3.0"), Some("third"));

    // A UUID is a string in any case, and no number stands for one.
    let mut old = table(IdFormat::Uuid, OldResponses::Accept);
    let id = old.insert("call", None).unwrap().to_string();
    for foreign in ["1", "\"1\"", "\"0\""] {
        assert_eq!(reply(&mut old, foreign), None, "{foreign}");
    }
    assert_eq!(reply(&mut old, &id), Some("call"));
}

#[test]
fn integers_count_up_from_one() {
    let mut pending = Pending::new(1_024, IdFormat::Integer);
    for expected in 1..=1_000_i64 {
        let id = pending.insert(expected, None).unwrap();
        assert_eq!(id.to_request_id().as_i64(), Some(expected));
        // Some are answered at once, and their numbers are not used again.
        if expected % 3 == 0 {
            assert_eq!(reply(&mut pending, &id.to_string()), Some(expected));
        }
    }
    for number in (1..=1_000).rev().filter(|number| number % 3 > 0) {
        assert_eq!(reply(&mut pending, &number.to_string()), Some(number));
    }
    assert!(pending.is_empty());
}

/// Proves: A24, A40, A41, A43
#[test]
fn ids_are_unique_and_look_as_chosen() {
    let mut seen = HashSet::new();
    let mut pending = Pending::new(3, IdFormat::Integer);
    for _ in 0..1_000 {
        let ids: Vec<_> = (0..3).map(|_| pending.insert((), None).unwrap()).collect();
        for id in ids {
            assert!(seen.insert(id.to_string()), "{id} was used before");
            let number = id.to_request_id().as_i64().unwrap();
            assert!((1..1 << 53).contains(&number));
            pending.cancel(id);
        }
    }
    let mut pending = Pending::new(3, IdFormat::Uuid);
    for _ in 0..1_000 {
        let id = pending.insert((), None).unwrap();
        let text = id.to_request_id().as_str().unwrap().to_owned();
        assert_eq!(id.to_string(), format!("\"{text}\""));
        let parts: Vec<_> = text.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(&text[14..15], "4", "version 4");
        assert!("89ab".contains(&text[19..20]), "the variant of RFC 9562");
        assert!(seen.insert(text));
        pending.cancel(id);
    }
    // Two connections never share one.
    let mut other = Pending::new(3, IdFormat::Uuid);
    assert!(seen.insert(other.insert((), None).unwrap().to_string()));
}

/// Proves: A42
#[test]
fn tables_of_many_threads_never_share_a_uuid() {
    let ids: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut pending = Pending::new(1_000, IdFormat::Uuid);
                    let ids = (0..1_000).map(|_| pending.insert((), None).unwrap().to_string());
                    ids.collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4_000);
}

/// Proves: A73
#[test]
fn the_table_is_bounded_exactly() {
    for format in FORMATS {
        let mut pending = Pending::new(1_024, format);
        let ids: Vec<_> = (0..1_024)
            .map(|n| pending.insert(n, None).unwrap())
            .collect();
        let error = pending.insert(0, None).unwrap_err();
        assert!(matches!(error, CallError::TooManyPending { limit: 1_024 }));
        assert_eq!(error.to_string(), "1024 calls already wait for an answer");
        assert_eq!(pending.cancel(ids[5]), Some(5));
        pending.insert(1, None).unwrap();
        assert!(pending.insert(1, None).is_err());
    }
    let mut none = Pending::new(0, IdFormat::Integer);
    assert!(matches!(
        none.insert((), None),
        Err(CallError::TooManyPending { limit: 0 })
    ));
    let mut huge = Pending::new(usize::MAX, IdFormat::Integer);
    huge.insert((), None).unwrap();
}

/// Proves: A25, A37, A72
#[test]
fn a_call_expires_at_its_deadline_and_not_before() {
    for format in FORMATS {
        let start = Instant::now();
        let mut pending = Pending::new(64, format);
        let nanos = [
            0,
            1,
            999_999,
            1_000_000,
            1_000_001,
            63_999_999,
            64_000_000,
            30_000_000_000,
        ];
        for n in nanos {
            pending
                .insert(n, Some(start + Duration::from_nanos(n)))
                .unwrap();
        }
        for n in nanos {
            let deadline = start + Duration::from_nanos(n);
            if let Some(before) = deadline.checked_sub(Duration::from_nanos(1)) {
                assert_eq!(pending.expire(before).count(), 0, "{n} is not due");
            }
            let due: Vec<_> = pending.expire(deadline).map(|(_, waiter)| waiter).collect();
            assert_eq!(due, [n]);
        }
        assert!(pending.is_empty());
        assert_eq!(pending.next_deadline(), None);
    }
}

/// Proves: A37
#[test]
fn a_caller_that_wakes_at_the_next_deadline_expires_every_call_on_time() {
    let start = Instant::now();
    let mut pending = Pending::new(1_000, IdFormat::Integer);
    let mut deadlines = BTreeMap::new();
    for n in 0..1_000_u64 {
        // From microseconds to years, and not in the order of the calls.
        let after = Duration::from_micros((n * 7 % 1_000).pow(5) * 77 + n / 2);
        let id = pending.insert(n, Some(start + after)).unwrap();
        deadlines.insert(n, (start + after, id));
    }
    let mut now = start;
    while let Some(deadline) = pending.next_deadline() {
        now = now.max(deadline);
        let due: Vec<_> = pending.expire(now).collect();
        assert!(!due.is_empty(), "woken for nothing");
        for (id, n) in due {
            assert_eq!(deadlines.remove(&n), Some((now, id)));
        }
    }
    assert!(deadlines.is_empty());
}

#[test]
fn deadlines_can_be_moved_and_lie_anywhere() {
    let start = Instant::now();
    let mut pending = Pending::new(8, IdFormat::Integer);
    let past = pending.insert("past", Some(start)).unwrap();
    let far = start + Duration::from_secs(60 * 60 * 24 * 365 * 40);
    let moved = pending.insert("moved", Some(start + ms(20))).unwrap();
    pending.insert("far", Some(far)).unwrap();
    assert!(pending.set_deadline(moved, Some(start + ms(5_000))));
    assert_eq!(
        pending.expire(start + ms(10)).collect::<Vec<_>>(),
        [(past, "past")]
    );
    assert_eq!(pending.expire(start + ms(4_999)).count(), 0);
    assert_eq!(
        pending.expire(start + ms(5_000)).collect::<Vec<_>>(),
        [(moved, "moved")]
    );
    // An earlier time than before expires nothing.
    assert_eq!(pending.expire(start).count(), 0);
    assert_eq!(pending.expire(far - ms(1)).count(), 0);
    assert_eq!(
        pending.expire(far).map(|(_, w)| w).collect::<Vec<_>>(),
        ["far"]
    );
}

#[test]
fn an_expired_call_that_is_not_taken_from_the_iterator_stays_due() {
    let start = Instant::now();
    let mut pending = Pending::new(8, IdFormat::Integer);
    let ids: Vec<_> = (0..3)
        .map(|n| pending.insert(n, Some(start)).unwrap())
        .collect();
    let (_, first) = pending.expire(start).next().unwrap();
    assert_eq!(pending.len(), 2);
    assert_eq!(pending.next_deadline(), Some(start));
    // A reply still counts while the timeout has not been reported.
    let other = (0..3).find(|n| *n != first).unwrap();
    assert_eq!(pending.cancel(ids[other]), Some(other));
    assert_eq!(pending.expire(start).count(), 1);
}

/// Proves: A53
#[test]
fn closing_fails_every_call_with_the_reason() {
    let mut pending = Pending::new(8, IdFormat::Integer);
    let ids: Vec<_> = (0..3).map(|n| pending.insert(n, None).unwrap()).collect();
    pending.cancel(ids[1]);
    let reason = CloseReason::failed(FrameError::TwoLengths);
    let failed: Vec<_> = pending.close(reason).collect();
    assert_eq!(failed.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [0, 2]);
    for (_, error) in failed {
        assert!(error.is_fatal());
        assert_eq!(error.to_string(), "the connection is closed");
        let reason = error.source().unwrap();
        assert_eq!(reason.to_string(), "the connection failed");
        assert_eq!(
            reason.source().unwrap().to_string(),
            "`Content-Length` stands twice"
        );
    }
    assert!(pending.is_empty());
    assert_eq!(reply(&mut pending, &ids[0].to_string()), None);
    let late = pending.insert(9, None).unwrap_err();
    assert!(matches!(late, CallError::AlreadyClosed(_)));
    assert!(late.is_fatal() && !late.may_have_run());
    assert_eq!(pending.expire(Instant::now() + ms(1_000_000)).count(), 0);
}

/// Simplest implementation of the table, to compare with.
#[derive(Clone, Default)]
struct Model {
    waiting: HashMap<usize, (CallIdText, Option<u64>)>,
    closed: bool,
}
type CallIdText = String;

/// One thing that can happen to the table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Insert(Option<u64>),
    Reply(usize),
    Cancel(usize),
    Expire(u64),
    Move(usize, Option<u64>),
    Close,
}

/// Plays the events on a table and on the model, and compares every step.
fn play(format: IdFormat, limit: usize, events: &[Event]) {
    let start = Instant::now();
    let mut pending = Pending::new(limit, format);
    let mut model = Model::default();
    let mut calls: Vec<CallId> = Vec::new();
    let mut settled = HashSet::new();
    let mut now = 0;
    let mut settle =
        |call: usize| assert!(settled.insert(call), "{call} settled twice: {events:?}");
    for event in events {
        match *event {
            Event::Insert(deadline) => {
                let call = calls.len();
                let inserted = pending.insert(call, deadline.map(|d| start + ms(d)));
                if model.closed {
                    assert!(matches!(inserted, Err(CallError::AlreadyClosed(_))));
                } else if model.waiting.len() == limit {
                    assert!(matches!(inserted, Err(CallError::TooManyPending { .. })));
                } else {
                    let id = inserted.unwrap();
                    assert!(!calls.contains(&id), "{id} is used twice");
                    model.waiting.insert(call, (id.to_string(), deadline));
                    calls.push(id);
                }
            }
            Event::Reply(call) | Event::Cancel(call) => {
                let Some(id) = calls.get(call) else { continue };
                let found = match event {
                    Event::Reply(_) => reply(&mut pending, &id.to_string()),
                    _ => pending.cancel(*id),
                };
                let expected = model.waiting.remove(&call).map(|_| call);
                assert_eq!(found, expected, "{events:?}");
                found.into_iter().for_each(&mut settle);
            }
            Event::Expire(time) => {
                now = now.max(time);
                let mut due: Vec<_> = pending.expire(start + ms(now)).collect();
                due.sort_by_key(|(_, call)| *call);
                let is_due = |d: &Option<u64>| d.is_some_and(|d| d <= now);
                let mut expected: Vec<_> = model
                    .waiting
                    .extract_if(|_, (_, deadline)| is_due(deadline))
                    .map(|(call, _)| (calls[call], call))
                    .collect();
                expected.sort_by_key(|(_, call)| *call);
                assert_eq!(due, expected, "{events:?}");
                due.into_iter().for_each(|(_, call)| settle(call));
            }
            Event::Move(call, deadline) => {
                let Some(id) = calls.get(call) else { continue };
                let moved = pending.set_deadline(*id, deadline.map(|d| start + ms(d)));
                let waiting = model.waiting.get_mut(&call);
                assert_eq!(moved, waiting.is_some());
                if let Some(entry) = waiting {
                    entry.1 = deadline;
                }
            }
            Event::Close => {
                let mut failed: Vec<_> = pending
                    .close(CloseReason::local())
                    .map(|(c, _)| c)
                    .collect();
                failed.sort_unstable();
                let mut expected: Vec<_> = model.waiting.drain().map(|(call, _)| call).collect();
                expected.sort_unstable();
                assert_eq!(failed, expected);
                model.closed = true;
                failed.into_iter().for_each(&mut settle);
            }
        }
        assert_eq!(pending.len(), model.waiting.len());
        let earliest = model.waiting.values().filter_map(|(_, d)| *d).min();
        assert_eq!(pending.next_deadline(), earliest.map(|d| start + ms(d)));
    }
    for (call, _) in pending.close(CloseReason::local()) {
        settle(call);
    }
    assert!(pending.is_empty());
    assert_eq!(settled.len(), calls.len(), "every call settles: {events:?}");
}

/// Every sequence of six events on a table of two.
///
/// Proves: A53
#[test]
fn every_interleaving_settles_every_call_once() {
    let alphabet = [
        Event::Insert(None),
        Event::Insert(Some(1)),
        Event::Insert(Some(70)),
        Event::Reply(0),
        Event::Reply(1),
        Event::Cancel(0),
        Event::Expire(1),
        Event::Expire(70),
        Event::Move(0, Some(2)),
        Event::Close,
    ];
    let count = alphabet.len();
    for length in 1..=6_u32 {
        // The first event that does anything is an insert.
        for first in 0..3 {
            for mut number in 0..count.pow(length - 1) {
                let mut events = vec![alphabet[first]];
                for _ in 1..length {
                    events.push(alphabet[number % count]);
                    number /= count;
                }
                play(IdFormat::Integer, 2, &events);
            }
        }
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let time = || prop_oneof![0..200_u64, 0..300_000_u64, 0..(1_u64 << 37)];
    prop_oneof![
        6 => prop::option::of(time()).prop_map(Event::Insert),
        3 => (0..40_usize).prop_map(Event::Reply),
        1 => (0..40_usize).prop_map(Event::Cancel),
        3 => time().prop_map(Event::Expire),
        2 => (0..40_usize, prop::option::of(time())).prop_map(|(call, d)| Event::Move(call, d)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Proves: A29
    #[test]
    fn long_histories_settle_every_call_once(events in prop::collection::vec(any_event(), 0..120)) {
        for format in FORMATS {
            play(format, 16, &events);
        }
    }
}
