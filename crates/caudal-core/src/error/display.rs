//! The data of an error, printed on one line.

use std::fmt::{self, Write};

use serde_json::Value;

/// Data behind a colon, as far as one line has room for it and the message does not
/// say it already.
pub(super) struct Shown<'a>(pub(super) &'a str, pub(super) Option<&'a Value>);

impl Shown<'_> {
    fn is_told(&self, data: &Value) -> bool {
        match data {
            Value::Null => true,
            Value::String(text) => self.0.contains(text.as_str()),
            Value::Number(number) => self.0.contains(&number.to_string()),
            // Few, since each is looked for in all of the message.
            Value::Object(members) if members.len() <= 4 => members
                .values()
                .all(|value| !value.is_object() && self.is_told(value)),
            _ => false,
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 200;
        let Some(data) = self.1.filter(|data| !self.is_told(data)) else {
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

/// Takes so many characters and then fails; none of them moves the cursor.
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
