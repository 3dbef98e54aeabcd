//! The owner, permissions, times and extended attributes of a copy.

use super::CopyInOptions;
use super::source::SourceFile;
use crate::copy_out::{Summary, count};
use crate::edit::remove_inherited_acls;
use crate::{ErrorKind, FileType, FsWrite, InodeNumber, Result, SetMetadata, SetTime, SetXattr};

/// Gives `inode` those attributes of `found` that the options keep.
///
/// The order matters: an ACL changes the mode, and every change updates the times.
pub(super) fn apply(
    fs: &dyn FsWrite,
    found: &dyn SourceFile,
    inode: InodeNumber,
    options: &CopyInOptions,
    summary: &mut Summary,
) -> Result<()> {
    let preserve = options.preserve;
    if preserve.xattrs {
        set_xattrs(fs, found, inode, summary)?;
    }
    let from = found.metadata();
    let (accessed, modified) = match options.newest_time {
        None => (from.accessed, from.modified),
        Some(newest) => (from.modified.min(newest), from.modified.min(newest)),
    };
    let permissions = preserve.mode && from.file_type != FileType::Symlink;
    let change = SetMetadata {
        permissions: permissions.then_some(from.permissions),
        uid: preserve.owner.then_some(from.uid),
        gid: preserve.owner.then_some(from.gid),
        accessed: preserve.times.then_some(SetTime::At(accessed)),
        modified: preserve.times.then_some(SetTime::At(modified)),
        ..SetMetadata::default()
    };
    if change == SetMetadata::default() {
        return Ok(());
    }
    fs.set_metadata(inode, &change)
}

fn set_xattrs(
    fs: &dyn FsWrite,
    found: &dyn SourceFile,
    inode: InodeNumber,
    summary: &mut Summary,
) -> Result<()> {
    let names = found.xattr_names()?;
    remove_inherited_acls(fs, inode, |name| names.iter().any(|kept| kept == name))?;
    for name in names {
        let Some(value) = found.xattr(&name)? else {
            count(&mut summary.xattrs_ignored);
            continue;
        };
        match fs.set_xattr(inode, &name, &value, SetXattr::Any) {
            Ok(()) => {}
            Err(error) if is_about_the_attribute(error.kind()) => {
                count(&mut summary.xattrs_ignored);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true if the file is complete except for the attribute that failed.
const fn is_about_the_attribute(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unsupported | ErrorKind::Invalid | ErrorKind::NoSpace | ErrorKind::NameTooLong
    )
}
