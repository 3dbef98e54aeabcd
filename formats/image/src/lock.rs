//! QEMU's image locks.
//!
//! A program that opens an image locks bytes of the file, two for each permission. A shared lock on
//! byte `100 + bit` says "I use this permission", one on `200 + bit` says "others must not use it".
//! The program locks its own bytes first and then checks whether another process holds a
//! conflicting byte. Locks belong to the open file, so they end with it.
//!
//! As observed with qemu-img and qemu-io 10.0: a reader, of an image or of a backing file, locks
//! 100, 201 and 203, and checks 200, 101 and 103. A writer also locks 101 and 103, and checks 201
//! and 203 as well, so that it shares an image with no other process.

use std::os::fd::AsFd;
use std::path::Path;

use diskfs_block::{Error, ErrorKind, Result};
use rustix::io::Errno;

use crate::Share;
use crate::ofd;

/// The first byte of "I use this permission".
const USED_BASE: u64 = 100;
/// The first byte of "others must not use this permission".
const UNSHARED_BASE: u64 = 200;

/// The permissions, by their bit number.
const CONSISTENT_READ: u64 = 0;
const WRITE: u64 = 1;
const RESIZE: u64 = 3;

/// The result of locking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locked {
    /// Locked until the file is closed.
    Yes,
    /// Not locked, because the caller did not request it.
    NotWanted,
    /// Not locked, because the host's filesystem does not support locks.
    NotPossible,
}

/// Locks `file` for reading; fails if another process writes to it.
pub(crate) fn lock_for_reading(file: &impl AsFd, path: &Path, share: Share) -> Result<Locked> {
    if share == Share::Force {
        return Ok(Locked::NotWanted);
    }
    locked(
        retry_while_locked(|| try_lock(file, &[CONSISTENT_READ])),
        path,
    )
    .map_err(|e| e.with_hint("stop the virtual machine, or use --force-share to read it anyway"))
}

/// Locks `file` for writing; fails if another process uses it.
pub(crate) fn lock_for_writing(file: &impl AsFd, path: &Path) -> Result<Locked> {
    let result = retry_while_locked(
        || match try_lock(file, &[CONSISTENT_READ, WRITE, RESIZE])? {
            None => writer_refusal(file),
            some => Ok(some),
        },
    );
    locked(result, path)
        .map_err(|e| e.with_hint("stop that process, or write to an overlay of the image"))
}

/// Retries for a moment if the image is locked: a program that starts another one after closing the
/// image keeps its locks until that one runs.
fn retry_while_locked(
    attempt: impl Fn() -> std::result::Result<Option<&'static str>, Errno>,
) -> std::result::Result<Option<&'static str>, Errno> {
    const LOOKS: u32 = 20;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
    for _ in 1..LOOKS {
        match attempt() {
            Ok(Some(_)) => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
    attempt()
}

fn locked(result: std::result::Result<Option<&'static str>, Errno>, path: &Path) -> Result<Locked> {
    match result {
        Ok(None) => Ok(Locked::Yes),
        Ok(Some(reason)) => Err(Error::new(ErrorKind::Locked, reason).in_file(path)),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => {
            Ok(Locked::NotPossible)
        }
        Err(e) => Err(Error::from(e).in_file(path)),
    }
}

/// Returns a message if another process has the image open and does not allow writers.
fn writer_refusal(file: &impl AsFd) -> std::result::Result<Option<&'static str>, Errno> {
    for permission in [WRITE, RESIZE] {
        if ofd::is_locked(file, UNSHARED_BASE.saturating_add(permission))? {
            return Ok(Some("in use by another process (which reads the image)"));
        }
    }
    Ok(None)
}

/// Takes the locks for these permissions; returns a message if another process holds a conflicting
/// lock.
fn try_lock(file: &impl AsFd, used: &[u64]) -> std::result::Result<Option<&'static str>, Errno> {
    let used = used.iter().map(|bit| USED_BASE.saturating_add(*bit));
    let unshared = [WRITE, RESIZE].map(|bit| UNSHARED_BASE.saturating_add(bit));
    for byte in used.chain(unshared) {
        match ofd::lock_shared(file, byte) {
            // QEMU never locks exclusively, but other programs may.
            Err(Errno::AGAIN | Errno::ACCESS) => {
                return Ok(Some(
                    "in use by another process (which has locked the image)",
                ));
            }
            other => other?,
        }
    }
    if ofd::is_locked(file, UNSHARED_BASE.saturating_add(CONSISTENT_READ))? {
        return Ok(Some(
            "in use by another process (which does not allow others to read the image)",
        ));
    }
    for permission in [WRITE, RESIZE] {
        if ofd::is_locked(file, USED_BASE.saturating_add(permission))? {
            return Ok(Some(
                "in use by another process (which writes to the image)",
            ));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn open(path: &Path) -> File {
        File::options().read(true).write(true).open(path).unwrap()
    }

    #[test]
    fn readers_coexist_and_a_writer_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, b"x").unwrap();
        let (a, b, writer) = (open(&path), open(&path), open(&path));
        let lock = |file: &File| lock_for_reading(file, &path, Share::Readers);
        if lock(&a).unwrap() == Locked::NotPossible {
            return; // A host filesystem without locks.
        }
        assert_eq!(lock(&b).unwrap(), Locked::Yes);
        // The bytes that a writer checks before it starts.
        assert!(ofd::is_locked(&writer, 201).unwrap());
        ofd::lock_shared(&writer, 101).unwrap();
        let e = lock(&open(&path)).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Locked);
        assert!(e.to_string().contains("--force-share"), "{e}");
        let forced = lock_for_reading(&open(&path), &path, Share::Force);
        assert_eq!(forced.unwrap(), Locked::NotWanted);
        drop((a, b));
        assert!(!ofd::is_locked(&writer, 201).unwrap());
    }

    #[test]
    fn a_writer_is_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, b"x").unwrap();
        let writer = open(&path);
        if lock_for_writing(&writer, &path).unwrap() == Locked::NotPossible {
            return;
        }
        let e = lock_for_writing(&open(&path), &path).unwrap_err();
        assert!(e.to_string().contains("writes to the image"), "{e}");
        let e = lock_for_reading(&open(&path), &path, Share::Readers).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Locked);
        drop(writer);
        let reader = open(&path);
        lock_for_reading(&reader, &path, Share::Readers).unwrap();
        let e = lock_for_writing(&open(&path), &path).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Locked);
        assert!(e.to_string().contains("reads the image"), "{e}");
        drop(reader);
        lock_for_writing(&open(&path), &path).unwrap();
    }

    #[test]
    fn a_process_that_shares_no_reading_is_honoured() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        std::fs::write(&path, b"x").unwrap();
        let other = open(&path);
        if ofd::lock_shared(&other, 200).is_err() {
            return;
        }
        let e = lock_for_reading(&open(&path), &path, Share::Readers).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Locked);
    }
}
