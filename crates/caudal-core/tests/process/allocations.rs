//! Work that allocates nothing, counted on the thread of the test.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test may"
)]

use std::time::{Duration, Instant};

use allocation_counter::measure;
use caudal_core::{
    Decoder, FrameReader, Framing, IdFormat, Message, Pending, Policy, decode, encode,
};

/// Counts the allocations of a second run of `work`.
fn allocations(mut work: impl FnMut()) -> u64 {
    work();
    measure(work).count_total
}

/// Proves: A68, A69, A71, A95
#[test]
fn ordinary_messages_take_no_memory() {
    let policy = Policy::default();
    let ordinary: [&[u8]; 7] = [
        br#"{"jsonrpc":"2.0","id":1,"method":"add","params":[1,2]}"#,
        br#"{"jsonrpc":"2.0","id":"a","method":"add","params":{"a":[{"b":1.5e3}],"c":"x\ny"}}"#,
        br#"{"jsonrpc":"2.0","method":"tick"}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{"a":[1,2,3]}}"#,
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no","data":[1]}}"#,
        br#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}"#,
        br#" {"extra":[[[1]]],"params":[],"method":"m","jsonrpc":"2.0","id":1e2} "#,
    ];
    for bytes in ordinary {
        let count = allocations(|| assert!(!matches!(decode(bytes, &policy), Message::Invalid(_))));
        assert_eq!(count, 0, "{}", String::from_utf8_lossy(bytes));
    }

    // From bytes to bytes, with typed params read in the same pass.
    let mut out = Vec::with_capacity(1024);
    let count = allocations(|| {
        out.clear();
        let mut decoder = Decoder::new(ordinary[0], &policy);
        assert_eq!(decoder.method_before_params().as_deref(), Some("add"));
        let (a, b): (i64, i64) = decoder.read_params().unwrap().unwrap();
        let Message::Request(request) = decoder.finish() else {
            panic!("a request")
        };
        encode::reply(&mut out, request.id, &(a + b)).unwrap();
    });
    assert_eq!(count, 0);
    assert_eq!(out, br#"{"jsonrpc":"2.0","id":1,"result":3}"#);

    // A batch takes one allocation, whatever its length.
    let batch = format!(
        "[{}]",
        vec![r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#; 100].join(",")
    );
    assert_eq!(allocations(|| drop(decode(batch.as_bytes(), &policy))), 1);

    // Reading frames reuses one buffer.
    for framing in [Framing::Line, Framing::Header, Framing::Concatenated] {
        let mut stream = Vec::new();
        for bytes in ordinary {
            framing
                .write(&mut stream, |out| {
                    out.extend_from_slice(bytes.trim_ascii());
                    Ok::<(), ()>(())
                })
                .unwrap();
        }
        let mut reader = FrameReader::new(framing, policy.max_message);
        let mut read = 0;
        let count = allocations(|| {
            for _ in 0..100 {
                reader.push(&stream);
                while let Some(frame) = reader.next_frame().unwrap() {
                    read += frame.len();
                }
            }
        });
        assert_eq!((count, read > 0), (0, true), "{framing:?}");
    }

    // A few outgoing calls at a time reuse the memory of those before.
    let start = Instant::now();
    let mut pending = Pending::new(64, IdFormat::Integer);
    let count = allocations(|| {
        for _ in 0..100 {
            let ids: [_; 8] = std::array::from_fn(|n| {
                let deadline = start + Duration::from_secs(n as u64 * 100);
                pending.insert(n, Some(deadline)).unwrap()
            });
            assert!(ids.iter().all(|id| pending.cancel(*id).is_some()));
        }
    });
    assert_eq!(count, 0);

    // An oversized value takes no memory while it is skipped.
    let mut reader = FrameReader::new(Framing::Concatenated, 1_024);
    let piece = vec![b'['; 64 * 1_024];
    let count = allocations(|| {
        for _ in 0..100 {
            reader.push(&piece);
            while reader.next_frame().is_err() {}
        }
    });
    assert_eq!(count, 0);

    // A value bomb is passed through in the memory it came in.
    let mut roomy = policy;
    roomy.max_message = 5 << 20;
    let zeros = vec!["0"; 2 << 20].join(",");
    let bomb = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":[{zeros}]}}"#);
    assert!(bomb.len() >= 4 << 20);
    let mut out = Vec::new();
    let taken = measure(|| {
        let Message::Request(request) = decode(bomb.as_bytes(), &roomy) else {
            panic!("a request")
        };
        encode::reply_raw(&mut out, request.id, request.params.unwrap());
    });
    assert!(out.len() > 4 << 20);
    // The output is all there is, and it is no larger than it must be.
    assert_eq!(taken.count_total, 1);
    assert!(taken.bytes_total <= bomb.len() as u64 + 1_024, "{taken:?}");
}
