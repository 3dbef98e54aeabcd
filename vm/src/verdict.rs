//! Verdicts about backends on this host: one that failed is not tried again until the host boots
//! again or the files that it runs change.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::boot_files;
use super::options::BackendKind;

/// The maximum number of verdicts that are kept. Those of an older boot are dropped, so there are
/// few.
const MAX_VERDICTS: usize = 64;
/// The maximum number of bytes that are read: the file is ours, but anything may have been written
/// to it.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The verdicts of this boot, in the user's cache. Failure to read or write them is ignored: then a
/// machine that does not work costs its deadline each time.
#[derive(Debug)]
pub(super) struct Verdicts {
    file: Option<PathBuf>,
    boot: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    boot: String,
    /// The reasons of failures by key.
    failed: BTreeMap<String, String>,
}

impl Verdicts {
    /// Loads the verdicts of this host and user.
    pub(super) fn of_this_boot() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            file: boot_files::cache().map(|dir| dir.join("microvm-verdicts.json")),
            boot: boot.trim().to_owned(),
        }
    }

    /// Returns the reason why that backend failed with these files since the host booted, if it
    /// did.
    pub(super) fn failure(&self, kind: BackendKind, files: &[PathBuf]) -> Option<String> {
        self.load().failed.remove(&key(kind, files)?)
    }

    /// Records that the backend failed.
    pub(super) fn note_failed(&self, kind: BackendKind, files: &[PathBuf], why: &str) {
        self.change(kind, files, |failed, key| {
            if failed.len() < MAX_VERDICTS {
                failed.insert(key, why.to_owned());
            }
        });
    }

    /// Records that the backend works.
    pub(super) fn note_worked(&self, kind: BackendKind, files: &[PathBuf]) {
        if self.failure(kind, files).is_some() {
            self.change(kind, files, |failed, key| {
                failed.remove(&key);
            });
        }
    }

    fn change(
        &self,
        kind: BackendKind,
        files: &[PathBuf],
        change: impl FnOnce(&mut BTreeMap<String, String>, String),
    ) {
        let (Some(file), Some(key)) = (&self.file, key(kind, files)) else {
            return;
        };
        let mut stored = self.load();
        change(&mut stored.failed, key);
        if let Err(error) = store(file, &stored) {
            tracing::debug!(%error, file = %file.display(), "cannot store the verdict");
        }
    }

    fn load(&self) -> Stored {
        let empty = || Stored {
            boot: self.boot.clone(),
            ..Stored::default()
        };
        let Some(file) = self.file.as_deref().filter(|_| !self.boot.is_empty()) else {
            return empty();
        };
        let small = fs::metadata(file).is_ok_and(|metadata| metadata.len() <= MAX_FILE_BYTES);
        let text = small.then(|| fs::read(file).ok()).flatten();
        let stored = text.and_then(|text| serde_json::from_slice::<Stored>(&text).ok());
        stored
            .filter(|stored| stored.boot == self.boot)
            .unwrap_or_else(empty)
    }
}

/// Stores the verdicts. If another process with the same cache stores at the same time, the last
/// one wins.
fn store(file: &Path, stored: &Stored) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let new = tempfile::NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&new, stored)?;
    new.persist(file)?;
    Ok(())
}

/// Returns the key of a verdict: the backend and the files that it runs, with sizes and
/// modification times.
fn key(kind: BackendKind, files: &[PathBuf]) -> Option<String> {
    let mut key = kind.name().to_owned();
    for file in files {
        let metadata = fs::metadata(file).ok()?;
        let (path, size, changed) = (file.display(), metadata.len(), metadata.mtime());
        // Writing to a string does not fail.
        let _ = write!(key, " {path}:{size}:{changed}.{}", metadata.mtime_nsec());
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts(dir: &Path, boot: &str) -> Verdicts {
        Verdicts {
            file: Some(dir.join("sub/verdicts.json")),
            boot: boot.to_owned(),
        }
    }

    #[test]
    fn a_failure_counts_for_a_boot_and_a_program() {
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("uml");
        fs::write(&kernel, "one").unwrap();
        let files = [kernel.clone()];
        let first = verdicts(dir.path(), "first boot");
        assert_eq!(first.failure(BackendKind::Uml, &files), None);
        first.note_failed(BackendKind::Uml, &files, "no answer");
        assert_eq!(
            first.failure(BackendKind::Uml, &files).as_deref(),
            Some("no answer")
        );
        assert_eq!(first.failure(BackendKind::QemuTcg, &files), None);
        let second = verdicts(dir.path(), "second boot");
        assert_eq!(second.failure(BackendKind::Uml, &files), None);
        fs::write(&kernel, "another").unwrap();
        assert_eq!(first.failure(BackendKind::Uml, &files), None);
    }

    #[test]
    fn what_works_again_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let verdicts = verdicts(dir.path(), "boot");
        let files = [dir.path().to_owned()];
        verdicts.note_failed(BackendKind::Uml, &files, "once");
        verdicts.note_worked(BackendKind::Uml, &files);
        assert_eq!(verdicts.failure(BackendKind::Uml, &files), None);
    }

    #[test]
    fn a_broken_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let verdicts = verdicts(dir.path(), "boot");
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/verdicts.json"), "{]").unwrap();
        assert_eq!(verdicts.failure(BackendKind::Uml, &[]), None);
        verdicts.note_failed(BackendKind::Uml, &[], "why");
        assert_eq!(
            verdicts.failure(BackendKind::Uml, &[]).as_deref(),
            Some("why")
        );
    }
}
