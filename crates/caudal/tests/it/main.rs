//! The tests of caudal that share a process.

mod bounds;
mod dispatch;
mod fairness;
mod hostile;
mod http;
mod http2;
mod http_client;
mod incomplete;
mod metrics;
mod observe;
mod order;
mod patience;
mod peer;
mod reconnect;
mod server;
mod sessions;
mod stdio;
mod support;
mod tls;
mod tls_connect;
mod trace;
mod transports;
mod webhook;
mod webhook_delivery;
mod webhook_receiver;
mod ws;
