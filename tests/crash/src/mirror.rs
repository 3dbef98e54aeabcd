//! Copying of a filesystem's initial files to the model.

use anyhow::{Context, Result};
use diskfs_vfs::{
    FileType, FsRead, FsWrite, InodeNumber, Metadata, NewAttributes, NewKind, SetMetadata, SetTime,
    SetXattr,
};

use crate::files::Files;
use crate::operation::FileId;

/// The maximum size of an initial file.
const LARGEST_BYTES: u64 = 1 << 20;

/// Creates the files of `subject` in `model`, which is empty. Returns their numbers in both.
///
/// # Errors
/// The errors of both.
pub fn mirror(subject: &dyn FsRead, model: &dyn FsWrite) -> Result<(Files, Files)> {
    let mut files = (Files::of_root(subject), Files::of_root(model));
    let mut found = 0;
    let mut pending = vec![(subject.root(), model.root())];
    while let Some((from, to)) = pending.pop() {
        for entry in subject.read_dir(from, 0)? {
            let entry = entry?;
            if entry.name == b"." || entry.name == b".." {
                continue;
            }
            let made = copy(subject, entry.inode, model, to, &entry.name)
                .with_context(|| format!("/{}", entry.name.escape_ascii()))?;
            files.0.add(FileId::found(found), entry.inode);
            files.1.add(FileId::found(found), made);
            found += 1;
            if subject.metadata(entry.inode)?.is_dir() {
                pending.push((entry.inode, made));
            }
        }
        set(subject, from, model, to)?;
    }
    Ok(files)
}

fn copy(
    subject: &dyn FsRead,
    from: InodeNumber,
    model: &dyn FsWrite,
    dir: InodeNumber,
    name: &[u8],
) -> Result<InodeNumber> {
    let metadata = subject.metadata(from)?;
    let target = match metadata.file_type {
        FileType::Symlink => subject.read_link(from)?,
        _ => Vec::new(),
    };
    let kind = kind(&metadata, &target);
    let made = model.create(dir, name, kind, &NewAttributes::for_root(0o600))?;
    if metadata.file_type == FileType::Regular {
        let contents = diskfs_vfs::read_file(subject, from, LARGEST_BYTES)?;
        model.write_at(made, 0, &contents)?;
    }
    set(subject, from, model, made)?;
    Ok(made)
}

fn kind<'a>(metadata: &Metadata, target: &'a [u8]) -> NewKind<'a> {
    let device = metadata.device.unwrap_or_default();
    match metadata.file_type {
        FileType::Regular => NewKind::Regular,
        FileType::Directory => NewKind::Directory,
        FileType::Symlink => NewKind::Symlink(target),
        FileType::CharacterDevice => NewKind::CharacterDevice(device),
        FileType::BlockDevice => NewKind::BlockDevice(device),
        FileType::Fifo => NewKind::Fifo,
        FileType::Socket => NewKind::Socket,
    }
}

/// Sets the metadata and attributes of the copy to those of the original.
fn set(
    subject: &dyn FsRead,
    from: InodeNumber,
    model: &dyn FsWrite,
    to: InodeNumber,
) -> Result<()> {
    let metadata = subject.metadata(from)?;
    for name in subject.list_xattrs(from)? {
        let value = subject.xattr(from, &name)?.unwrap_or_default();
        model.set_xattr(to, &name, &value, SetXattr::Any)?;
    }
    let change = SetMetadata {
        permissions: (metadata.file_type != FileType::Symlink).then_some(metadata.permissions),
        uid: Some(metadata.uid),
        gid: Some(metadata.gid),
        accessed: Some(SetTime::At(metadata.accessed)),
        modified: Some(SetTime::At(metadata.modified)),
        changed: Some(SetTime::At(metadata.changed)),
        flags: None,
    };
    model.set_metadata(to, &change)?;
    Ok(())
}
