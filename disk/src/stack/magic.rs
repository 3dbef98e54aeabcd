//! The magic numbers of all known kinds of content, one kind or family per file.
//!
//! A volume is read on demand: the first 8 KiB, then the next 64 KiB, and only then the places
//! elsewhere. So the order of the probes is the order of reads, and common kinds cost one or two
//! reads.

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

/// The probes of the first 8 KiB. Containers go first, because the magic number of the volume's
/// former content may still be present. Short magic numbers go last.
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

/// The probes of the next 64 KiB.
const IN_BODY: &[Probe] = &[
    // `blkid` reports a disc with both as UDF; diskfs reports ISO 9660, because its driver reads
    // the files.
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

/// The probes of places far from the start, used only if the others found nothing.
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

/// Returns the content of `device`, or `None` if no probe recognises it.
pub(super) fn probe(device: &dyn BlockRead) -> Result<Option<Content>> {
    let view = View::new(device);
    let mut probes = [IN_HEAD, IN_BODY, ELSEWHERE].into_iter().flatten();
    let told = probes.find_map(|probe| probe(&view));
    view.finish(told)
}

#[cfg(test)]
mod tests;
