//! What was learnt about backends on this host: one that failed is not tried again until the host boots
//! anew or what it runs is another.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::boot_files;
use super::options::Kind;

/// Verdicts that are kept; an older boot's are dropped, so that there are few.
const MAX_VERDICTS: usize = 64;
/// What is read of the file at most: it is ours, but anybody may have written to it.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// The verdicts of this boot, in the user's cache. That it can't be read or written is no failure: then
/// a machine that does not work costs its deadline each time.
#[derive(Debug)]
pub(super) struct Verdicts {
    file: Option<PathBuf>,
    boot: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    boot: String,
    /// Why it failed.
    failed: BTreeMap<String, String>,
}

impl Verdicts {
    /// Those of this host and user.
    pub(super) fn of_this_boot() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            file: boot_files::cache().map(|dir| dir.join("microvm-verdicts.json")),
            boot: boot.trim().to_owned(),
        }
    }

    /// Why that backend failed with these files, if it did since the host booted.
    pub(super) fn failure(&self, kind: Kind, files: &[PathBuf]) -> Option<String> {
        self.load().failed.remove(&key(kind, files)?)
    }

    /// Notes that it failed.
    pub(super) fn failed(&self, kind: Kind, files: &[PathBuf], why: &str) {
        self.change(kind, files, |failed, key| {
            if failed.len() < MAX_VERDICTS {
                failed.insert(key, why.to_owned());
            }
        });
    }

    /// Notes that it works.
    pub(super) fn worked(&self, kind: Kind, files: &[PathBuf]) {
        if self.failure(kind, files).is_some() {
            self.change(kind, files, |failed, key| {
                failed.remove(&key);
            });
        }
    }

    fn change(
        &self,
        kind: Kind,
        files: &[PathBuf],
        change: impl FnOnce(&mut BTreeMap<String, String>, String),
    ) {
        let (Some(file), Some(key)) = (&self.file, key(kind, files)) else {
            return;
        };
        let mut stored = self.load();
        change(&mut stored.failed, key);
        if let Err(error) = store(file, &stored) {
            tracing::debug!(%error, file = %file.display(), "verdict not kept");
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
        let small = fs::metadata(file).is_ok_and(|told| told.len() <= MAX_FILE_BYTES);
        let text = small.then(|| fs::read(file).ok()).flatten();
        let stored = text.and_then(|text| serde_json::from_slice::<Stored>(&text).ok());
        stored
            .filter(|stored| stored.boot == self.boot)
            .unwrap_or_else(empty)
    }
}

/// Another user of the same cache may store at the same time: the last one's verdicts stay.
fn store(file: &Path, stored: &Stored) -> std::io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let new = tempfile::NamedTempFile::new_in(dir)?;
    serde_json::to_writer(&new, stored)?;
    new.persist(file)?;
    Ok(())
}

/// The backend and what it runs: paths with their sizes and times of change.
fn key(kind: Kind, files: &[PathBuf]) -> Option<String> {
    let mut key = kind.name().to_owned();
    for file in files {
        let told = fs::metadata(file).ok()?;
        let (path, size, changed) = (file.display(), told.len(), told.mtime());
        // Writing to a string does not fail.
        let _ = write!(key, " {path}:{size}:{changed}.{}", told.mtime_nsec());
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
        assert_eq!(first.failure(Kind::Uml, &files), None);
        first.failed(Kind::Uml, &files, "no answer");
        assert_eq!(
            first.failure(Kind::Uml, &files).as_deref(),
            Some("no answer")
        );
        assert_eq!(first.failure(Kind::QemuTcg, &files), None);
        let second = verdicts(dir.path(), "second boot");
        assert_eq!(second.failure(Kind::Uml, &files), None);
        fs::write(&kernel, "another").unwrap();
        assert_eq!(first.failure(Kind::Uml, &files), None);
    }

    #[test]
    fn what_works_again_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let verdicts = verdicts(dir.path(), "boot");
        let files = [dir.path().to_owned()];
        verdicts.failed(Kind::Uml, &files, "once");
        verdicts.worked(Kind::Uml, &files);
        assert_eq!(verdicts.failure(Kind::Uml, &files), None);
    }

    #[test]
    fn a_broken_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let verdicts = verdicts(dir.path(), "boot");
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/verdicts.json"), "{]").unwrap();
        assert_eq!(verdicts.failure(Kind::Uml, &[]), None);
        verdicts.failed(Kind::Uml, &[], "why");
        assert_eq!(verdicts.failure(Kind::Uml, &[]).as_deref(), Some("why"));
    }
}
