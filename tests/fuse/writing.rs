//! Writes through a mount of a filesystem in memory that does what a driver must do.

mod contents;
mod direct;
mod handles;
mod listings;
mod names;
mod permissions;
mod room;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diskfs::export::fuse::{Access, Effect, IdMap, Options, Writes, mount_writable};
use diskfs::vfs::testing::WritableMemoryFs;

use super::served::Served;

/// A filesystem, and its mount.
struct Writable {
    fs: Arc<WritableMemoryFs>,
    mount: Served,
}

impl Writable {
    /// Mounts as root, for all users.
    fn new() -> Self {
        Self::with(WritableMemoryFs::new())
    }

    fn with(fs: WritableMemoryFs) -> Self {
        Self::with_ids(fs, IdMap::default())
    }

    fn with_ids(fs: WritableMemoryFs, ids: IdMap) -> Self {
        Self::with_options(
            fs,
            Options {
                ids,
                ..Options::default()
            },
        )
    }

    fn with_writes(fs: WritableMemoryFs, writes: Writes) -> Self {
        Self::with_options(
            fs,
            Options {
                writes,
                ..Options::default()
            },
        )
    }

    fn with_options(fs: WritableMemoryFs, options: Options) -> Self {
        let options = Options {
            access: Access::Everyone,
            suid: Effect::Allowed,
            devices: Effect::Allowed,
            ..options
        };
        let fs = Arc::new(fs);
        let served = Arc::clone(&fs);
        let mount = Served::start(|at| mount_writable(served, at, &options));
        // Other users must be able to access the mount.
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&*mount, everybody).expect("chmod");
        Self { fs, mount }
    }

    /// Unmounts, and expects that everything is durable.
    fn end_well(self) {
        self.mount.end();
    }

    /// Unmounts, expects that data was lost, and returns the error message.
    fn end_badly(self) -> String {
        self.mount.end_badly()
    }

    /// Waits for an effect that the kernel causes later.
    fn wait_for(&self, what: &str, done: impl Fn(&WritableMemoryFs) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done(&self.fs) {
            assert!(Instant::now() < deadline, "waited for {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl std::ops::Deref for Writable {
    type Target = std::path::Path;

    fn deref(&self) -> &std::path::Path {
        &self.mount
    }
}

/// Returns the errno that a call failed with.
fn failure<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}
