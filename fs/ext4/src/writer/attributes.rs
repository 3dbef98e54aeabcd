//! Changes of file metadata: owner, mode, times, flags, extended attributes.

use diskfs_vfs::{FileFlags, FileType, SetMetadata, SetTime, SetXattr, Timestamp};

use crate::error::{Error, ErrorKind, InInode, Result, Unsupported};
use crate::handle::Handle;
use crate::inode::{Inode, InodeFlags};
use crate::posix_acl::{self, PosixAcl};
use crate::xattr;

use super::Core;
use super::namespace::{live, not_append_only, not_immutable};

/// The credits: an inode, its block of attributes, a value's inode and blocks, bitmaps and
/// descriptors.
const CREDITS: u32 = 64;

impl Core {
    /// Changes metadata that `stat` shows.
    pub(crate) fn set_metadata(&self, number: u32, change: &SetMetadata) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = live(handle, number)?;
            check_changeable(&inode, change)?;
            if let Some(flags) = change.flags {
                set_flags(&mut inode, flags)?;
            }
            inode.uid = change.uid.unwrap_or(inode.uid);
            inode.gid = change.gid.unwrap_or(inode.gid);
            if let Some(permissions) = change.permissions {
                inode.permissions = permissions & 0o7777;
                follow_mode(handle, &mut inode)?;
            }
            self.store_write_time(&mut inode);
            set_times(&mut inode, change, handle.now());
            handle.store_attributes(&inode)
        })
    }

    /// Sets an extended attribute.
    pub(crate) fn set_xattr(
        &self,
        number: u32,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
    ) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = changeable(handle, number)?;
            check_exists(handle, &inode, name, how)?;
            match name {
                posix_acl::ACCESS => set_access_acl(handle, &mut inode, value)?,
                posix_acl::DEFAULT => set_default_acl(handle, &mut inode, value)?,
                _ => xattr::set(handle, &mut inode, name, Some(value))?,
            }
            inode.changed = handle.now();
            handle.store(&inode)
        })
    }

    /// Removes an extended attribute.
    pub(crate) fn remove_xattr(&self, number: u32, name: &[u8]) -> Result<()> {
        self.update(&[number], CREDITS, |handle| {
            let mut inode = changeable(handle, number)?;
            check_exists(handle, &inode, name, SetXattr::Replace)?;
            xattr::set(handle, &mut inode, name, None)?;
            inode.changed = handle.now();
            handle.store(&inode)
        })
    }
}

fn changeable(handle: &Handle<'_>, number: u32) -> Result<Inode> {
    let inode = live(handle, number)?;
    not_immutable(&inode)?;
    not_append_only(&inode)?;
    Ok(inode)
}

/// Checks a change against the flags of the inode. An immutable file allows only changes of its
/// flags; an append-only file also allows setting its times to the present.
fn check_changeable(inode: &Inode, change: &SetMetadata) -> Result<()> {
    let flags_only = SetMetadata {
        flags: change.flags,
        ..SetMetadata::default()
    };
    if *change == flags_only {
        return Ok(());
    }
    not_immutable(inode)?;
    // A client that keeps times itself (the kernel over FUSE) passes the present as the inode's
    // time of change.
    let to_present =
        |time: Option<SetTime>| !matches!(time, Some(SetTime::At(_))) || time == change.changed;
    let present_only = SetMetadata {
        flags: change.flags,
        accessed: change.accessed,
        modified: change.modified,
        changed: change.changed,
        ..SetMetadata::default()
    };
    if *change == present_only && to_present(change.accessed) && to_present(change.modified) {
        return Ok(());
    }
    not_append_only(inode)
}

