//! The messages as a JSON Schema.

/// JSON Schema 2020-12 for request, notification, response, error and batch.
///
/// A schema sees values, not text, so a few rules are beyond it: members that
/// stand twice, error codes written as `1.0`, and the limits on size, depth and
/// ids. Otherwise it refuses what [`Policy::default`](crate::Policy::default)
/// refuses.
///
/// ```
/// let schema: serde_json::Value = serde_json::from_str(caudal_core::SCHEMA)?;
/// assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
/// # Ok::<(), serde_json::Error>(())
/// ```
pub const SCHEMA: &str = include_str!("../jsonrpc.schema.json");
