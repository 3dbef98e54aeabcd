//! The hardening of the program that cargo builds.

use std::process::Command;

fn readelf(option: &str) -> String {
    let words = ["--wide", option, env!("CARGO_BIN_EXE_diskfs")];
    let output = Command::new("readelf").args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The addresses are random, pointers are read-only once they are relocated, no function is bound
/// later, and nothing is both writable and executable.
#[test]
fn the_program_is_hardened() {
    let dynamic = readelf("--dynamic");
    let flags = dynamic.lines().find(|line| line.contains("(FLAGS_1)"));
    let flags = flags.expect("the program has flags");
    assert!(flags.contains("NOW") && flags.contains("PIE"), "{flags}");
    let segments = readelf("--segments");
    for kind in ["GNU_RELRO", "GNU_STACK"] {
        assert!(segments.contains(kind), "{kind}: {segments}");
    }
    assert!(!segments.contains("RWE"), "{segments}");
}
