//! The tests of caudal that share a process.

mod bounds;
mod children;
mod dispatch;
mod fairness;
mod hooks;
mod hostile;
mod http;
mod http2;
mod http_client;
mod incomplete;
#[cfg(unix)]
mod listeners;
mod metrics;
mod observe;
mod order;
mod patience;
mod peer;
mod reconnect;
mod same_bytes;
mod server;
mod sessions;
#[cfg(unix)]
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
