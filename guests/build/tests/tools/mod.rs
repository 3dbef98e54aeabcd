//! Building of plans in tests.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use diskfs_build::{BuildOptions, Built, Plan, Prepared, SourceOptions, Sources};
use diskfs_disk::{Disk, Keys, Result};
use diskfs_luks::Key;
use diskfs_vfs::Timestamp;

/// The time of all images.
pub(crate) const TIME: u32 = 1_700_000_000;

pub(crate) const PASSPHRASE: &str = "correct horse";

/// A directory with an image that is built from a plan.
pub(crate) struct Work(tempfile::TempDir);

impl Work {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn prepare(&self, plan: &str) -> Result<Prepared> {
        let plan = Plan::parse(plan)?;
        let from = SourceOptions {
            directory: self.0.path(),
            time: plan.time.map(|seconds| Timestamp {
                seconds: seconds.into(),
                nanoseconds: 0,
            }),
        };
        let sources = Sources::open(&plan.sources, from, &mut go_on)?;
        Prepared::new(plan, sources)
    }

    pub(crate) fn build(&self, plan: &str, name: &str) -> Result<Built> {
        let options = BuildOptions {
            directory: self.0.path().to_owned(),
            ..BuildOptions::default()
        };
        self.prepare(plan)?
            .build(&self.at(name), &options, &mut go_on)
    }

    /// Returns the names of the files in the directory.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// Writes the contents of a volume to a file, and returns the file.
    pub(crate) fn extract(&self, image: &str, volume: &str) -> PathBuf {
        let disk = open(&self.at(image));
        let device = disk.volume(volume).unwrap().device().unwrap();
        let mut bytes = vec![0; usize::try_from(device.size_bytes()).unwrap()];
        device.read_at(0, &mut bytes).unwrap();
        let path = self.at(&format!("{}.volume", volume.replace('/', "-")));
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

pub(crate) fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub(crate) fn open(image: &Path) -> Disk {
    let keys = Keys::default().with_all(Key::passphrase(PASSPHRASE.as_bytes()));
    Disk::options().keys(keys).open(image).unwrap()
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
