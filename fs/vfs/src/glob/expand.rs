//! Expansion of path patterns.

use super::{Case, Pattern};
use crate::{Error, ErrorKind, Follow, FsRead, Result, resolve};

/// The limit on paths of a pattern.
const MAX_PATHS: usize = 100_000;

/// Returns true if a path has a pattern character: `*`, `?` or `[`.
pub fn is_pattern(path: &[u8]) -> bool {
    path.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Returns the existing paths that match a pattern, sorted, as in a shell: `*` matches neither a
/// slash nor the leading dot of a name. Symlinks in the middle of a path are followed.
///
/// # Errors
/// `Invalid` for a pattern that is too long or matches more than 100,000 paths; the errors of
/// reading directories.
pub fn expand(fs: &dyn FsRead, pattern: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut found = vec![Vec::new()];
    for name in pattern.split(|&byte| byte == b'/') {
        if name.is_empty() {
            continue;
        }
        let mut below = Vec::new();
        for dir in &found {
            below_one(fs, dir, name, &mut below)?;
            if below.len() > MAX_PATHS {
                let reason = format!("the pattern matches more than {MAX_PATHS} paths");
                return Err(Error::new(ErrorKind::Invalid, reason).in_path(pattern));
            }
        }
        found = below;
    }
    found.retain(|path| !path.is_empty());
    found.sort();
    Ok(found)
}

fn below_one(fs: &dyn FsRead, dir: &[u8], name: &[u8], found: &mut Vec<Vec<u8>>) -> Result<()> {
    let at = |name: &[u8]| [dir, b"/", name].concat();
    if !is_pattern(name) {
        // Missing files, and files that are not directories, have no entries.
        if resolve(fs, at(name), Follow::AllButLast).is_ok() {
            found.push(at(name));
        }
        return Ok(());
    }
    let place = if dir.is_empty() { b"/" } else { dir };
    let Ok(inode) = resolve(fs, place, Follow::All) else {
        return Ok(());
    };
    if !fs.metadata(inode)?.is_dir() {
        return Ok(());
    }
    let pattern = Pattern::new(name, Case::Sensitive)?;
    for entry in fs.read_dir(inode, 0)? {
        let entry = entry.map_err(|error| error.in_path(place))?;
        let is_hidden = entry.name.starts_with(b".") && !name.starts_with(b".");
        let is_link = entry.name == b"." || entry.name == b"..";
        if !is_hidden && !is_link && pattern.matches(&entry.name) {
            found.push(at(&entry.name));
        }
        if found.len() > MAX_PATHS {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::WritableMemoryFs;
    use crate::{FsWrite, NewAttributes, NewKind};

    #[test]
    fn paths_are_those_that_a_shell_finds() {
        let fs = WritableMemoryFs::new();
        let attributes = NewAttributes::for_root(0o755);
        let add = |dir, name: &[u8], kind| fs.create(dir, name, kind, &attributes).unwrap();
        for name in [b"b", b"a"] {
            let dir = add(fs.root(), name, NewKind::Directory);
            add(dir, b"x.conf", NewKind::Regular);
            add(dir, b".hidden.conf", NewKind::Regular);
        }
        add(fs.root(), b"link", NewKind::Symlink(b"a"));
        let all = |pattern: &str| {
            let found = expand(&fs, pattern.as_bytes()).unwrap();
            let found = found
                .into_iter()
                .map(|path| String::from_utf8(path).unwrap());
            found.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(all("/*/x.c*"), "/a/x.conf /b/x.conf /link/x.conf");
        assert_eq!(all("/[ab]"), "/a /b");
        assert_eq!(all("/a/.h*"), "/a/.hidden.conf");
        assert_eq!(all("/*/none/*"), "");
        assert_eq!(all("/a/x.conf/*"), "");
    }
}
