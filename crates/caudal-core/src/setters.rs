//! Chained setters of structs of options.

/// Defines a setter for each of these fields, which consumes and returns the struct.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($($(#[$meta:meta])* $field:ident: $type:ty),* $(,)?) => {$(
        $(#[$meta])*
        #[doc = concat!("Sets [`", stringify!($field), "`](Self#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field.into();
            self
        }
    )*};
}
