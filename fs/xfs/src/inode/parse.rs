//! Conversion of an inode's bytes to an [`Inode`].

use diskfs_vfs::FileType;

use super::fork::{Fork, ForkHeader};
use super::raw::{RawInode, RawInodeV3};
use super::time::timestamp;
use super::{Inode, InodeFlags, InodeFlags2};
use crate::bytes::{index, len_u64};
use crate::error::{Error, Result, corrupt};
use crate::features::{Features2, Incompatible, ReadOnlyCompatible};
use crate::superblock::Superblock;

/// The parts of an inode whose checksum is valid.
pub(super) struct Parts<'a> {
    pub(super) superblock: &'a Superblock,
    pub(super) raw: &'a RawInode,
    pub(super) flags2: InodeFlags2,
    /// The bytes of the forks.
    pub(super) literal: &'a [u8],
    pub(super) at: u64,
}

impl Parts<'_> {
    fn invalid(&self, what: &str) -> Error {
        corrupt(format!("invalid inode: {what}"), self.at)
    }

    fn has(&self, flag: InodeFlags) -> bool {
        InodeFlags::from_bits_retain(self.raw.di_flags.get()).contains(flag)
    }

    /// Returns the inode with this number, which is in use.
    pub(super) fn inode(&self, number: u64, v3: Option<&RawInodeV3>) -> Result<Inode> {
        let raw = self.raw;
        let mode = raw.di_mode.get();
        let file_type = FileType::from_mode(mode.into())
            .ok_or_else(|| self.invalid(&format!("unknown file type in mode {mode:#o}")))?;
        let bigtime = self.flags2.contains(InodeFlags2::BIGTIME)
            && self.superblock.features.has(Incompatible::BIGTIME);
        let time = |field: zerocopy::big_endian::U64| timestamp(field.get(), bigtime);
        self.check_size(file_type)?;
        let (data, attributes) = self.forks(file_type)?;
        Ok(Inode {
            number,
            at: self.at,
            file_type,
            permissions: mode & 0o7777,
            uid: raw.di_uid.get(),
            gid: raw.di_gid.get(),
            links: match raw.di_version {
                1 => raw.di_onlink.get().into(),
                _ => raw.di_nlink.get(),
            },
            project: self.project(),
            size_bytes: raw.di_size.get(),
            blocks: raw.di_nblocks.get(),
            generation: raw.di_gen.get(),
            accessed: time(raw.di_atime),
            modified: time(raw.di_mtime),
            changed: time(raw.di_ctime),
            created: v3.map(|v3| time(v3.di_crtime)),
            flags: InodeFlags::from_bits_retain(raw.di_flags.get()),
            flags2: self.flags2,
            data,
            attributes,
        })
    }

    fn project(&self) -> u32 {
        let superblock = self.superblock;
        let has_32_bits = superblock.has_checksums()
            || superblock
                .features
                .features2
                .contains(Features2::PROJID32BIT);
        let high = if has_32_bits {
            self.raw.di_projid_hi.get()
        } else {
            0
        };
        match self.raw.di_version {
            1 => 0,
            _ => u32::from(high).wrapping_shl(16) | u32::from(self.raw.di_projid_lo.get()),
        }
    }

    /// Checks the size, and the number of blocks.
    fn check_size(&self, file_type: FileType) -> Result<()> {
        let size = self.raw.di_size.get();
        let has_contents = matches!(file_type, FileType::Directory | FileType::Symlink);
        if size > u64::MAX.wrapping_shr(1) || (has_contents && size == 0) {
            return Err(self.invalid(&format!("its size is {size}")));
        }
        // Blocks of the real-time device count, too.
        let superblock = self.superblock;
        let all = superblock.blocks.saturating_add(superblock.realtime_blocks);
        let blocks = self.raw.di_nblocks.get();
        // With shared extents, a file may have more blocks than the device.
        let may_share = superblock.features.has_ro(ReadOnlyCompatible::REFLINK)
            && file_type == FileType::Regular;
        if blocks > all && !may_share {
            return Err(self.invalid(&format!("it has {blocks} blocks, more than the device")));
        }
        Ok(())
    }

    /// Returns the numbers of extents of both forks.
    fn extent_counts(&self) -> (u64, u64) {
        let raw = self.raw;
        if self.flags2.contains(InodeFlags2::NREXT64) {
            return (raw.di_big_nextents.get(), raw.di_nextents.get().into());
        }
        (raw.di_nextents.get().into(), raw.di_anextents.get().into())
    }

    fn forks(&self, file_type: FileType) -> Result<(Fork, Option<Fork>)> {
        let (data_extents, attribute_extents) = self.extent_counts();
        let total = data_extents.saturating_add(attribute_extents);
        if total > self.raw.di_nblocks.get() {
            return Err(self.invalid(&format!("it has {total} extents, more than blocks")));
        }
        let split = index(self.raw.di_forkoff).saturating_mul(8);
        let (data, attributes) = match split {
            0 => (self.literal, None),
            _ => self
                .literal
                .split_at_checked(split)
                .map(|(data, attributes)| (data, Some(attributes)))
                .ok_or_else(|| self.invalid("its attribute fork lies outside"))?,
        };
        self.check_format(file_type)?;
        let header = ForkHeader {
            format: self.raw.di_format,
            extents: data_extents,
            bytes: data,
            local_bytes: self.raw.di_size.get(),
            realtime: file_type == FileType::Regular && self.has(InodeFlags::REALTIME),
            at: self.at,
        };
        let data = Fork::parse(self.superblock, &header)?;
        let attributes = attributes.map(|bytes| {
            let header = ForkHeader {
                format: self.raw.di_aformat,
                extents: attribute_extents,
                bytes,
                // The form has its own length.
                local_bytes: len_u64(bytes.len()),
                realtime: false,
                at: self.at,
            };
            match header.format {
                1..=3 => Fork::parse(self.superblock, &header),
                other => Err(self.invalid(&format!("unknown attribute format {other}"))),
            }
        });
        Ok((data, attributes.transpose()?))
    }

    /// Checks that the data fork has a form that the type of file can have.
    fn check_format(&self, file_type: FileType) -> Result<()> {
        let format = self.raw.di_format;
        let fits = match file_type {
            FileType::Regular => (2..=3).contains(&format) || format == 5,
            FileType::Directory => (1..=3).contains(&format) || format == 5,
            FileType::Symlink => (1..=2).contains(&format),
            _ => format == 0,
        };
        if fits {
            return Ok(());
        }
        Err(self.invalid(&format!(
            "its type of file cannot have fork format {format}"
        )))
    }
}
