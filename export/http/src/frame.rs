//! The frames of a compressed slice (zstd, RFC 8878). Each can be decoded by itself.

use std::io;
use std::ops::Range;

use bytes::Bytes;

use crate::images::Image;

/// The level of the compression. The default takes almost twice the time, for a few percent.
const LEVEL: i32 = 1;

/// The number of bytes of data in a frame, at most.
const MOST_BYTES: u64 = 512 << 10;

/// The length from which on a hole, or the data between two holes, has a frame of its own.
const FEWEST_BYTES: u64 = 64 << 10;

/// The samples by which a slice is judged. They are a sixty-fourth of the 4 MiB that our client asks
/// for.
const SAMPLES: u64 = 4;
const SAMPLE_BYTES: u64 = 16 << 10;

/// The length of a block in a frame, at most.
const BLOCK_BYTES: u64 = 128 << 10;

/// Returns true if a part of an image has a hole, or if samples of it become shorter by an eighth.
pub(crate) fn is_worthwhile(image: &Image, range: &Range<u64>) -> io::Result<bool> {
    if image.next_hole(range) < range.end {
        return Ok(true);
    }
    let step = range.end.saturating_sub(range.start).div_ceil(SAMPLES);
    let mut samples = Vec::new();
    for number in 0..SAMPLES {
        let at = range.start.saturating_add(step.saturating_mul(number));
        let end = at.saturating_add(step.min(SAMPLE_BYTES)).min(range.end);
        samples.extend(image.read(&(at.min(end)..end))?);
    }
    let packed = zstd::bulk::compress(&samples, LEVEL)?;
    Ok(packed.len() < samples.len().saturating_sub(samples.len().wrapping_div(8)))
}

/// Returns the first frame of a part of an image, and the end of what is in it.
pub(crate) fn first(image: &Image, range: &Range<u64>) -> io::Result<(Bytes, u64)> {
    let data = image.next_data(range);
    let hole_bytes = data.saturating_sub(range.start);
    if data == range.end || hole_bytes >= FEWEST_BYTES {
        image.check()?;
        return Ok((zeroes(hole_bytes), data));
    }
    let cut = data
        .max(range.start.saturating_add(FEWEST_BYTES))
        .min(range.end);
    let end = range.start.saturating_add(MOST_BYTES).min(range.end);
    let end = image.next_hole(&(cut..end));
    let bytes = image.read(&(range.start..end))?;
    Ok((zstd::bulk::compress(&bytes, LEVEL)?.into(), end))
}

/// Returns a frame of zeroes: blocks of one byte that is repeated.
fn zeroes(len_bytes: u64) -> Bytes {
    let size = u32::try_from(len_bytes).unwrap_or(u32::MAX);
    // The magic number; a size of four bytes, and no checksum; a window of 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x80, 0x38];
    frame.extend(size.to_le_bytes());
    let mut left = u64::from(size);
    while left > 0 {
        let block_bytes = left.min(BLOCK_BYTES);
        left = left.saturating_sub(block_bytes);
        let is_last = u64::from(left == 0);
        // The header of a block: one bit, two bits for the type (1: repeated), and the length.
        let [low, middle, high, ..] = (is_last | 1 << 1 | block_bytes << 3).to_le_bytes();
        frame.extend([low, middle, high, 0]);
    }
    frame.into()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use diskfs_block::len_of;
    use proptest::prelude::*;

    use super::*;
    use crate::version::Version;

    /// Makes an image: runs of data in a file of holes.
    fn image(size_bytes: u64, data: &[(u64, Vec<u8>)]) -> Image {
        let file = tempfile::tempfile().unwrap();
        file.set_len(size_bytes).unwrap();
        for (at, bytes) in data {
            file.write_all_at(bytes, *at).unwrap();
        }
        file.set_len(size_bytes).unwrap();
        of(file)
    }

    fn of(file: File) -> Image {
        let version = Version::of(&file.metadata().unwrap());
        Image { file, version }
    }

    /// Returns the frames of a part of an image, and the number of their bytes.
    fn unpacked(image: &Image, range: Range<u64>) -> (Vec<u8>, u64, usize) {
        let (mut packed, mut at, mut count) = (Vec::new(), range.start, 0);
        while at < range.end {
            let (frame, end) = first(image, &(at..range.end)).unwrap();
            assert!(end > at && end <= range.end);
            packed.extend_from_slice(&frame);
            (at, count) = (end, count + 1);
        }
        let plain = zstd::stream::decode_all(packed.as_slice()).unwrap();
        (plain, len_of(&packed), count)
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    #[test]
    fn holes_take_a_few_bytes() {
        let sparse = image(
            64 << 20,
            &[(20 << 20, b"text ".repeat(2000)), (40 << 20, noise(5000))],
        );
        for (range, most) in [
            (0..8 << 20, 300),
            (16 << 20..24 << 20, 500),
            (39 << 20..41 << 20, 6000),
        ] {
            assert!(is_worthwhile(&sparse, &range).unwrap());
            let (plain, packed_bytes, _) = unpacked(&sparse, range.clone());
            assert!(plain == sparse.read(&range).unwrap(), "{range:?}");
            assert!(packed_bytes < most, "{range:?}: {packed_bytes}");
        }
    }

    #[test]
    fn only_what_becomes_shorter_is_compressed() {
        let full = |bytes: &[u8]| image(len_of(bytes), &[(0, bytes.to_vec())]);
        for (bytes, expected) in [
            (b"text ".repeat(1 << 18), true),
            (noise(1 << 20), false),
            (noise(100), false),
            ([noise(1 << 19), b"text ".repeat(1 << 17)].concat(), true),
            (vec![1], false),
        ] {
            let image = full(&bytes);
            assert_eq!(
                is_worthwhile(&image, &(0..len_of(&bytes))).unwrap(),
                expected
            );
        }
    }

    #[test]
    fn an_image_that_changes_has_no_frames() {
        for data in [&[][..], &[(0, vec![1; 4096])]] {
            let image = image(1 << 20, data);
            image.file.write_all_at(b"x", 1 << 19).unwrap();
            image.file.set_len(2 << 20).unwrap();
            let error = first(&image, &(0..1 << 20)).unwrap_err();
            assert!(error.to_string().contains("changed"), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn frames_have_the_bytes_of_the_image(
            data in prop::collection::vec((0..3_000_000_u64, 1..400_000_usize, any::<bool>()), 0..12),
            start in 0..3_000_000_u64,
            len in 1..3_000_000_u64,
        ) {
            let runs: Vec<_> = data
                .into_iter()
                .map(|(at, len, is_text)| (at, if is_text { b"text".repeat(len / 4) } else { noise(len) }))
                .collect();
            let image = image(3_000_000, &runs);
            let range = start..start.saturating_add(len).min(3_000_000);
            let expected = image.read(&range).unwrap();
            let (plain, _, count) = unpacked(&image, range);
            prop_assert!(plain == expected);
            // No frame is short, except before a hole and at the end.
            prop_assert!(count <= 3_000_000 / (32 << 10));
        }
    }
}
