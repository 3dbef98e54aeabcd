//! Changing the size of a swap area that no machine uses.

use std::ops::Range;

use diskfs_block::bytes::{le32, put};
use diskfs_block::{BlockRead, BlockWrite, Error, Result, read_within};

use super::{BOOT_BYTES, MAGIC, MIN_PAGES, VERSION};

/// The offset of `last_page` in the first page.
const LAST_PAGE: usize = BOOT_BYTES + 4;
/// The offset of the number of bad pages.
const BAD_PAGES: usize = BOOT_BYTES + 8;
/// The sector that holds the header: a disk writes it completely or not at all.
const HEADER_SECTOR: Range<usize> = BOOT_BYTES..BOOT_BYTES + 512;
/// The page sizes of Linux.
const PAGE_BYTES: [u32; 5] = [4096, 8192, 16384, 32768, 65536];

/// The sizes of a swap area before and after [`resize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resized {
    /// The old size in bytes.
    pub old_bytes: u64,
    /// The new size in bytes: whole pages.
    pub new_bytes: u64,
}

/// Makes a swap area as large as `area_bytes`, or as its device if that is `None`. UUID, label and
/// page size stay. What was swapped out is not kept, and is of no use after the machine has stopped.
///
/// One sector changes, so a crash leaves the old or the new size. The area is durable when this
/// returns.
///
/// # Errors
/// * `Invalid` if there is no swap area, for fewer than ten pages, and for a size beyond the device;
/// * `Unsupported` for a hibernated machine, an area of a big-endian machine, and one with bad pages
///   that would become smaller;
/// * errors of the device.
pub fn resize(device: &dyn BlockWrite, area_bytes: Option<u64>) -> Result<Resized> {
    let area_bytes = area_bytes.unwrap_or(device.size_bytes());
    if area_bytes > device.size_bytes() {
        return Err(Error::invalid(format!(
            "cannot resize the swap area to {area_bytes} bytes: its device has {} bytes",
            device.size_bytes()
        )));
    }
    let (page_bytes, mut page) = read_first_page(device)?;
    let field = |offset| le32(&page, offset).unwrap_or(0);
    if field(BOOT_BYTES) != VERSION {
        let reason = format!(
            "unsupported version {:#x} of the swap area, expected {VERSION}",
            field(BOOT_BYTES)
        );
        return Err(Error::unsupported(reason).with_hint("create it again with mkswap"));
    }
    let pages = area_bytes.checked_div(page_bytes).unwrap_or(0);
    if pages < MIN_PAGES {
        let needed = page_bytes.saturating_mul(MIN_PAGES);
        return Err(Error::invalid(format!(
            "the swap area is too small: {area_bytes} bytes, at least {needed}"
        )));
    }
    let old = field(LAST_PAGE);
    let new = u32::try_from(pages).unwrap_or(u32::MAX).saturating_sub(1);
    if new < old && field(BAD_PAGES) > 0 {
        let reason = "cannot shrink a swap area with a list of bad pages";
        return Err(Error::unsupported(reason).with_hint("create it again with mkswap"));
    }
    let size = |last: u32| u64::from(last).saturating_add(1).saturating_mul(page_bytes);
    if new != old {
        put(&mut page, LAST_PAGE, &new.to_le_bytes());
        let sector = page.get(HEADER_SECTOR).unwrap_or_default();
        device.write_at(u64::try_from(BOOT_BYTES).unwrap_or(u64::MAX), sector)?;
        device.flush()?;
    }
    Ok(Resized {
        old_bytes: size(old),
        new_bytes: size(new),
    })
}

/// Returns the page size and the first page. The magic is at the end of that page.
fn read_first_page(device: &dyn BlockRead) -> Result<(u64, Vec<u8>)> {
    /// The magic numbers of hibernation: of Linux, and of older kernels.
    const HIBERNATED: [&[u8]; 3] = [b"S1SUSPEND", b"S2SUSPEND", b"ULSUSPEND"];
    for page_bytes in PAGE_BYTES {
        let len = usize::try_from(page_bytes).unwrap_or(usize::MAX);
        let Some(page) = read_within(device, 0, len)? else {
            break;
        };
        let magic = page.get(len.saturating_sub(MAGIC.len())..);
        let magic = magic.unwrap_or_default();
        if magic == MAGIC {
            return Ok((page_bytes.into(), page));
        }
        if HIBERNATED.iter().any(|&mark| magic.starts_with(mark)) {
            let reason = "the swap area contains a hibernated machine";
            let hint = "start the machine, and shut it down";
            return Err(Error::unsupported(reason).with_hint(hint));
        }
    }
    let reason = "not a swap area: its magic is missing at the end of the first page";
    Err(Error::invalid(reason))
}
