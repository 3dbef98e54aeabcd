//! The options for the keys of an image and of its backing files.

use super::LUKS;

/// Returns true for the option that names the secret of an image, by its driver.
pub(super) fn is_key(option: &str, driver: Option<&str>) -> bool {
    match driver {
        Some(LUKS) => option == "key-secret",
        None | Some("qcow2") => option == "encrypt.key-secret",
        Some(_) => false,
    }
}

/// Returns the depth of a backing file in its chain and the option, if it is one of the encryption:
/// `backing.encrypt.key-secret` is that of the image's own backing file, at depth 1.
pub(super) fn of_backing<'a>(option: &'a str, driver: Option<&str>) -> Option<(usize, &'a str)> {
    let (mut rest, mut depth) = (option, 0_usize);
    while let Some(inner) = rest.strip_prefix("backing.") {
        rest = inner;
        depth = depth.saturating_add(1);
    }
    let is_known = depth > 0
        && matches!(driver, None | Some("qcow2"))
        && ["encrypt.key-secret", "encrypt.format"].contains(&rest);
    is_known.then_some((depth, rest))
}

/// Checks the encryption of a qcow2 image.
pub(super) fn check_encryption(name: &str) -> Result<(), String> {
    match name {
        LUKS => Ok(()),
        "aes" => Err("encrypt.format=aes: not supported by diskfs".to_owned()),
        _ => Err(format!("Unknown encryption format {name}")),
    }
}
