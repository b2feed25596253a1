//! Messages of the compiler for programs that are wrong.

/// Each error names the type that is wrong and the trait that it lacks.
///
/// The expected messages are in `tests/compile_errors/*.stderr`. After a change,
/// `TRYBUILD=overwrite cargo test -p caudal compile_errors` writes them again.
#[test]
fn errors_of_the_compiler_name_the_type_that_is_wrong() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}
