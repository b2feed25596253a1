//! Programs that tests start.

use std::process::Command;
use std::sync::OnceLock;

/// The conformance example, built on first use: as `./test` has built it, so that it is
/// there.
pub(crate) fn conformance() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let profile = test.parent().unwrap().parent().unwrap();
        let name = match profile.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            name => name,
        };
        let example = format!("conformance{}", std::env::consts::EXE_SUFFIX);
        let program = profile.join("examples").join(example);
        // Under wine there is no cargo; `tests/windows` has built it.
        if cfg!(windows) {
            return program.into_os_string().into_string().unwrap();
        }
        let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(["build", "--quiet", "--workspace", "--all-features"])
            .args(["--example", "conformance", "--profile", name])
            .arg("--target-dir")
            .arg(profile.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.unwrap().success(), "the example does not build");
        program.into_os_string().into_string().unwrap()
    })
}
