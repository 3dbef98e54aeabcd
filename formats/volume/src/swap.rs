//! A new swap area (Linux, `union swap_header` in `include/linux/swap.h`), as `mkswap` makes it.

use diskfs_block::{BlockWrite, Error, ErrorKind, Result, wipe_ends};
use zerocopy::little_endian::U32;
use zerocopy::{Immutable, IntoBytes, Unaligned};

/// What is before the header in the first page, for those who boot from it.
const BOOT_BYTES: usize = 1024;
const VERSION: u32 = 1;
/// At the end of the first page.
const MAGIC: [u8; 10] = *b"SWAPSPACE2";
/// The kernel wants ten pages (swapon(8) of fewer fails).
const MIN_PAGES: u64 = 10;

#[derive(Debug, Clone, Copy, IntoBytes, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    version: U32,
    last_page: U32,
    bad_pages: U32,
    uuid: [u8; 16],
    label: [u8; 16],
}

/// What a new swap area is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatOptions {
    /// The label, at most 15 bytes. Empty for none.
    pub label: String,
    /// The UUID.
    pub uuid: [u8; 16],
    /// The size of a page of the machine that uses it: a power of two, 4 to 64 KiB.
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
    /// The first page of an area of so many bytes.
    ///
    /// # Errors
    /// `Invalid` for a label that is too long, a size that pages don't have, and fewer than ten pages.
    pub fn first_page(&self, area_bytes: u64) -> Result<Vec<u8>> {
        let invalid = |reason: String| Err(Error::new(ErrorKind::Invalid, reason));
        let page_bytes = u64::from(self.page_bytes);
        if !page_bytes.is_power_of_two() || !(4096..=65536).contains(&page_bytes) {
            return invalid(format!("no machine has pages of {page_bytes} bytes"));
        }
        let mut label = [0; 16];
        match label.get_mut(..self.label.len()) {
            Some(place) if self.label.len() < 16 => place.copy_from_slice(self.label.as_bytes()),
            _ => return invalid("the label of a swap area has at most 15 bytes".to_owned()),
        }
        let pages = area_bytes.checked_div(page_bytes).unwrap_or(0);
        if pages < MIN_PAGES {
            let needed = page_bytes.saturating_mul(MIN_PAGES);
            return invalid(format!(
                "{area_bytes} bytes are too few for a swap area: {needed} are needed"
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
        // Both fit: there is no smaller page than 4 KiB.
        let size = usize::try_from(page_bytes).unwrap_or(usize::MAX);
        page.resize(size.saturating_sub(MAGIC.len()), 0);
        page.extend_from_slice(&MAGIC);
        Ok(page)
    }
}

/// Makes a swap area of the whole device. It is durable when this returns.
///
/// # Errors
/// As [`FormatOptions::first_page`], before anything is written; otherwise as writing to the device.
pub fn format(device: &dyn BlockWrite, options: &FormatOptions) -> Result<()> {
    let page = options.first_page(device.size_bytes())?;
    wipe_ends(device, options.page_bytes.into())?;
    device.write_at(0, &page)?;
    device.flush()
}
