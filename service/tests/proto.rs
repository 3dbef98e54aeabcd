//! The code in `src/generated` is what the generator makes of the .proto files: with
//! `DISKFS_WRITE_KEPT=1` this test writes it.

use std::fs;
use std::path::Path;

use diskfs_fixtures::kept;

const FILES: [&str; 2] = ["deploy.proto", "diskfs/v1/diskfs.proto"];

/// The messages whose fields are secrets, which `Debug` must not show.
const SECRET: [&str; 6] = [
    ".apis.DiskInfo",
    ".apis.DeployInfo",
    ".apis.VDDKConInfo",
    ".apis.DeployGuestFsResponse",
    ".diskfs.v1.Disk",
    ".diskfs.v1.Secret",
];

#[test]
fn generated_code_is_as_kept() {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let descriptors = protox::compile(FILES, [&protos]).unwrap();
    let made = tempfile::tempdir().unwrap();
    let mut config = prost_build::Config::new();
    config.skip_debug(SECRET);
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .emit_rerun_if_changed(false)
        .out_dir(made.path())
        .compile_fds_with_config(descriptors.clone(), config)
        .unwrap();
    for name in ["apis", "diskfs.v1"] {
        let text = fs::read_to_string(made.path().join(format!("{name}.rs"))).unwrap();
        kept(&format!("service/src/generated/{name}.rs"), &text);
    }
    let encoded = prost::Message::encode_to_vec(&descriptors);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated/descriptors.bin");
    if std::env::var_os("DISKFS_WRITE_KEPT").is_some() {
        fs::write(&path, &encoded).unwrap();
    }
    assert!(
        fs::read(&path).unwrap() == encoded,
        "descriptors.bin is stale; run the test with DISKFS_WRITE_KEPT=1"
    );
}
