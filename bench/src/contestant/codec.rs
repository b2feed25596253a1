//! caudal-core alone, with every rule on: a server written by hand around it, which
//! knows its methods by a `match`.

use std::hint::black_box;

use caudal_core::{
    Decoder as Decode, JsonRpcError, Message, Policy, RawJson, Request, decode, encode,
};
use serde::{Deserialize, Serialize};

use super::Contestant;
use crate::order::{self, Order, Receipt};

#[derive(Default)]
pub(super) struct Server {
    policy: Policy,
}

impl Contestant for Server {
    fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut decoder = Decode::new(bytes, &self.policy);
        // Where the method is known in time, its params are read in one pass.
        match decoder.method_before_params().as_deref() {
            Some("add") => return typed(decoder, out, add),
            Some("place") => return typed(decoder, out, place),
            _ => {}
        }
        match decoder.finish() {
            Message::Request(request) => answer(&request, out),
            Message::Batch(entries) => {
                out.push(b'[');
                for entry in &entries {
                    if let Message::Request(request) = entry {
                        answer(request, out);
                        out.push(b',');
                    }
                }
                // The last comma makes room for the bracket.
                out.pop();
                out.push(b']');
            }
            other => panic!("none of the messages is {other:?}"),
        }
    }
}

fn add((a, b): (i64, i64)) -> i64 {
    a + b
}

fn place(order: Order) -> Receipt {
    order::place(&order)
}

/// Reads the params ahead, then makes sure that the message is one.
#[inline]
fn typed<'a, P: Deserialize<'a>, R: Serialize>(
    mut decoder: Decode<'a, '_>,
    out: &mut Vec<u8>,
    handler: impl FnOnce(P) -> R,
) {
    let ahead = decoder.read_params::<P>();
    let Message::Request(request) = decoder.finish() else {
        panic!("every message is a request");
    };
    let params = ahead.unwrap_or_else(|| params(&request).read());
    write(&request, &handler(params.expect("well-typed params")), out);
}

/// Answers a request that has been decoded to its end.
#[inline]
fn answer(request: &Request<'_>, out: &mut Vec<u8>) {
    let params = params(request);
    match &*request.method {
        "add" => write(request, &add(params.read().expect("two integers")), out),
        "place" => write(request, &place(params.read().expect("an order")), out),
        "echo" => encode::reply_raw(out, request.id, params),
        other => encode::error(out, request.id, &JsonRpcError::unknown_method(other)),
    }
}

#[inline]
fn params<'a>(request: &Request<'a>) -> RawJson<'a> {
    request.params.expect("every message has params")
}

#[inline]
fn write<R: Serialize>(request: &Request<'_>, result: &R, out: &mut Vec<u8>) {
    encode::reply(out, request.id, result).expect("plain data serialises");
}

/// The scanner alone.
#[derive(Default)]
pub(super) struct Decoder {
    policy: Policy,
}

impl Contestant for Decoder {
    fn take(&mut self, bytes: &[u8], _: &mut Vec<u8>) {
        let message = decode(bytes, &self.policy);
        assert!(matches!(
            black_box(&message),
            Message::Request(_) | Message::Batch(_)
        ));
    }
}
