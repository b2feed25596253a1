//! Printing the data of an error on one line.

use std::fmt::{self, Write};

use serde_json::Value;

/// Data of an error after its message: behind a colon, shortened, and only if the
/// message does not contain it.
pub(super) struct DataSuffix<'a>(pub(super) &'a str, pub(super) Option<&'a Value>);

impl DataSuffix<'_> {
    fn message_contains(&self, data: &Value) -> bool {
        match data {
            Value::Null => true,
            Value::String(text) => self.0.contains(text.as_str()),
            Value::Number(number) => self.0.contains(&number.to_string()),
            // The message is searched for each of them.
            Value::Object(members) if members.len() <= 4 => members
                .values()
                .all(|value| !value.is_object() && self.message_contains(value)),
            _ => false,
        }
    }
}

impl fmt::Display for DataSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Maximum characters that are shown.
        const SHOWN: usize = 200;
        let Some(data) = self.1.filter(|data| !self.message_contains(data)) else {
            return Ok(());
        };
        f.write_str(": ")?;
        let mut line = Limited {
            out: f,
            left: SHOWN,
        };
        let whole = match data {
            Value::String(text) => line.write_str(text),
            other => write!(line, "{other}"),
        };
        whole.or_else(|_| f.write_char('…'))
    }
}

/// Writer that fails after a number of characters, and escapes control characters, which
/// could move the cursor of a terminal.
struct Limited<'a, 'f> {
    out: &'a mut fmt::Formatter<'f>,
    left: usize,
}

impl Write for Limited<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            match c.is_control() {
                true => write!(self.out, "{}", c.escape_default())?,
                false => self.out.write_char(c)?,
            }
        }
        Ok(())
    }
}
