//! ext2, ext3 and ext4, written to.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Fault, Faulty, Overlay};
use diskfs_ext4::{RootReserve, TransactionGrouping, WritableExt4, WriteOptions};
use diskfs_vfs::FsWrite;

use crate::change::{self, CHANGED_MAX_BYTES};
use crate::ext4;
use crate::random::Random;

/// The offset of the seed for changes: the first bytes belong to the boot loader.
pub(crate) const SEED_OFFSET: u64 = 0;

/// Opens a filesystem for writing, makes random changes and closes it; does so again; then reads
/// it.
pub(crate) fn write(device: &Arc<dyn BlockRead>) {
    let mut random = change::chance(&**device, SEED_OFFSET);
    let overlay = Arc::new(Overlay::in_memory(Arc::clone(device), CHANGED_MAX_BYTES));
    for _ in 0..2 {
        let below = with_faults(Arc::<Overlay>::clone(&overlay), &mut random);
        if round(below, &mut random).is_none() {
            break;
        }
    }
    let written: Arc<dyn BlockRead> = overlay;
    ext4::survey(&written);
}

/// Reads the minimum that a run reads.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    let overlay = Overlay::in_memory(Arc::clone(device), CHANGED_MAX_BYTES);
    round(Arc::new(overlay), &mut Random::of_case(0, 0));
}

/// Makes random changes. Returns `None` if the filesystem cannot be opened.
fn round(device: Arc<dyn BlockWrite>, random: &mut Random) -> Option<()> {
    let options = WriteOptions {
        cache_bytes: 4 << 20,
        // No commits at intervals, so that a case is reproducible as far as threads allow.
        commit_interval: None,
        grouping: *random.pick(&[
            TransactionGrouping::No,
            TransactionGrouping::UntilClosed,
            TransactionGrouping::InOneTransaction,
        ]),
        root_reserve: *random.pick(&[RootReserve::Keep, RootReserve::Use]),
        fixed_time: Some(diskfs_vfs::Timestamp {
            seconds: 1_700_000_000,
            nanoseconds: 0,
        }),
    };
    let fs = WritableExt4::open(device, &options).ok()?;
    change::some(&fs, random);
    let _ = fs.close();
    Some(())
}

/// Returns the device itself, or one that fails at some point.
fn with_faults(device: Arc<Overlay>, random: &mut Random) -> Arc<dyn BlockWrite> {
    let nth = random.below(60);
    let fault = match random.below(16) {
        0 => Fault::FailWrite { nth },
        1 => Fault::PowerCut { nth },
        2 => Fault::FailFlush { nth: nth / 8 },
        3 => Fault::FailRead { nth },
        _ => return device,
    };
    Arc::new(Faulty::new(device, [fault]))
}
