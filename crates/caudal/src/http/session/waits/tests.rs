//! Which POST gets what, and at what cost.

use super::*;

const UNBOUNDED: Bounds = Bounds {
    output: usize::MAX,
    all: usize::MAX,
    each: usize::MAX,
    share: usize::MAX,
    replay: 0,
};

fn waits() -> Waits {
    Waits::new(UNBOUNDED, &Arc::default())
}

fn asked(text: &str) -> Asked {
    Asked::of(&decode(text.as_bytes(), &Policy::default())).unwrap()
}

/// Who gets an answer.
fn find(waits: &Waits, text: &str) -> Option<u64> {
    let message = read_own(text.as_bytes());
    let found = waits.find(&Subject::answer(&message).unwrap(), text.len());
    found.map(|taker| taker.key)
}

fn answer(waits: &Waits, text: &str) -> Option<u64> {
    let message = read_own(text.as_bytes());
    let taker = waits.find(&Subject::answer(&message).unwrap(), text.len())?;
    assert!(waits.give(taker, text.as_bytes(), 0));
    Some(taker.key)
}

fn call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#)
}

fn result(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#)
}

fn batch(one: impl Fn(&str) -> String, ids: std::ops::Range<usize>) -> String {
    let all: Vec<_> = ids.map(|id| one(&id.to_string())).collect();
    format!("[{}]", all.join(","))
}

#[test]
fn an_answer_is_known_by_its_ids() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}"#;
    let all = [
        (call("1"), result("1")),
        (call("null"), result("null")),
        (
            format!("[{},7]", call("1")),
            format!("[{},{error}]", result("1")),
        ),
        ("[7]".to_owned(), format!("[{error}]")),
    ];
    let waits = waits();
    for (call, _) in &all {
        waits.begin(asked(call)).unwrap();
    }
    for ((_, answer), key) in all.iter().zip(1..) {
        assert_eq!(find(&waits, answer), Some(key), "{answer}");
    }
    // Without its own, an answer finds nobody.
    for ((_, answer), key) in all.iter().zip(1..) {
        assert!(waits.end(key).is_some());
        assert_eq!(find(&waits, answer), None, "{answer}");
    }
}

#[test]
fn of_two_with_the_same_id_the_first_is_answered_first() {
    let waits = waits();
    for text in [
        &*call("1"),
        &call("1"),
        &batch(call, 1..3),
        &batch(call, 2..4),
    ] {
        waits.begin(asked(text)).unwrap();
    }
    assert_eq!(answer(&waits, &batch(result, 3..4)), Some(4));
    assert_eq!(answer(&waits, &batch(result, 2..4)), Some(3));
    assert_eq!(answer(&waits, &batch(result, 1..4)), None);
    for key in [Some(1), Some(2), None] {
        assert_eq!(answer(&waits, &result("1")), key);
    }
}

#[test]
fn calls_and_notifications_of_ours_answer_nothing() {
    for text in [
        call("1"),
        r#"{"jsonrpc":"2.0","method":"a"}"#.to_owned(),
        batch(call, 1..2),
    ] {
        let message = decode(text.as_bytes(), &Policy::default());
        assert_eq!(Subject::answer(&message), None, "{text}");
    }
}

/// The other side chooses how much waits, and with which ids.
#[test]
fn an_answer_costs_no_more_where_much_waits() {
    let looks = |open: usize, text: &str| {
        let waits = waits();
        for first in (1..=open).map(|place| place * 1000) {
            waits
                .begin(asked(&batch(call, first..first + 1000)))
                .unwrap();
        }
        find(&waits, text);
        waits.give_up("7");
        waits.find(&Subject::Report("7".to_owned()), 1);
        waits.looks()
    };
    for text in [
        &result("5"),
        &batch(result, 0..1000),
        &batch(result, 1500..2500),
    ] {
        let count = looks(0, text);
        assert!(count <= 1002, "{count}");
        assert_eq!(looks(200, text), count);
    }
}