fn set_flags(inode: &mut Inode, flags: FileFlags) -> Result<()> {
    let fixed = [
        (flags.encrypted, InodeFlags::ENCRYPT, "encrypted"),
        (flags.verity, InodeFlags::VERITY, "protected by fs-verity"),
    ];
    for (wanted, flag, what) in fixed {
        if wanted != inode.has(flag) {
            let reason = format!("cannot change whether a file is {what}");
            return Err(Error::new(ErrorKind::Unsupported, reason)).in_inode(inode.number);
        }
    }
    if flags.casefold != inode.has(InodeFlags::CASEFOLD) {
        let reason = "cannot change whether a directory is case-insensitive (casefold)";
        return Err(Error::new(ErrorKind::Unsupported, reason)).in_inode(inode.number);
    }
    inode.flags.set(InodeFlags::IMMUTABLE, flags.immutable);
    inode.flags.set(InodeFlags::APPEND, flags.append_only);
    inode.flags.set(InodeFlags::NO_DUMP, flags.no_dump);
    Ok(())
}

fn set_times(inode: &mut Inode, change: &SetMetadata, present: Timestamp) {
    let time = |set: Option<SetTime>, old: Timestamp| match set {
        None => old,
        Some(SetTime::Now) => present,
        Some(SetTime::At(time)) => time,
    };
    inode.accessed = time(change.accessed, inode.accessed);
    inode.modified = time(change.modified, inode.modified);
    inode.changed = time(change.changed.or(Some(SetTime::Now)), inode.changed);
}

/// Updates the access list after a change of the mode.
fn follow_mode(handle: &Handle<'_>, inode: &mut Inode) -> Result<()> {
    if inode.is(FileType::Symlink) {
        return Ok(());
    }
    let Some(value) = xattr::get(handle.volume(), inode, posix_acl::ACCESS)? else {
        return Ok(());
    };
    if let Some(mut acl) = PosixAcl::parse(&value)? {
        acl.set_permissions(inode.permissions);
        xattr::set(handle, inode, posix_acl::ACCESS, Some(&acl.to_bytes()))?;
    }
    Ok(())
}

fn set_access_acl(handle: &Handle<'_>, inode: &mut Inode, value: &[u8]) -> Result<()> {
    if inode.is(FileType::Symlink) {
        let reason = "a symlink cannot have an access control list";
        return Err(Error::new(ErrorKind::Unsupported, reason)).in_inode(inode.number);
    }
    let acl = PosixAcl::parse(value)?;
    if let Some(acl) = &acl {
        inode.permissions = (inode.permissions & !0o777) | acl.permissions();
    }
    // A list that the mode expresses completely is not stored.
    let list = acl.filter(|acl| !acl.is_mode());
    let value = list.map(|acl| acl.to_bytes());
    xattr::set(handle, inode, posix_acl::ACCESS, value.as_deref())
}

fn set_default_acl(handle: &Handle<'_>, inode: &mut Inode, value: &[u8]) -> Result<()> {
    let acl = PosixAcl::parse(value)?;
    if !inode.is(FileType::Directory) && acl.is_some() {
        let reason = "only a directory can have a default access control list";
        return Err(Error::new(ErrorKind::Denied, reason)).in_inode(inode.number);
    }
    let value = acl.map(|acl| acl.to_bytes());
    xattr::set(handle, inode, posix_acl::DEFAULT, value.as_deref())
}

fn check_exists(handle: &Handle<'_>, inode: &Inode, name: &[u8], how: SetXattr) -> Result<()> {
    // An attribute name that the file cannot have is reported first, as by the kernel.
    xattr::check_name(inode, name).in_inode(inode.number)?;
    if how == SetXattr::Any {
        return Ok(());
    }
    let exists = xattr::get(handle.volume(), inode, name)?.is_some();
    let error = match how {
        SetXattr::Create if exists => Error::new(ErrorKind::Exists, "the attribute exists already"),
        SetXattr::Replace if !exists => Error::new(ErrorKind::NoAttribute, "no such attribute"),
        _ => return Ok(()),
    };
    Err(error).in_inode(inode.number)
}

/// Fails for a file whose contents this driver cannot write.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn check_writable(inode: &Inode) -> Result<()> {
    if inode.has(InodeFlags::ENCRYPT) {
        return Err(Unsupported::Encrypted).in_inode(inode.number);
    }
    if inode.has(InodeFlags::VERITY) {
        return Err(Unsupported::Verity).in_inode(inode.number);
    }
    Ok(())
}
