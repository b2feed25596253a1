//! JSON-RPC by hand: axum and serde, as one would write it who needs no library.
//!
//! It borrows what it reads and writes into one buffer, so little is left to gain;
//! it checks no version and has no limits but axum's.

use std::borrow::Cow;

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Outcome, listen};

#[derive(Deserialize)]
struct Request<'a> {
    /// A notification has none.
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Reply<'a, R> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: R,
}

type Problem = (i32, &'static str);

const INVALID: Problem = (-32602, "Invalid params");

/// `one_thread` is for callgrind: what the threads of a runtime say to each other
/// is different on every run.
pub(super) fn serve(one_thread: bool) -> Outcome {
    let mut runtime = match one_thread {
        true => tokio::runtime::Builder::new_current_thread(),
        false => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.enable_all().build()?.block_on(async {
        let listener = listen().await?.tap_io(|stream| {
            // Without it, replies come later, and as they should.
            drop(stream.set_nodelay(true));
        });
        let router = Router::new().route("/", post(answer));
        Ok(axum::serve(listener, router).await?)
    })
}

async fn answer(body: Bytes) -> Response {
    let mut output = Vec::new();
    let read = match body.trim_ascii_start().first() {
        Some(b'[') => answer_batch(&body, &mut output).await,
        _ => answer_one(&body, &mut output).await,
    };
    if read.is_err() {
        output.clear();
        fail(None, (-32700, "Parse error"), &mut output);
    }
    match output.is_empty() {
        true => StatusCode::NO_CONTENT.into_response(),
        false => ([(header::CONTENT_TYPE, "application/json")], output).into_response(),
    }
}

async fn answer_one(body: &[u8], output: &mut Vec<u8>) -> serde_json::Result<()> {
    let request: Request<'_> = serde_json::from_slice(body)?;
    call(&request, output).await;
    Ok(())
}

async fn answer_batch(body: &[u8], output: &mut Vec<u8>) -> serde_json::Result<()> {
    let requests: Vec<Request<'_>> = serde_json::from_slice(body)?;
    for request in &requests {
        let before = output.len();
        output.push(if before == 0 { b'[' } else { b',' });
        call(request, output).await;
        if request.id.is_none() {
            output.truncate(before);
        }
    }
    if !output.is_empty() {
        output.push(b']');
    }
    Ok(())
}

async fn call(request: &Request<'_>, output: &mut Vec<u8>) {
    let Request { id, params, .. } = *request;
    let params = params.map_or("null", RawValue::get);
    let done = match request.method.as_ref() {
        "add" => match serde_json::from_str::<(i64, i64)>(params) {
            Ok((a, b)) => reply(id, a + b, output),
            Err(_) => Err(INVALID),
        },
        "echo" => match request.params {
            Some(params) => reply(id, params, output),
            None => Err(INVALID),
        },
        _ => Err((-32601, "Method not found")),
    };
    if let (Err(problem), Some(id)) = (done, id) {
        fail(Some(id), problem, output);
    }
}

fn reply(
    id: Option<&RawValue>,
    result: impl Serialize,
    output: &mut Vec<u8>,
) -> Result<(), Problem> {
    let Some(id) = id else {
        return Ok(());
    };
    let jsonrpc = "2.0";
    let reply = Reply {
        jsonrpc,
        id,
        result,
    };
    serde_json::to_writer(output, &reply).map_err(|_| (-32603, "Internal error"))
}

fn fail(id: Option<&RawValue>, (code, message): Problem, output: &mut Vec<u8>) {
    let error = json!({"code": code, "message": message});
    let reply = json!({"jsonrpc": "2.0", "id": id, "error": error});
    output.extend_from_slice(reply.to_string().as_bytes());
}
