//! ext2, ext3 and ext4 that are written to.

use std::sync::Arc;

use diskfs_block::{BlockRead, BlockWrite, Fault, Faulty, Overlay};
use diskfs_ext4::{RootReserve, Together, WritableExt4, WriteOptions};
use diskfs_vfs::FsWrite;

use crate::change::{self, CHANGED_MAX_BYTES};
use crate::ext4;
use crate::random::Random;

/// Where an image says which changes are made to it: its first bytes belong to the boot loader.
pub(crate) const SEED_OFFSET: u64 = 0;

/// Opened for writing, changed by chance and closed; then once more, and read.
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

/// Reads what a run reads at the least.
pub(crate) fn survey(device: &Arc<dyn BlockRead>) {
    let overlay = Overlay::in_memory(Arc::clone(device), CHANGED_MAX_BYTES);
    round(Arc::new(overlay), &mut Random::of_case(0, 0));
}

/// `None` when the filesystem can't be opened.
fn round(device: Arc<dyn BlockWrite>, random: &mut Random) -> Option<()> {
    let options = WriteOptions {
        cache_bytes: 4 << 20,
        // Nothing by the clock: a case does the same each time, as far as threads do.
        commit_interval: None,
        together: *random.pick(&[
            Together::No,
            Together::UntilClosed,
            Together::InOneTransaction,
        ]),
        root_reserve: *random.pick(&[RootReserve::Keep, RootReserve::Use]),
    };
    let fs = WritableExt4::open(device, &options).ok()?;
    change::some(&fs, random);
    let _ = fs.close();
    Some(())
}

/// The device as it is, or one that fails somewhere in the middle.
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
