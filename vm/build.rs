//! Puts the agent into the library, so that `diskfs appliance build` needs no other file.
//!
//! `$DISKFS_AGENT` names an agent that was built before; if it is empty, none is put in. Without the
//! variable, a release build builds the agent, and every other build does without: there the agent
//! is found beside the program (`boot_files/agent.rs`).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The variable that names an agent.
const VARIABLE: &str = "DISKFS_AGENT";

/// The sources of the agent, from the workspace's root.
const SOURCES: [&str; 6] = [
    "agent/Cargo.toml",
    "agent/src",
    "fs/remote/Cargo.toml",
    "fs/remote/src",
    "fs/vfs/Cargo.toml",
    "fs/vfs/src",
];

/// Cargo's variables that would build the agent as the library is built.
const UNWANTED: [&str; 3] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"];

fn main() {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let out = PathBuf::from(variable("OUT_DIR"));
    let agent = match env::var_os(VARIABLE) {
        Some(none) if none.is_empty() => Vec::new(),
        Some(named) => {
            println!("cargo::rerun-if-changed={}", Path::new(&named).display());
            fs::read(&named).unwrap_or_else(|error| panic!("{VARIABLE}: {error}"))
        }
        None if variable("PROFILE") == "release" => build(&out).unwrap_or_else(|why| {
            println!("cargo::warning=the agent is not built in: {why}");
            Vec::new()
        }),
        None => Vec::new(),
    };
    fs::write(out.join("agent.gz"), compressed(&agent)).expect("OUT_DIR is writable");
}

/// Compresses the agent, which is rarely needed, to less than half.
fn compressed(agent: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(agent).and_then(|()| encoder.finish());
    written.expect("memory takes everything")
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Returns the target and the compiler's flags for a static program of the library's architecture.
fn static_program() -> Result<(String, String), String> {
    let (host, target) = (variable("HOST"), variable("TARGET"));
    let architecture = target.split('-').next().unwrap_or_default();
    if !target.contains("linux") || !["x86_64", "aarch64"].contains(&architecture) {
        return Err(format!("no machine runs an agent for {target}"));
    }
    if host.starts_with(architecture) && host.contains("linux") {
        let flags = ["target-feature=+crt-static", "relocation-model=static"];
        return Ok((host, as_list(&flags)));
    }
    // The standard library of this target has all that is needed, so it needs no C compiler.
    let flags = [
        "linker=rust-lld",
        "linker-flavor=ld.lld",
        "link-self-contained=yes",
    ];
    let target = format!("{architecture}-unknown-linux-musl");
    Ok((target, as_list(&flags)))
}

/// Returns the compiler's flags as a list of TOML.
fn as_list(flags: &[&str]) -> String {
    let flags = flags.iter().map(|flag| format!("\"-C\",\"{flag}\""));
    format!("[{}]", flags.collect::<Vec<_>>().join(","))
}

/// Builds the agent as a static program.
fn build(out: &Path) -> Result<Vec<u8>, String> {
    let (target, flags) = static_program()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let target_dir = out.join("agent-target");
    let mut cargo = Command::new(variable("CARGO"));
    cargo
        .args(["build", "--quiet", "--locked", "--package", "diskfs-agent"])
        .args(["--profile", "agent", "--target", &target])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        .arg("--config")
        .arg(format!("target.{target}.rustflags={flags}"));
    for unwanted in UNWANTED {
        cargo.env_remove(unwanted);
    }
    let output = cargo.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(said.lines().last().unwrap_or_default().to_owned());
    }
    let agent = target_dir.join(target).join("agent/diskfs-agent");
    fs::read(&agent).map_err(|error| format!("{}: {error}", agent.display()))
}
