//! The header is the one that cbindgen generates from the sources.

use std::path::Path;

use diskfs_fixtures::kept;

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(root)
        .with_config(config)
        .generate()
        .unwrap();
    let mut header = Vec::new();
    bindings.write(&mut header);
    let header = String::from_utf8(header).unwrap();
    kept("bindings/c/diskfs.h", &without_safety(&header));
}

/// Removes the sections on safety, which are for Rust: the beginning of the header has the rules.
fn without_safety(header: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut is_safety = false;
    for line in header.lines() {
        if line.trim() == "* # Safety" {
            is_safety = true;
            lines.pop(); // The empty line before the section.
        }
        is_safety &= line.trim() != "*/";
        if !is_safety {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}
