//! TLS by rustls, on both sides.
