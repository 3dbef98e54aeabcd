//! A new swap area (Linux, `union swap_header` in `include/linux/swap.h`), as `mkswap` makes it.

use diskfs_block::{BlockWrite, Error, ErrorKind, Result, wipe_ends};
use zerocopy::little_endian::U32;
use zerocopy::{Immutable, IntoBytes, Unaligned};

/// What is before the header in the first page, for those who boot from it.
const BOOT_BYTES: u64 = 1024;
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

/// Makes a swap area of the whole device. It is durable when this returns.
///
/// # Errors
/// `Invalid`, before anything is written, for a label that is too long, a size that pages don't have,
/// and a device of fewer than ten pages; otherwise as writing to the device.
pub fn format(device: &dyn BlockWrite, options: &FormatOptions) -> Result<()> {
    let invalid = |reason: String| Err(Error::new(ErrorKind::Invalid, reason));
    let page_bytes = u64::from(options.page_bytes);
    if !page_bytes.is_power_of_two() || !(4096..=65536).contains(&page_bytes) {
        return invalid(format!("no machine has pages of {page_bytes} bytes"));
    }
    let mut label = [0; 16];
    match label.get_mut(..options.label.len()) {
        Some(place) if options.label.len() < 16 => place.copy_from_slice(options.label.as_bytes()),
        _ => return invalid("the label of a swap area has at most 15 bytes".to_owned()),
    }
    let device_bytes = device.size_bytes();
    let pages = device_bytes.checked_div(page_bytes).unwrap_or(0);
    if pages < MIN_PAGES {
        let needed = page_bytes.saturating_mul(MIN_PAGES);
        return invalid(format!(
            "a device of {device_bytes} bytes is too small for a swap area: {needed} are needed"
        ));
    }
    let header = RawHeader {
        version: U32::new(VERSION),
        last_page: U32::new(u32::try_from(pages).unwrap_or(u32::MAX).saturating_sub(1)),
        bad_pages: U32::ZERO,
        uuid: options.uuid,
        label,
    };
    let magic_offset = page_bytes.saturating_sub(10);
    wipe_ends(device, page_bytes)?;
    device.write_at(BOOT_BYTES, header.as_bytes())?;
    device.write_at(magic_offset, &MAGIC)?;
    device.flush()
}
