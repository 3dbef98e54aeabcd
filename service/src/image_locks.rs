//! The locks of images among the requests of this server.
//!
//! Requests for one image wait for each other: any number may read it, or one may write it. QEMU's
//! locks, which also cover other processes, are taken when the image is opened; these fail instead
//! of waiting.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use crate::job::Access;

/// The identity of an image, whatever path names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    File { device: u64, inode: u64 },
    Missing(PathBuf),
}

/// The locks of all images in use.
#[derive(Debug, Default)]
pub(crate) struct ImageLocks(Mutex<HashMap<Identity, Weak<RwLock<()>>>>);

/// The lock of an image, until it is dropped.
#[derive(Debug)]
pub(crate) enum ImageLock {
    Shared { _guard: OwnedRwLockReadGuard<()> },
    Exclusive { _guard: OwnedRwLockWriteGuard<()> },
}

impl ImageLocks {
    /// Waits for the lock of an image.
    pub(crate) async fn lock(&self, path: &Path, access: Access) -> ImageLock {
        let lock = self.of(identity(path));
        match access {
            Access::Read | Access::DryRun => ImageLock::Shared {
                _guard: lock.read_owned().await,
            },
            Access::Write => ImageLock::Exclusive {
                _guard: lock.write_owned().await,
            },
        }
    }

    fn of(&self, identity: Identity) -> Arc<RwLock<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(&identity).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(RwLock::new(()));
        locks.insert(identity, Arc::downgrade(&lock));
        lock
    }
}

fn identity(path: &Path) -> Identity {
    match std::fs::metadata(path) {
        Ok(metadata) => Identity::File {
            device: metadata.dev(),
            inode: metadata.ino(),
        },
        Err(_) => Identity::Missing(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_writer_waits_for_readers_of_any_path() {
        let dir = tempfile::tempdir().unwrap();
        let (image, link) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::write(&image, "").unwrap();
        std::os::unix::fs::symlink(&image, &link).unwrap();
        let locks = ImageLocks::default();
        let first = locks.lock(&image, Access::Read).await;
        let second = locks.lock(&link, Access::Read).await;
        let wait = |lock| tokio::time::timeout(Duration::from_millis(20), lock);
        assert!(wait(locks.lock(&link, Access::Write)).await.is_err());
        drop((first, second));
        assert!(wait(locks.lock(&link, Access::Write)).await.is_ok());
    }
}
