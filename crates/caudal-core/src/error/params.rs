//! Explains to the sender why params do not fit.

use std::cell::Cell;

use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, IgnoredAny, Visitor};
use serde::forward_to_deserialize_any;

use super::json_rpc_error::JsonRpcError;
use crate::raw_json::RawJson;
use crate::scan::Kind;

impl JsonRpcError {
    /// Creates -32602 whose data says why `params` could not be read as `T`.
    ///
    /// ```
    /// use caudal_core::{JsonRpcError, RawJson};
    ///
    /// let params = RawJson::parse("[1, 2, 3]")?;
    /// let error = params.read::<(i64, i64)>().unwrap_err();
    /// let answer = JsonRpcError::wrong_params::<(i64, i64)>(Some(params), &error);
    /// assert_eq!(answer.to_string(), "Invalid params (code -32602): expected 2 params, found 3");
    /// # Ok::<(), caudal_core::DecodeError>(())
    /// ```
    #[must_use]
    #[cold]
    pub fn wrong_params<'de, T: Deserialize<'de>>(
        params: Option<RawJson<'_>>,
        error: &serde_json::Error,
    ) -> Self {
        Self::invalid_params().and_data(match params {
            None => "`params` is missing".to_owned(),
            Some(params) => reason(params, Shape::of::<T>(), error),
        })
    }
}

fn reason(params: RawJson<'_>, shape: Shape, error: &serde_json::Error) -> String {
    // `IgnoredAny` has no size, so the vector takes no memory.
    let found = || params.read().map_or(0, |all: Vec<IgnoredAny>| all.len());
    match (shape, params.kind()) {
        (Shape::Tuple(wanted), Kind::Object) => {
            format!("expected an array of {wanted}, found an object")
        }
        (Shape::Tuple(wanted), Kind::Array) if found() != wanted => {
            let plural = if wanted == 1 { "" } else { "s" };
            format!("expected {wanted} param{plural}, found {}", found())
        }
        (Shape::Struct(members), Kind::Array) if found() > members => {
            let found = found();
            format!("expected an object, or an array of at most {members}, found {found}")
        }
        _ => without_place(error),
    }
}

/// Removes line and column from the text of an error: they count from the start of the
/// params, which the sender does not know.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place).unwrap_or(&text) {
        // Valid JSON causes these only if a type stops reading early.
        "trailing characters" => "an array has more elements than expected".to_owned(),
        "trailing comma" => "an object has more members than expected".to_owned(),
        text => text.to_owned(),
    }
}

/// JSON value that a type is read from.
#[derive(Clone, Copy)]
enum Shape {
    Tuple(usize),
    Struct(usize),
    Other,
}

impl Shape {
    fn of<'de, T: Deserialize<'de>>() -> Self {
        let shape = Cell::new(Self::Other);
        // Always an error: there is nothing to read.
        let _ = T::deserialize(Probe(&shape, 8));
        shape.get()
    }
}

/// Deserializer that records which shape a type asks for, and then fails. The number
/// limits the depth of types that contain themselves.
struct Probe<'s>(&'s Cell<Shape>, u8);

impl Probe<'_> {
    fn found<T>(&self, shape: Shape) -> Result<T, Error> {
        self.0.set(shape);
        Err(Error::custom("a probe"))
    }

    fn inner(self) -> Result<Self, Error> {
        match self.1.checked_sub(1) {
            Some(left) => Ok(Self(self.0, left)),
            None => self.found(Shape::Other),
        }
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        self.found(Shape::Other)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self.inner()?)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self.inner()?)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, _: V) -> Result<V::Value, Error> {
        self.found(Shape::Tuple(len))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        _: V,
    ) -> Result<V::Value, Error> {
        self.found(Shape::Tuple(len))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        members: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.found(Shape::Struct(members.len()))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes
        byte_buf unit unit_struct seq map enum identifier ignored_any
    }
}
