//! Names of parents, which VHD and VHDX store as Windows paths.

/// Returns the name to open for a Windows path: a relative path with slashes. Of an absolute path
/// only the last component is left, because its drive does not exist here: parents are usually
/// beside their children, and their identifier is checked.
pub(super) fn to_unix(path: &str) -> Vec<u8> {
    let slashes = path.replace('\\', "/");
    let is_drive = slashes.as_bytes().get(1) == Some(&b':');
    let is_absolute = slashes.starts_with("//") || is_drive || path.starts_with('\\');
    let name = if is_absolute {
        slashes.rsplit(['/', ':']).next().unwrap_or_default()
    } else {
        &slashes
    };
    name.as_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_an_absolute_path_is_left() {
        for (path, name) in [
            (r".\parent.vhd", "./parent.vhd"),
            (r"..\a\b.vhdx", "../a/b.vhdx"),
            ("parent.vhd", "parent.vhd"),
            (r"C:\disks\parent.vhd", "parent.vhd"),
            (r"\\?\d:\a\b.vhdx", "b.vhdx"),
            (r"\\server\share\b.vhdx", "b.vhdx"),
            (r"\a\b.vhdx", "b.vhdx"),
            ("C:b.vhd", "b.vhd"),
            ("/etc/shadow", "/etc/shadow"),
        ] {
            assert_eq!(to_unix(path), name.as_bytes(), "{path}");
        }
    }
}
