//! The inode of a member: its sizes, and the checks that a filesystem can store it.

use diskfs_vfs::{Device, Error, ErrorKind, FileType, Result};

use super::inode::{Body, Inode, Source, XattrSize};
use crate::{Member, MemberKind};

/// The unit of [`allocated_bytes`].
const BLOCK_BYTES: u64 = 4096;

/// The limit on the length of a symlink's target (Linux, `PATH_MAX` with its terminating zero).
const TARGET_MAX_BYTES: usize = 4095;

/// Returns the inode of a member that is neither a directory nor a hard link.
pub(super) fn new_file(member: &Member, source: Source, unread_bytes: u64) -> Result<Inode> {
    let body = match &member.kind {
        MemberKind::Symlink(target) => Body::Symlink(checked_target(target)?.into()),
        MemberKind::CharacterDevice(device) => {
            check_device(*device)?;
            Body::Special(FileType::CharacterDevice)
        }
        MemberKind::BlockDevice(device) => {
            check_device(*device)?;
            Body::Special(FileType::BlockDevice)
        }
        MemberKind::Fifo => Body::Special(FileType::Fifo),
        MemberKind::Regular | MemberKind::Directory | MemberKind::HardLink(_) => Body::Regular {
            size_bytes: member.size_bytes,
            allocated_bytes: allocated_bytes(member, unread_bytes)?,
        },
    };
    Ok(Inode {
        source: Some(source),
        links: 1,
        xattrs: xattr_sizes(member)?,
        body,
    })
}

fn checked_target(target: &[u8]) -> Result<&[u8]> {
    if target.is_empty() || target.len() > TARGET_MAX_BYTES || target.contains(&0) {
        let reason = format!(
            "invalid target of a symlink: it needs 1 to {TARGET_MAX_BYTES} bytes without zeroes"
        );
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    Ok(target)
}

/// Checks that Linux can have the device number: 12 bits of major number, 20 of minor number.
fn check_device(device: Device) -> Result<()> {
    if device.major >= 1 << 12 || device.minor >= 1 << 20 {
        let reason = format!("invalid device number {}:{}", device.major, device.minor);
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    Ok(())
}

/// Returns the size of the data in blocks of 4096 bytes, without holes.
///
/// # Errors
/// `Corrupt` if the map of a sparse file does not match its size or its stored contents.
fn allocated_bytes(member: &Member, unread_bytes: u64) -> Result<u64> {
    let Some(runs) = &member.runs else {
        return Ok(member
            .size_bytes
            .div_ceil(BLOCK_BYTES)
            .saturating_mul(BLOCK_BYTES));
    };
    let (mut blocks, mut data_bytes, mut block_end) = (0_u64, 0_u64, 0_u64);
    for (offset, len_bytes) in runs.iter().filter(|(_, len_bytes)| *len_bytes > 0) {
        let end = offset.saturating_add(*len_bytes);
        let last_end = end.div_ceil(BLOCK_BYTES);
        let first = (offset / BLOCK_BYTES).max(block_end);
        blocks = blocks.saturating_add(last_end.saturating_sub(first));
        block_end = last_end;
        data_bytes = data_bytes.saturating_add(*len_bytes);
        if end > member.size_bytes {
            let reason = "invalid map of a sparse file in the archive: a run ends after the end \
                          of the file";
            return Err(Error::new(ErrorKind::Corrupt, reason));
        }
    }
    if data_bytes != unread_bytes {
        let reason = format!(
            "invalid map of a sparse file in the archive: {data_bytes} bytes of data, but \
             {unread_bytes} bytes are stored"
        );
        return Err(Error::new(ErrorKind::Corrupt, reason));
    }
    Ok(blocks.saturating_mul(BLOCK_BYTES))
}

/// Returns the sizes of the extended attributes.
///
/// # Errors
/// `Unsupported` for an ACL with names that have no number; `Invalid` for an attribute that Linux
/// can't have.
pub(super) fn xattr_sizes(member: &Member) -> Result<Box<[XattrSize]>> {
    if member.has_named_acl {
        let reason = "an ACL names a user or a group without a number";
        let error = Error::new(ErrorKind::Unsupported, reason);
        return Err(error.with_hint(
            "create the archive with `tar --xattrs --xattrs-include='*'` instead of `--acls`",
        ));
    }
    let sizes = member.xattrs.iter().map(|(name, value)| {
        let is_name = (1..=255).contains(&name.len()) && !name.contains(&0);
        let value_bytes = u32::try_from(value.len()).ok();
        let value_bytes = value_bytes.filter(|bytes| is_name && *bytes <= 64 << 10);
        let name_bytes = u16::try_from(name.len()).ok();
        let size = value_bytes.zip(name_bytes);
        let size = size.map(|(value_bytes, name_bytes)| XattrSize {
            name_bytes,
            value_bytes,
        });
        size.ok_or_else(|| {
            let reason = "invalid extended attribute: its name or value is too long";
            Error::new(ErrorKind::Invalid, reason)
        })
    });
    sizes.collect()
}
