//! The panic hook, which all tests of a process share.

use std::sync::Once;

/// Payload of the panics that tests cause on purpose.
pub(crate) const ON_PURPOSE: &str = "on purpose";

/// Keeps panics on purpose from being printed, so that any other is seen.
pub(crate) fn silence_panics_on_purpose() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload_as_str() != Some(ON_PURPOSE) {
                others(panic);
            }
        }));
    });
}
