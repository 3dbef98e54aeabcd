//! Installation of the files of an appliance.

use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::NamedTempFile;

use diskfs_disk::{Error, Result};

/// Replaces a file atomically: the previous one may be in use.
pub(crate) fn install(file: &Path, contents: &[u8], mode: u32) -> Result<()> {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    let mut new = NamedTempFile::new_in(dir.unwrap_or(Path::new(".")))?;
    new.write_all(contents)?;
    new.as_file()
        .set_permissions(Permissions::from_mode(mode))?;
    let kept = new.persist(file);
    kept.map_err(|e| Error::from(e.error).in_file(file))?;
    Ok(())
}
