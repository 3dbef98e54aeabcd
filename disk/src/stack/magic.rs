//! The magic numbers themselves: one kind or family to a file.
//!
//! A volume is read as its bytes are asked for: the first 8 KiB, the next 64 KiB, and only then what is
//! elsewhere. So the order of the probes is the order of reads, and what is usual costs one or two.

mod apfs;
mod bcache;
mod beos;
mod bios_raid;
mod bitlocker;
mod bluestore;
mod btrfs;
mod cramfs;
mod device_mapper;
mod drbd;
mod erofs;
mod exfat;
mod ext;
mod f2fs;
mod found;
mod fvault2;
mod gfs;
mod hfs;
mod hpfs;
pub(super) mod iso9660;
mod jfs;
mod luks;
mod lvm1;
mod lvm2;
mod md;
mod minix;
mod mpool;
mod nilfs2;
mod nss;
mod ntfs;
mod ocfs;
mod osta;
mod refs;
mod reiserfs;
mod scoutfs;
mod squashfs;
mod stratis;
mod swap;
mod ubi;
mod udf;
mod ufs;
mod unix;
mod uuid;
mod vdo;
mod vfat;
mod view;
mod vmfs;
mod vxfs;
mod xdr;
mod xfs;
mod zfs;
mod zonefs;

use diskfs_block::{BlockRead, Result};

use super::content::Content;
use view::View;

type Probe = fn(&View<'_>) -> Option<Content>;

/// Told by the first 8 KiB. Containers go first: what was on the volume before it became one may still
/// be there. Magic numbers of few bytes go last.
const IN_HEAD: &[Probe] = &[
    luks::probe,
    lvm2::probe,
    md::probe,
    bitlocker::probe,
    lvm1::probe,
    device_mapper::snapshot,
    device_mapper::verity,
    device_mapper::integrity,
    ubi::probe,
    vdo::probe,
    stratis::probe,
    bluestore::probe,
    bcache::probe,
    drbd::manage,
    drbd::proxy,
    fvault2::probe,
    mpool::probe,
    ocfs::asm,
    xfs::probe,
    ext::probe,
    bcache::bcachefs,
    f2fs::probe,
    nilfs2::probe,
    erofs::probe,
    squashfs::probe,
    ntfs::probe,
    exfat::probe,
    refs::probe,
    apfs::probe,
    hfs::plus,
    hfs::hfs,
    swap::tux_on_ice,
    swap::probe,
    vfat::probe,
    xfs::exfs,
    cramfs::cramfs,
    cramfs::romfs,
    zonefs::probe,
    ubi::ubifs,
    beos::befs,
    beos::bfs,
    ocfs::probe,
    ocfs::ocfs2,
    nss::probe,
    vxfs::probe,
    bios_raid::highpoint_37x,
    minix::probe,
    unix::xenix,
];

/// Told by the next 64 KiB.
const IN_BODY: &[Probe] = &[
    // A disc that has both is UDF to blkid; as ISO 9660 its files are read.
    iso9660::probe,
    udf::probe,
    jfs::probe,
    btrfs::probe,
    scoutfs::probe,
    reiserfs::probe,
    reiserfs::reiser4,
    gfs::probe,
    ocfs::ocfs2_large_blocks,
    ufs::probe,
    hpfs::probe,
    vxfs::hp_ux,
    swap::large_pages,
    unix::sysv,
    xfs::log,
];

/// Told by what is far from the beginning, and read only where nothing is there.
const ELSEWHERE: &[Probe] = &[
    md::at_end,
    bios_raid::ddf,
    bios_raid::isw,
    bios_raid::lsi,
    bios_raid::via,
    bios_raid::silicon,
    bios_raid::nvidia,
    bios_raid::promise,
    bios_raid::highpoint_45x,
    bios_raid::adaptec,
    bios_raid::jmicron,
    drbd::probe,
    zfs::probe,
    vmfs::volume,
    vmfs::probe,
    ufs::far,
];

/// What `device` holds, or `None` for nothing that is known here.
pub(super) fn probe(device: &dyn BlockRead) -> Result<Option<Content>> {
    let view = View::new(device);
    let mut probes = [IN_HEAD, IN_BODY, ELSEWHERE].into_iter().flatten();
    let told = probes.find_map(|probe| probe(&view));
    view.finish(told)
}

#[cfg(test)]
mod tests;
