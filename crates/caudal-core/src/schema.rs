//! JSON Schema of the messages.

/// JSON Schema 2020-12 for request, notification, response, error and batch.
///
/// A schema checks values and not text, so it cannot refuse members that appear twice,
/// error codes written as `1.0`, and messages beyond the limits on size, depth and ids.
/// Otherwise it agrees with [`Policy::default`](crate::Policy::default).
///
/// ```
/// let schema: serde_json::Value = serde_json::from_str(caudal_core::SCHEMA)?;
/// assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub const SCHEMA: &str = include_str!("../jsonrpc.schema.json");
