//! The fields of an inode in use: checksum, type, flags and special contents.

use diskfs_vfs::FileType;

use super::claims::lacks_large_file;
use super::context::Context;
use super::finding::FindingKind;
use super::special::BAD_BLOCKS;
use super::tree::TreeVisitor;
use super::{extent_walk, map_walk};
use crate::bytes::{index, len_u64};
use crate::error::Result;
use crate::features::{Compatible, Features, Incompatible, ReadOnlyCompatible};
use crate::inode::{Inode, InodeFlags, RawInode};
use crate::run::Run;
use crate::xattr;

/// The size of `i_block`.
const BLOCK_FIELD_BYTES: usize = 60;

/// The flags that forbid changes.
const IMMUTABLE: InodeFlags = InodeFlags::IMMUTABLE.union(InodeFlags::APPEND);

/// An inode that is being checked.
#[derive(Clone, Copy)]
pub(super) struct InodeFields<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) inode: &'a Inode,
    pub(super) raw: &'a RawInode,
    pub(super) bytes: &'a [u8],
}

impl InodeFields<'_> {
    /// Checks all fields that don't depend on the blocks.
    pub(super) fn check(&self) {
        self.check_checksum();
        let inode = self.inode;
        if inode.deleted != 0 && !self.context.orphans.contains(&inode.number) {
            let detail = format!("the inode is in use, but i_dtime is {}", inode.deleted);
            self.found(FindingKind::InodeDeletionTime, detail);
        }
        if inode.file_type.is_none() {
            let mode = self.raw.i_mode.get();
            self.found(
                FindingKind::InodeMode,
                format!("i_mode is {mode:#o}, an unknown type"),
            );
        }
        self.check_zero_fields();
        self.check_flags();
        if matches!(
            inode.file_type,
            Some(
                FileType::CharacterDevice
                    | FileType::BlockDevice
                    | FileType::Fifo
                    | FileType::Socket
            )
        ) {
            self.check_special();
        }
        if inode.is(FileType::Symlink) && inode.flags.intersects(IMMUTABLE) {
            let detail = format!(
                "i_flags is {:#x}: a symlink cannot be immutable or append-only",
                inode.flags.bits()
            );
            self.found(FindingKind::InodeFlags, detail);
        }
        if lacks_large_file(self.context, inode) {
            let size = inode.size_bytes;
            let detail = format!("the size is {size}, which needs the feature `large_file`");
            self.found(FindingKind::InodeSize, detail);
        }
    }

    /// Returns true if `i_block` refers to blocks.
    pub(super) fn has_blocks(&self) -> bool {
        let inode = self.inode;
        let is_container = match inode.file_type {
            Some(FileType::Regular | FileType::Directory) => true,
            Some(FileType::Symlink) => !self.is_short_symlink(),
            Some(_) => false,
            None => inode.number == BAD_BLOCKS,
        };
        is_container && !inode.has(InodeFlags::INLINE_DATA)
    }

    /// Walks along all blocks of the inode.
    pub(super) fn walk(&self, visitor: &mut dyn TreeVisitor) -> Result<()> {
        if self.inode.has(InodeFlags::EXTENTS) {
            return extent_walk::walk(self.context, self.inode, visitor);
        }
        map_walk::walk(self.context, self.inode, visitor)
    }

    /// Verifies the checksum.
    pub(super) fn check_checksum(&self) {
        if let Err(e) = self.inode.verify_checksum(self.bytes) {
            self.found(FindingKind::InodeChecksum, e.to_string());
        }
    }

    fn check_zero_fields(&self) {
        let raw = self.raw;
        let features = self.features();
        let is_wide = self.inode.is(FileType::Regular) || features.has(Incompatible::LARGE_DIR);
        let unless = |allowed: bool, value: u32| if allowed { 0 } else { value };
        let fields = [
            ("i_faddr", raw.i_obso_faddr.get()),
            (
                "i_file_acl_high",
                unless(
                    features.has(Incompatible::SIXTY_FOUR_BIT),
                    u32::from(raw.l_i_file_acl_high.get()),
                ),
            ),
            (
                "i_blocks_high",
                unless(
                    features.has(ReadOnlyCompatible::HUGE_FILE),
                    u32::from(raw.l_i_blocks_high.get()),
                ),
            ),
            ("i_size_high", unless(is_wide, raw.i_size_high.get())),
        ];
        for (field, value) in fields {
            if value != 0 {
                self.found(
                    FindingKind::InodeField,
                    format!("{field} is {value:#x}, expected 0"),
                );
            }
        }
    }

    fn check_flags(&self) {
        let features = self.features();
        let is_directory = self.inode.is(FileType::Directory);
        let needs: [(InodeFlags, &str, bool); 7] = [
            (
                InodeFlags::EA_INODE,
                "only a regular file can contain the value of an attribute",
                self.inode.is(FileType::Regular),
            ),
            (
                InodeFlags::IMAGIC,
                "an inode that is opened by number needs the feature `imagic_inodes`",
                features.has(Compatible::IMAGIC_INODES),
            ),
            (
                InodeFlags::EXTENTS,
                "an extent tree needs the feature `extent`",
                features.has(Incompatible::EXTENTS),
            ),
            (
                InodeFlags::INLINE_DATA,
                "inline data needs the feature `inline_data`",
                features.has(Incompatible::INLINE_DATA),
            ),
            (
                InodeFlags::INDEX,
                "an index needs a directory and the feature `dir_index`",
                is_directory && features.has(Compatible::DIR_INDEX),
            ),
            (
                InodeFlags::CASEFOLD,
                "case folding needs a directory and the feature `casefold`",
                is_directory && features.has(Incompatible::CASEFOLD),
            ),
            (
                InodeFlags::EXTENTS | InodeFlags::INLINE_DATA,
                "inline data cannot have an extent tree",
                false,
            ),
        ];
        for (flags, problem, is_valid) in needs {
            if self.inode.has(flags) && !is_valid {
                let found = self.inode.flags.bits();
                self.found(
                    FindingKind::InodeFlags,
                    format!("i_flags is {found:#x}: {problem}"),
                );
            }
        }
    }

    /// Checks a device, a FIFO or a socket.
    fn check_special(&self) {
        let forbidden = IMMUTABLE
            .union(InodeFlags::EXTENTS)
            .union(InodeFlags::INDEX);
        let flags = self.inode.flags;
        if flags.intersects(forbidden) {
            let detail = format!(
                "i_flags is {:#x}: a device, FIFO or socket cannot be immutable, append-only, \
                 indexed or have an extent tree",
                flags.bits()
            );
            self.found(FindingKind::InodeFlags, detail);
        }
        if self.inode.size_bytes != 0 {
            let size = self.inode.size_bytes;
            let detail = format!("the size of a device, FIFO or socket is {size}, expected 0");
            self.found(FindingKind::InodeSize, detail);
        }
    }

    /// Checks the size of inline data.
    pub(super) fn check_inline_data(&self) {
        let size = self.inode.size_bytes;
        let rest = match xattr::inline_data(self.inode) {
            Ok(Some(rest)) => rest.len(),
            Ok(None) => {
                let detail = "the attribute `system.data` is missing";
                return self.found(FindingKind::InlineData, detail.into());
            }
            Err(e) => return self.found(FindingKind::InlineData, e.to_string()),
        };
        let room = len_u64(BLOCK_FIELD_BYTES.saturating_add(rest));
        let is_valid = if self.inode.is(FileType::Directory) {
            size == room
        } else {
            size <= room
        };
        if !is_valid {
            let detail = format!("the size is {size}, but the inline data has {room} bytes");
            self.found(FindingKind::InlineData, detail);
        }
    }

    /// Returns true if the target of a symlink is in `i_block`.
    pub(super) fn is_short_symlink(&self) -> bool {
        let size = self.inode.size_bytes;
        self.inode.is(FileType::Symlink)
            && !self.inode.has(InodeFlags::INLINE_DATA)
            && size != 0
            && size < len_u64(BLOCK_FIELD_BYTES)
    }

    /// Checks a symlink's target, in `i_block` or in the block of `run`.
    pub(super) fn check_symlink(&self, run: Option<Run>) -> Result<()> {
        let size = self.inode.size_bytes;
        let block_size = self.context.superblock().block_size;
        if size == 0 || size >= u64::from(block_size.bytes()) {
            let detail = format!("the target has {size} bytes, expected 1 to one block");
            self.found(FindingKind::Symlink, detail);
            return Ok(());
        }
        if self
            .inode
            .has(InodeFlags::INLINE_DATA | InodeFlags::ENCRYPT)
            || self.inode.has(InodeFlags::INLINE_DATA)
        {
            return Ok(());
        }
        if self.is_short_symlink() {
            if self.inode.has(InodeFlags::EXTENTS) {
                let detail = "a target within the inode cannot have an extent tree";
                self.found(FindingKind::Symlink, detail.into());
            } else {
                self.check_target(&self.inode.block);
            }
            return Ok(());
        }
        match run.filter(|run| run.file_block.0 == 0) {
            Some(run) => {
                let bytes = self.context.volume.read_blocks(run.fs_block, 1)?;
                self.check_target(&bytes);
            }
            None => self.found(FindingKind::Symlink, "the target's block is missing".into()),
        }
        Ok(())
    }

    fn check_target(&self, stored: &[u8]) {
        if self.inode.has(InodeFlags::ENCRYPT) {
            return;
        }
        let len = stored.iter().position(|&byte| byte == 0);
        let len = len.unwrap_or(stored.len());
        if len != index(self.inode.size_bytes) {
            let size = self.inode.size_bytes;
            let detail = format!("the target has {len} bytes, but the size is {size}");
            self.found(FindingKind::Symlink, detail);
        }
    }

    fn features(&self) -> Features {
        self.context.superblock().features
    }

    fn found(&self, kind: FindingKind, detail: String) {
        self.context.found_in(kind, self.inode.number, detail);
    }
}
