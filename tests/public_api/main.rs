//! The public API of the library's crates, as a listing in the repository. A change of the API thus
//! appears in the review, and belongs in the changelog.
//!
//! The test also documents the workspace, with warnings as errors.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use diskfs_fixtures::kept;
use public_api::Builder;

/// The crates that the facade re-exports completely.
const CRATES: &[&str] = &[
    "archive", "block", "build", "deploy", "disk", "export", "image", "inspect", "logs", "luks",
    "nbd", "vfs", "vm", "volume",
];

#[test]
fn the_public_api_is_as_listed() {
    let documented = document();
    kept(
        "tests/public_api/diskfs.txt",
        &listing(&documented, "diskfs"),
    );
    for name in CRATES {
        let made = listing(&documented, &format!("diskfs_{name}"));
        kept(&format!("tests/public_api/{name}.txt"), &made);
    }
}

/// Writes the documentation of the workspace as JSON with rustdoc, and returns its directory.
fn document() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut documented = Command::new(cargo);
    // Build scripts depend on variables that the test's own cargo has set: with them, a part of the
    // workspace would be built anew, here and by the next cargo.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            documented.env_remove(&name);
        }
    }
    let documented = documented
        .args(["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOC", root.join("tests/public_api/rustdoc"))
        .env(
            "RUSTDOCFLAGS",
            "-D warnings -Z unstable-options --output-format json",
        )
        .current_dir(root)
        .status();
    assert!(documented.expect("start cargo").success(), "cargo doc");
    let program = Path::new(env!("CARGO_BIN_EXE_diskfs"));
    let target = program.ancestors().nth(2).expect("a target directory");
    target.join("doc")
}

/// Lists the public items of a crate, one per line, without those that only tests use.
fn listing(documented: &Path, name: &str) -> String {
    let json = documented.join(name).with_extension("json");
    let api = Builder::from_rustdoc_json(json)
        .omit_auto_derived_impls(true)
        .omit_auto_trait_impls(true)
        .omit_blanket_impls(true)
        .build()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let testing = format!("{name}::testing");
    let mut listing = String::new();
    for item in api.items() {
        let line = item.to_string();
        if !line.contains(&testing) {
            writeln!(listing, "{line}").expect("writing to a string cannot fail");
        }
    }
    listing
}
