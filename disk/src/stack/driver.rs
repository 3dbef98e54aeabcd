//! The selection of the driver for a filesystem.

use std::sync::Arc;
use std::time::Duration;

use diskfs_block::{BlockRead, BlockWrite, WriteBehind};
use diskfs_erofs::Erofs;
use diskfs_exfat::{Exfat, WritableExfat};
use diskfs_ext4::{Ext4, Options, WritableExt4};
use diskfs_fat::{CodePage, Fat, WritableFat};
use diskfs_iso9660::Iso9660;
use diskfs_squashfs::Squashfs;
use diskfs_vfs::{FsRead, FsWrite, Result, Timestamp};
use diskfs_xfs::Xfs;

use super::content::Content;

/// Opens the filesystem, or returns `None` if its kind has no driver.
pub(super) fn open(
    content: &Content,
    device: Arc<dyn BlockRead>,
    code_page: CodePage,
) -> Option<Result<Arc<dyn FsRead>>> {
    match content.kind {
        "ext2" | "ext3" | "ext4" => {
            Some(Ext4::open(device, &Options::default()).map(|fs| Arc::new(fs) as Arc<dyn FsRead>))
        }
        "erofs" => Some(Erofs::open(device).map(|fs| Arc::new(fs) as Arc<dyn FsRead>)),
        "exfat" => Some(Exfat::open(device).map(|fs| Arc::new(fs) as Arc<dyn FsRead>)),
        "vfat" => {
            let fs = Fat::open_with(device, &code_page);
            Some(fs.map(|fs| Arc::new(fs) as Arc<dyn FsRead>))
        }
        "iso9660" => Some(Iso9660::open(device).map(|fs| Arc::new(fs) as Arc<dyn FsRead>)),
        "squashfs" => Some(Squashfs::open(device).map(|fs| Arc::new(fs) as Arc<dyn FsRead>)),
        "xfs" => Some(Xfs::open(device).map(|fs| Arc::new(fs) as Arc<dyn FsRead>)),
        _ => None,
    }
}

/// The options for writing to a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// The time at which changes become durable without a sync.
    pub commits: Commits,
    /// The use of the space that the filesystem reserves for the guest's root.
    pub root_reserve: RootReserve,
    /// The time that changes record instead of the present time, so that the same changes write the
    /// same bytes.
    pub fixed_time: Option<Timestamp>,
    /// True if another thread writes to the device while the caller prepares the next change. An
    /// error of a write is then told by a later call. For ext4 only: after a failure, the drivers of
    /// FAT and exFAT still have to write that nothing was changed.
    pub write_behind: bool,
}

/// The time at which changes become durable without a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Commits {
    /// A few seconds after a change, as the kernel does it.
    #[default]
    Timed,
    /// Only when the caller syncs, when memory or the journal is full, and at close. The moments
    /// then depend on nothing but the changes.
    OnSync,
    /// At close: all changes at once if the filesystem's journal has room for them. Changes become
    /// durable earlier only if memory or the journal is full. After an error, including one of
    /// closing, nothing more is committed.
    AtClose,
    /// At close, and never earlier: changes that exceed one transaction of the filesystem's journal
    /// fail with `NoSpace`. Without a journal this is [`AtClose`](Self::AtClose).
    Once,
}

/// The use of the space that a filesystem reserves for the guest's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RootReserve {
    /// The space stays free, as for the guest's ordinary users.
    #[default]
    Keep,
    /// The space is allocated, as for the guest's root.
    Use,
    /// All free space is allocated, including what Linux keeps free for delayed allocation: for a
    /// new filesystem that is filled before a guest mounts it.
    UseAll,
}

/// Opens the filesystem for writing, or returns `None` if its kind has no driver that writes.
pub(super) fn open_for_writing(
    content: &Content,
    device: Arc<dyn BlockWrite>,
    options: WriteOptions,
    code_page: CodePage,
) -> Option<Result<Arc<dyn FsWrite>>> {
    match content.kind {
        "ext2" | "ext3" | "ext4" => {
            let fs = behind(device, options)
                .and_then(|device| WritableExt4::open(device, &options.for_ext4()));
            Some(fs.map(|fs| Arc::new(fs) as Arc<dyn FsWrite>))
        }
        "exfat" => {
            let fs = WritableExfat::open(device, &options.for_exfat()).map(|fs| {
                let once = options.commits == Commits::Once;
                if once { fs.with_one_commit() } else { fs }
            });
            Some(fs.map(|fs| Arc::new(fs) as Arc<dyn FsWrite>))
        }
        "vfat" => {
            let fs = WritableFat::open(device, &options.for_fat(code_page)).map(|fs| {
                let once = options.commits == Commits::Once;
                if once { fs.with_one_commit() } else { fs }
            });
            Some(fs.map(|fs| Arc::new(fs) as Arc<dyn FsWrite>))
        }
        _ => None,
    }
}

/// Returns the device, or one by which another thread writes to it.
fn behind(device: Arc<dyn BlockWrite>, options: WriteOptions) -> Result<Arc<dyn BlockWrite>> {
    Ok(if options.write_behind {
        Arc::new(WriteBehind::new(device)?)
    } else {
        device
    })
}

impl WriteOptions {
    fn for_ext4(self) -> diskfs_ext4::WriteOptions {
        let defaults = diskfs_ext4::WriteOptions::default();
        diskfs_ext4::WriteOptions {
            commit_interval: self.commits.interval(defaults.commit_interval),
            grouping: match self.commits {
                Commits::Timed | Commits::OnSync => diskfs_ext4::TransactionGrouping::No,
                Commits::AtClose => diskfs_ext4::TransactionGrouping::UntilClosed,
                Commits::Once => diskfs_ext4::TransactionGrouping::InOneTransaction,
            },
            root_reserve: match self.root_reserve {
                RootReserve::Keep => diskfs_ext4::RootReserve::Keep,
                RootReserve::Use => diskfs_ext4::RootReserve::Use,
                RootReserve::UseAll => diskfs_ext4::RootReserve::UseAll,
            },
            fixed_time: self.fixed_time,
            ..defaults
        }
    }

    fn for_exfat(self) -> diskfs_exfat::WriteOptions {
        let defaults = diskfs_exfat::WriteOptions::default();
        diskfs_exfat::WriteOptions {
            commit_interval: self.commits.interval(defaults.commit_interval),
            fixed_time: self.fixed_time,
            ..defaults
        }
    }

    fn for_fat(self, code_page: CodePage) -> diskfs_fat::WriteOptions {
        let defaults = diskfs_fat::WriteOptions::default();
        diskfs_fat::WriteOptions {
            commit_interval: self.commits.interval(defaults.commit_interval),
            fixed_time: self.fixed_time,
            names: code_page,
        }
    }
}

impl Commits {
    /// Returns the commit interval of a driver whose default is `usual`.
    fn interval(self, usual: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Timed => usual,
            Self::OnSync | Self::AtClose | Self::Once => None,
        }
    }
}
