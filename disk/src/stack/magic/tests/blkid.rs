//! What `blkid` tells.

use std::path::Path;

use super::beside_blkid::Told;

/// What it tells of an image; nothing where it knows nothing.
pub(super) fn told(image: &Path) -> Told {
    let mut command = diskfs_fixtures::command("blkid");
    command.args(["--probe", "-o", "udev"]).arg(image);
    let output = command.output().unwrap();
    // 2 is that nothing was found.
    let code = output.status.code();
    assert!(
        matches!(code, Some(0 | 2)),
        "{}: {output:?}",
        image.display()
    );
    let mut told = Told::default();
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

/// With its bytes for `\x20` and the like.
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
