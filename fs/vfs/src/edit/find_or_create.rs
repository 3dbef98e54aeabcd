//! Look-up of a file that is created if it is missing.

use crate::{
    ErrorKind, Follow, FsWrite, InodeNumber, NewAttributes, NewKind, Result, follow_last, resolve,
    resolve_parent,
};

/// Finds the file of any type at `path`, following symlinks. A missing file is created as a regular
/// file.
///
/// # Errors
/// As [`resolve`]; `NotFound` if the directory is missing. All errors carry `path`.
pub fn find_or_create(
    fs: &dyn FsWrite,
    path: &[u8],
    attributes: &NewAttributes,
) -> Result<InodeNumber> {
    match resolve(fs, path, Follow::All) {
        Err(error) if error.kind() == ErrorKind::NotFound => follow_last(fs, path)
            .and_then(|path| {
                let (dir, name) = resolve_parent(fs, path)?;
                fs.create(dir, &name, NewKind::Regular, attributes)
            })
            .map_err(|error| error.in_path(path)),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FsRead;
    use crate::testing::WritableMemoryFs;

    #[test]
    fn a_missing_file_is_created_behind_its_symlink() {
        let fs = WritableMemoryFs::new();
        let attributes = NewAttributes::for_root(0o644);
        let link = NewKind::Symlink(b"file");
        fs.create(fs.root(), b"link", link, &attributes).unwrap();
        let find = |path: &str| find_or_create(&fs, path.as_bytes(), &attributes);
        let made = find("/link").unwrap();
        assert_eq!(find("/file").unwrap(), made);
        assert_eq!(find("/").unwrap(), fs.root());
        let error = find("/none/file").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
