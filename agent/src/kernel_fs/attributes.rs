//! Conversion of statx results into metadata.

use diskfs_vfs::{
    Device, ErrorKind, FileFlags, FileType, InodeNumber, Metadata, Result, Timestamp,
};
use rustix::fs::{Statx, StatxAttributes, StatxFlags, StatxTimestamp};

/// The unit of `stx_blocks`.
const BLOCK_BYTES: u64 = 512;

pub(super) fn metadata(inode: InodeNumber, generation: u32, stat: &Statx) -> Result<Metadata> {
    let file_type = FileType::from_mode(stat.stx_mode.into()).ok_or(ErrorKind::Corrupt)?;
    let is_device = matches!(file_type, FileType::CharacterDevice | FileType::BlockDevice);
    let has_created = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME);
    Ok(Metadata {
        inode,
        generation,
        file_type,
        permissions: stat.stx_mode & 0o7777,
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size_bytes: stat.stx_size,
        allocated_bytes: stat.stx_blocks.saturating_mul(BLOCK_BYTES),
        accessed: timestamp(stat.stx_atime),
        modified: timestamp(stat.stx_mtime),
        changed: timestamp(stat.stx_ctime),
        created: has_created.then(|| timestamp(stat.stx_btime)),
        device: is_device.then_some(Device {
            major: stat.stx_rdev_major,
            minor: stat.stx_rdev_minor,
        }),
        block_size: stat.stx_blksize,
        flags: flags(stat.stx_attributes),
    })
}

fn timestamp(time: StatxTimestamp) -> Timestamp {
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}

/// Converts the flags. statx does not report `casefold`.
fn flags(attributes: StatxAttributes) -> FileFlags {
    FileFlags {
        immutable: attributes.contains(StatxAttributes::IMMUTABLE),
        append_only: attributes.contains(StatxAttributes::APPEND),
        encrypted: attributes.contains(StatxAttributes::ENCRYPTED),
        verity: attributes.contains(StatxAttributes::VERITY),
        casefold: false,
        no_dump: attributes.contains(StatxAttributes::NODUMP),
    }
}
