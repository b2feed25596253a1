//! caudal-core's encoders, one function each, for the regression guard.
//!
//! They are generic, so that they are compiled wherever they are called, and what
//! the optimiser makes of them depends on who else calls them there. Here nobody
//! does: their instructions change only when caudal-core does.

use caudal_core::{JsonRpcError, RawJson, RequestId, encode};
use serde::Serialize;

/// A small typed result.
#[derive(Debug, Serialize)]
struct Receipt {
    number: i64,
    units: i64,
    total: f64,
}

const DATA: &str = "plain data serialises";

/// A success with a small typed result.
///
/// # Panics
/// Never: plain data serialises.
#[inline(never)]
pub fn reply(out: &mut Vec<u8>) {
    let receipt = Receipt {
        number: 1_000_042,
        units: 7,
        total: 129.75,
    };
    encode::reply(out, &RequestId::from(1), &receipt).expect(DATA);
}

/// A success whose result is JSON already.
#[inline(never)]
pub fn raw(out: &mut Vec<u8>, result: RawJson<'_>) {
    encode::reply_raw(out, &RequestId::from(1), result);
}

/// An error.
#[inline(never)]
pub fn error(out: &mut Vec<u8>, error: &JsonRpcError) {
    encode::error(out, &RequestId::from(1), error);
}

/// A request.
///
/// # Panics
/// Never: plain data serialises.
#[inline(never)]
pub fn call(out: &mut Vec<u8>) {
    encode::call(out, &RequestId::from(1), "add", &(1, 2)).expect(DATA);
}

/// A notification.
///
/// # Panics
/// Never: plain data serialises.
#[inline(never)]
pub fn notification(out: &mut Vec<u8>) {
    encode::notification(out, "add", &(1, 2)).expect(DATA);
}