#[test]
fn who_is_answered_or_gone_is_not_found_and_leaves_nothing_behind() {
    let waits = waits();
    for _ in 0..3 {
        waits.begin(asked(&batch(call, 0..1000)).with_tokens(&["7".to_owned()]));
    }
    let text = batch(result, 0..1000);
    assert_eq!(answer(&waits, &text), Some(1));
    assert!(waits.end(2).is_some());
    assert_eq!(find(&waits, &text), Some(3));
    waits.close();
    assert_eq!(find(&waits, &text), None);
    let state = waits.lock();
    assert_eq!((state.size, waits.all.load(Relaxed)), (0, 0));
    assert!(state.index.is_empty());
}

#[test]
fn a_wait_is_given_up_with_the_last_of_its_ids_however_it_is_spelled() {
    let waits = waits();
    let both = format!("[{},{}]", call("1"), call("2"));
    let same = format!("[{},{}]", call("1"), call("1.0"));
    let nameless = format!("[{},7]", call("1"));
    for text in [&both, &call("1"), &same, &call(r#""a""#), &nameless] {
        waits.begin(asked(text)).unwrap();
    }
    let open = || {
        let state = waits.lock();
        let open =
            |(key, one): (&u64, &Waiting)| matches!(one.outcome, Outcome::Open(_)).then_some(*key);
        state.waits.iter().filter_map(open).collect::<Vec<_>>()
    };
    let error = r#"[{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}]"#;
    assert_eq!(find(&waits, error), None);
    for (id, left) in [
        (r#""1""#, &[1, 2, 3, 4, 5][..]),
        ("1.0", &[1, 4, 5]),
        ("1", &[1, 4, 5]),
        (r#""\u0061""#, &[1, 5]),
    ] {
        waits.give_up(id);
        assert_eq!(open(), left, "{id}");
    }
    // What is left of a batch finds it,
    assert_eq!(find(&waits, &batch(result, 2..3)), Some(1));
    assert_eq!(find(&waits, error), Some(5));
    // and what was given up too late.
    assert_eq!(find(&waits, &batch(result, 1..3)), Some(1));
    waits.give_up("2");
    assert_eq!(open(), [5]);
    waits.end(5);
    assert!(waits.lock().index.is_empty());
}

#[test]
fn what_waits_is_bounded_for_one_and_for_all() {
    let all = Arc::default();
    let size = asked(&batch(call, 1000..2000)).size();
    let bounds = Bounds {
        output: size * 3,
        all: size * 4,
        each: size * 4,
        share: 2 * index::EACH,
        replay: 0,
    };
    let (one, other) = (Waits::new(bounds, &all), Waits::new(bounds, &all));
    let begin = |waits: &Waits| waits.begin(asked(&batch(call, 1000..2000)));
    assert!(begin(&one).is_some() && begin(&one).is_some() && begin(&one).is_some());
    assert_eq!(begin(&one), None);
    assert_eq!(one.begin(asked(&call("1"))), None);
    assert!(begin(&other).is_some());
    assert_eq!(begin(&other), None, "all have too much");
    // Nothing is too large alone, and a little has room in any case.
    let third = Waits::new(bounds, &all);
    assert!(begin(&third).is_some());
    let fourth = Waits::new(bounds, &all);
    assert!(fourth.begin(asked(&call("1"))).is_some());
    assert!(fourth.begin(asked(&call("2"))).is_none());
    assert!(answer(&one, &batch(result, 1000..2000)).is_some());
    assert!(one.end(2).is_some() && other.end(1).is_some());
    assert!(begin(&one).is_some());
}

#[test]
fn reports_have_bounds() {
    let waits = waits();
    waits.begin(asked(&call("1")).with_tokens(&["7".to_owned()]));
    let report = |token: &str, text: &[u8]| {
        let subject = Subject::Report(token.to_owned());
        let taker = waits.find(&subject, text.len());
        taker.is_some_and(|taker| waits.give(taker, text, 0))
    };
    let text = vec![b' '; ROOM - 1];
    assert!(!report("\"7\"", b"{}"));
    assert!(report("7", &text));
    assert!(report("7.0", b"1"));
    assert!(!report("7", b"1"));
    waits.give_up("1");
    let mut state = waits.lock();
    state.waits.get_mut(&1).unwrap().reported = 0;
    drop(state);
    assert!(!report("7", b"1"));
}
