//! Progress as a terminal shows it.

use std::fs;
use std::process::Command;

use diskfs_fixtures::require;

use crate::DISKFS;
use crate::changing::Guest;

/// A progress bar appears on the terminal even if standard output is a file, with the total and the
/// time left.
#[test]
fn a_bar_needs_standard_error_only() {
    let Some(guest) = Guest::new() else { return };
    let Some(()) = require("script") else { return };
    fs::write(guest.at("large"), vec![7; 64 << 20]).unwrap();
    guest.all(&["cp large disk.img:/large"]);
    // The reader is slow enough for the bar to appear.
    let slow = "{ sleep 1.5; head -c 20M; sleep 0.5; cat; } > out.tar";
    let line = format!("{DISKFS} tar disk.img:/ large | {slow}");
    let output = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(guest.at(""))
        .env("TERM", "xterm")
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("of 64 MiB"), "{shown:?}");
    assert!(shown.contains("[="), "{shown:?}");
    assert!(
        shown.trim_end_matches('\r').ends_with("\u{1b}[2K"),
        "{shown:?}"
    );
    assert!(fs::metadata(guest.at("out.tar")).unwrap().len() > 64 << 20);
}
