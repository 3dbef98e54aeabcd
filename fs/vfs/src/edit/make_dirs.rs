//! Creation of a directory and its parents.

use crate::{ErrorKind, Follow, FsWrite, InodeNumber, NewAttributes, NewKind, Result, resolve};

/// Write and search permission for the owner, which are needed to create entries.
const OWNER_FILLS: u16 = 0o300;

/// Creates the directory at `path` and its missing parents, as `mkdir -p` does. Existing
/// directories are not changed. Missing parents get the mode 0777 reduced by the umask, but at
/// least the permissions that their owner needs to fill them. Calls `made` with the path of each
/// new directory. Returns the directory at `path`.
///
/// # Errors
/// As [`resolve`]; `Exists` for another type of file at `path`, `NotADirectory` for one above it.
pub fn make_dirs(
    fs: &dyn FsWrite,
    path: &[u8],
    attributes: &NewAttributes,
    made: &mut dyn FnMut(&[u8]),
) -> Result<InodeNumber> {
    let ends = ends_of_names(path);
    let mut here = fs.root();
    for (index, end) in ends.iter().enumerate() {
        let upto = path.get(..*end).unwrap_or(path);
        let is_last = index.saturating_add(1) == ends.len();
        here = match resolve(fs, upto, Follow::All) {
            Ok(there) => existing(fs, there, is_last).map_err(|error| error.in_path(upto))?,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let attributes = if is_last {
                    *attributes
                } else {
                    above(attributes)
                };
                let there = make(fs, here, upto, &attributes)?;
                made(upto);
                there
            }
            Err(error) => return Err(error),
        };
    }
    Ok(here)
}

/// Returns the end of each name in the path.
fn ends_of_names(path: &[u8]) -> Vec<usize> {
    let is_end = |at: &usize| {
        let next = at.checked_add(1).and_then(|next| path.get(next));
        path.get(*at) != Some(&b'/') && next.is_none_or(|&byte| byte == b'/')
    };
    (0..path.len())
        .filter(is_end)
        .map(|at| at.saturating_add(1))
        .collect()
}

fn existing(fs: &dyn FsWrite, inode: InodeNumber, is_last: bool) -> Result<InodeNumber> {
    if fs.metadata(inode)?.is_dir() {
        return Ok(inode);
    }
    Err(if is_last {
        ErrorKind::Exists.into()
    } else {
        ErrorKind::NotADirectory.into()
    })
}

fn above(attributes: &NewAttributes) -> NewAttributes {
    NewAttributes {
        permissions: 0o777,
        umask: attributes.umask & !OWNER_FILLS,
        ..*attributes
    }
}

/// Creates the last name of `path` in `dir`. A dangling symlink counts as an existing file.
fn make(
    fs: &dyn FsWrite,
    dir: InodeNumber,
    path: &[u8],
    attributes: &NewAttributes,
) -> Result<InodeNumber> {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    fs.create(dir, name, NewKind::Directory, attributes)
        .map_err(|error| error.in_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FsRead;
    use crate::testing::WritableMemoryFs;

    #[test]
    fn makes_what_is_missing_and_leaves_the_rest() {
        let fs = WritableMemoryFs::new();
        let attributes = NewAttributes {
            umask: 0o222,
            ..NewAttributes::for_root(0o1750)
        };
        let mut told = Vec::new();
        let mut run = |path: &str| {
            make_dirs(&fs, path.as_bytes(), &attributes, &mut |path| {
                told.push(String::from_utf8(path.to_vec()).unwrap());
            })
        };
        let c = run("/a//b/./c/").unwrap();
        assert_eq!(run("a/b/c").unwrap(), c);
        assert_eq!(run("/").unwrap(), fs.root());
        run("/a/b/../d").unwrap();
        assert_eq!(told, ["/a", "/a//b", "/a//b/./c", "/a/b/../d"]);
        let mode = |path: &str| {
            let inode = resolve(&fs, path, Follow::All).unwrap();
            fs.metadata(inode).unwrap().permissions
        };
        assert_eq!((mode("/a/b/c"), mode("/a/b")), (0o1550, 0o755));
    }

    #[test]
    fn what_is_in_the_way_is_reported() {
        let fs = WritableMemoryFs::new();
        let attributes = NewAttributes::for_root(0o755);
        let make = |name: &[u8], kind| fs.create(fs.root(), name, kind, &attributes);
        make(b"f", NewKind::Regular).unwrap();
        make(b"dangling", NewKind::Symlink(b"nowhere")).unwrap();
        make(b"d", NewKind::Directory).unwrap();
        make(b"l", NewKind::Symlink(b"d")).unwrap();
        let run = |path: &str| make_dirs(&fs, path.as_bytes(), &attributes, &mut |_| {});
        let kind = |path: &str| run(path).unwrap_err().kind();
        assert_eq!(kind("/f"), ErrorKind::Exists);
        assert_eq!(kind("/f/x"), ErrorKind::NotADirectory);
        assert_eq!(kind("/dangling"), ErrorKind::Exists);
        run("/l/x").unwrap();
        assert!(resolve(&fs, "/d/x", Follow::All).is_ok());
    }
}
