//! The results of `blkid`.

use std::path::Path;

use super::beside_blkid::VolumeIdentity;

/// Returns the identity that `blkid` reports for an image; empty if it does not recognise it.
pub(super) fn told(image: &Path) -> VolumeIdentity {
    let mut command = diskfs_fixtures::command("blkid");
    command.args(["--probe", "-o", "udev"]).arg(image);
    let output = command.output().unwrap();
    // Exit code 2 means that nothing was found.
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 2)),
        "{}: {output:?}",
        image.display()
    );
    let mut told = VolumeIdentity::default();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        match line.split_once('=') {
            Some(("ID_FS_TYPE", value)) => told.kind = unescaped(value),
            Some(("ID_FS_LABEL_ENC", value)) => told.label = unescaped(value),
            Some(("ID_FS_UUID_ENC", value)) => told.uuid = unescaped(value),
            _ => {}
        }
    }
    told
}

/// Decodes escapes such as `\x20`.
fn unescaped(value: &str) -> String {
    let (first, others) = value.split_once("\\x").unwrap_or((value, ""));
    let mut text = first.as_bytes().to_vec();
    for part in others.split("\\x").filter(|part| !part.is_empty()) {
        let (digits, rest) = part.split_at(2);
        text.push(u8::from_str_radix(digits, 16).unwrap());
        text.extend(rest.as_bytes());
    }
    String::from_utf8(text).unwrap()
}
