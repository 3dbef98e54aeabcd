//! Members of arrays that a BIOS assembles. All makers but one store their metadata in one of the
//! last sectors. Offsets and magic numbers are those of the makers, as `dmraid` and the kernel know
//! them; the DDF is a standard (SNIA, Common RAID Disk Data Format).

use super::found::container;
use super::view::View;
use crate::stack::content::Content;

/// Returns the offset of a sector counted from the end; 1 is the last one.
fn from_end(view: &View<'_>, sector: u64) -> Option<u64> {
    (view.size_bytes() / 512)
        .checked_sub(sector)?
        .checked_mul(512)
}

fn member(kind: &'static str) -> Content {
    container(kind, Vec::new(), None)
}

/// Recognises the DDF. Its anchor is in the last sector, or the 257th from the end. The GUID of the
/// disk is text.
pub(super) fn ddf(view: &View<'_>) -> Option<Content> {
    let magics = [b"\xde\x11\xde\x11", b"\x11\xde\x11\xde"];
    let is_header = |at: &u64| magics.iter().any(|magic| view.has(*at, *magic));
    let mut places = [1, 257].into_iter().filter_map(|n| from_end(view, n));
    let at = places.find(is_header)?;
    let guid = String::from_utf8_lossy(&view.label::<24>(at + 8)).into_owned();
    let uuid = Some(guid).filter(|guid| !guid.is_empty());
    Some(container("ddf_raid_member", Vec::new(), uuid))
}

/// Recognises Intel's Matrix Storage, "`IMSM`".
pub(super) fn isw(view: &View<'_>) -> Option<Content> {
    view.has(from_end(view, 2)?, b"Intel Raid ISM Cfg Sig. ")
        .then(|| member("isw_raid_member"))
}

pub(super) fn lsi(view: &View<'_>) -> Option<Content> {
    view.has(from_end(view, 1)?, b"$XIDE$")
        .then(|| member("lsi_mega_raid_member"))
}

/// Recognises VIA's format. Its magic of two bytes proves nothing without the checksum of the 50
/// bytes.
pub(super) fn via(view: &View<'_>) -> Option<Content> {
    let sector: [u8; 51] = view.array(from_end(view, 1)?);
    let (summed, checksum) = sector.split_at(50);
    let sum = summed
        .iter()
        .fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    let is_member = summed.starts_with(b"\x55\xaa") && sum == checksum[0] && summed[2] <= 2;
    is_member.then(|| member("via_raid_member"))
}

pub(super) fn silicon(view: &View<'_>) -> Option<Content> {
    const CHECKSUM: usize = 0x13e;
    let at = from_end(view, 1)?;
    if !view.has(at + 0x60, b"\0\0\0\x2f") || view.u8(at + 0x116) >= 8 {
        return None;
    }
    let sum = view.with(at, CHECKSUM, sum16)?;
    (sum.wrapping_neg() == view.le16(at + 0x13e)).then(|| member("silicon_medley_raid_member"))
}

pub(super) fn nvidia(view: &View<'_>) -> Option<Content> {
    view.has(from_end(view, 2)?, b"NVIDIA")
        .then(|| member("nvidia_raid_member"))
}

/// Recognises Promise's format. Its position depends on the size of the disk and the version of the
/// BIOS.
pub(super) fn promise(view: &View<'_>) -> Option<Content> {
    const SECTORS: [u64; 13] = [
        63, 255, 256, 16, 399, 591, 675, 735, 911, 974, 991, 951, 3087,
    ];
    let mut places = SECTORS.iter().filter_map(|n| from_end(view, *n));
    places
        .any(|at| view.has(at, b"Promise Technology, Inc."))
        .then(|| member("promise_fasttrack_raid_member"))
}

pub(super) fn highpoint_45x(view: &View<'_>) -> Option<Content> {
    let magic = view.le32(from_end(view, 11)?);
    matches!(magic, 0x5a78_16f3 | 0x5a78_16fd) // in use, or failed
        .then(|| member("hpt45x_raid_member"))
}

/// Recognises `HighPoint`'s format, the only one at the start: in the tenth sector.
pub(super) fn highpoint_37x(view: &View<'_>) -> Option<Content> {
    matches!(view.le32(9 * 512 + 32), 0x5a78_16f0 | 0x5a78_16fd)
        .then(|| member("hpt37x_raid_member"))
}

pub(super) fn adaptec(view: &View<'_>) -> Option<Content> {
    let at = from_end(view, 1)?;
    (view.has(at, b"\x37\xfc\x4d\x1e") && view.has(at + 256, b"DPTM"))
        .then(|| member("adaptec_raid_member"))
}

/// Recognises `JMicron`'s format: the 16-bit words of the first 128 bytes sum up to 0 or 1.
pub(super) fn jmicron(view: &View<'_>) -> Option<Content> {
    let at = from_end(view, 1)?;
    let sum = view.with(at, 128, |bytes| {
        bytes.starts_with(b"JM").then(|| sum16(bytes))
    });
    matches!(sum.flatten()?, 0 | 1).then(|| member("jmicron_raid_member"))
}

fn sum16(bytes: &[u8]) -> u16 {
    bytes.chunks_exact(2).fold(0, |sum: u16, word| {
        sum.wrapping_add(u16::from_le_bytes([word[0], word[1]]))
    })
}
