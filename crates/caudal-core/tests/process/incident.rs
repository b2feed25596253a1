//! Where an incident happened, which only a process that is told so keeps.
#![allow(clippy::unwrap_used, reason = "a test may")]

use caudal_core::Incident;

/// Proves: A81
#[test]
fn an_incident_knows_where_it_happened() {
    const NAME: &str = "incident::an_incident_knows_where_it_happened";
    // The variable is read once in a process, so a new one is needed.
    if std::env::var_os("CAUDAL_TEST_BACKTRACE").is_none() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([NAME, "--exact"])
            .envs([("RUST_BACKTRACE", "1"), ("CAUDAL_TEST_BACKTRACE", "1")])
            .output()
            .unwrap();
        assert!(
            child.status.success(),
            "{}",
            String::from_utf8_lossy(&child.stdout)
        );
        return;
    }
    let incident = Incident::new("a failure");
    assert_eq!(
        incident.backtrace().status(),
        std::backtrace::BacktraceStatus::Captured
    );
    assert!(incident.backtrace().to_string().contains(NAME));
}
