//! Creation and resizing of swap areas, as in `mkswap` (Linux, `union swap_header` in `include/linux/swap.h`).

mod resize;

use diskfs_block::{BlockWrite, Error, ErrorKind, Result, wipe_ends};
use zerocopy::little_endian::U32;
use zerocopy::{Immutable, IntoBytes, Unaligned};

pub use resize::{Resized, resize};

/// The length of the boot area before the header in the first page.
const BOOT_BYTES: usize = 1024;
const VERSION: u32 = 1;
/// The magic at the end of the first page.
const MAGIC: [u8; 10] = *b"SWAPSPACE2";
/// The smallest number of pages, which the kernel requires (swapon(8) fails with fewer).
const MIN_PAGES: u64 = 10;

/// The size in bytes that suffices for a swap area with pages of any size: ten pages of 64 KiB.
pub const MIN_BYTES: u64 = MIN_PAGES * (64 << 10);

#[derive(Debug, Clone, Copy, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    version: U32,
    last_page: U32,
    bad_pages: U32,
    uuid: [u8; 16],
    label: [u8; 16],
}

/// The options for a new swap area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// The label, at most 15 bytes. Empty for none.
    pub label: String,
    /// The UUID of the swap area.
    pub uuid: [u8; 16],
    /// The page size of the machine that will use it: a power of two from 4 to 64 KiB.
    pub page_bytes: u32,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            label: String::new(),
            uuid: [0; 16],
            page_bytes: 4096,
        }
    }
}

impl FormatOptions {
    /// Returns the first page of an area of `area_bytes` bytes.
    ///
    /// # Errors
    /// `Invalid` for a label that is too long, an invalid page size, and fewer than ten pages.
    pub fn first_page(&self, area_bytes: u64) -> Result<Vec<u8>> {
        let invalid = |reason: String| Err(Error::new(ErrorKind::Invalid, reason));
        let page_bytes = u64::from(self.page_bytes);
        if !page_bytes.is_power_of_two() || !(4096..=65536).contains(&page_bytes) {
            return invalid(format!(
                "invalid page size {page_bytes}: expected a power of two from 4096 to 65536"
            ));
        }
        let mut label = [0; 16];
        match label.get_mut(..self.label.len()) {
            Some(place) if self.label.len() < 16 => place.copy_from_slice(self.label.as_bytes()),
            _ => {
                return invalid(
                    "the label of a swap area is too long: at most 15 bytes".to_owned(),
                );
            }
        }
        let pages = area_bytes.checked_div(page_bytes).unwrap_or(0);
        if pages < MIN_PAGES {
            let needed = page_bytes.saturating_mul(MIN_PAGES);
            return invalid(format!(
                "the swap area is too small: {area_bytes} bytes, at least {needed}"
            ));
        }
        let header = RawHeader {
            version: U32::new(VERSION),
            last_page: U32::new(u32::try_from(pages).unwrap_or(u32::MAX).saturating_sub(1)),
            bad_pages: U32::ZERO,
            uuid: self.uuid,
            label,
        };
        let header = header.as_bytes();
        let mut page = vec![0; BOOT_BYTES];
        page.extend_from_slice(header);
        // Both fit: no page is smaller than 4 KiB.
        let size = usize::try_from(page_bytes).unwrap_or(usize::MAX);
        page.resize(size.saturating_sub(MAGIC.len()), 0);
        page.extend_from_slice(&MAGIC);
        Ok(page)
    }
}

/// Formats the whole device as a swap area. It is durable when this returns.
///
/// # Errors
/// As for [`FormatOptions::first_page`], before anything is written; otherwise write errors of the
/// device.
pub fn format(device: &dyn BlockWrite, options: &FormatOptions) -> Result<()> {
    let page = options.first_page(device.size_bytes())?;
    wipe_ends(device, options.page_bytes.into())?;
    device.write_at(0, &page)?;
    device.flush()
}
