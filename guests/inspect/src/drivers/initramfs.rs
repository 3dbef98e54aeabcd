//! The names of the files in an initramfs: concatenated cpio archives, of which the last is
//! compressed (Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::io::{self, BufRead, BufReader, Read};

use diskfs_archive::unpack::{self, Streams};

/// The limit on the unpacked size: those of distributions have up to 600 MiB.
const LIMIT_BYTES: u64 = 2 << 30;

/// The length limit of a name; a path of Linux is shorter.
const MAX_NAME_BYTES: u32 = 4096;

/// The limit on concatenated archives: usually one with microcode, one with firmware, and the main
/// one.
const MAX_ARCHIVES: usize = 8;

/// The size of a member's header: a magic number and thirteen numbers of eight hexadecimal digits.
const HEAD_BYTES: usize = 110;

/// The name that marks the end of an archive.
const TRAILER: &[u8] = b"TRAILER!!!";

/// Calls `visit` with the path of each file.
///
/// # Errors
/// If the image can't be read or unpacked, or is not a cpio archive.
pub(crate) fn each_path(image: impl Read, mut visit: impl FnMut(&str)) -> diskfs_disk::Result<()> {
    let mut image: Box<dyn BufRead> = Box::new(BufReader::with_capacity(256 << 10, image));
    for _ in 0..MAX_ARCHIVES {
        skip_zeroes(&mut image)?;
        let start = image.fill_buf()?;
        if start.is_empty() {
            return Ok(());
        }
        if start.starts_with(b"07070") {
            archive(&mut image, &mut visit)?;
            continue;
        }
        let plain = unpack::stream(image, Streams::First)?.ok_or_else(unpack::unknown)?;
        let plain = plain.take(LIMIT_BYTES);
        return Ok(archive(
            &mut BufReader::with_capacity(256 << 10, plain),
            &mut visit,
        )?);
    }
    Ok(())
}

/// Skips the zeroes between archives.
fn skip_zeroes(image: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffered = image.fill_buf()?;
        let zeroes = buffered.iter().take_while(|byte| **byte == 0).count();
        let is_end = zeroes < buffered.len() || buffered.is_empty();
        image.consume(zeroes);
        if is_end {
            return Ok(());
        }
    }
}

/// Reads one archive, up to and including its trailer.
fn archive(input: &mut impl BufRead, visit: &mut impl FnMut(&str)) -> io::Result<()> {
    while let Some(member) = CpioMember::read(input)? {
        if member.name == TRAILER {
            return Ok(());
        }
        if let Ok(name) = std::str::from_utf8(&member.name) {
            visit(name);
        }
        let padded = u64::from(member.size_bytes).next_multiple_of(4);
        skip(input, padded)?;
    }
    Ok(())
}

/// The header of a member, and its name.
struct CpioMember {
    name: Vec<u8>,
    size_bytes: u32,
}

impl CpioMember {
    /// Reads the next member; `None` at the end.
    fn read(input: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = [0; HEAD_BYTES];
        if unpack::read_up_to(input, &mut head)? < HEAD_BYTES {
            return Ok(None);
        }
        let wrong = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
        if !head.starts_with(b"07070") {
            return Err(wrong(
                "invalid cpio archive: a member does not start with a magic number",
            ));
        }
        let number = |index: usize| {
            let digits = head.get(6 + index * 8..14 + index * 8);
            let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
            let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
            number.ok_or_else(|| wrong("invalid cpio archive: a field of a member is not a number"))
        };
        let (size_bytes, name_bytes) = (number(6)?, number(11)?);
        if name_bytes > MAX_NAME_BYTES {
            return Err(wrong(
                "invalid cpio archive: the name of a member is too long",
            ));
        }
        // Header and name together are padded to a multiple of four bytes.
        let mut name = vec![0; (HEAD_BYTES + name_bytes as usize).next_multiple_of(4) - HEAD_BYTES];
        input.read_exact(&mut name)?;
        name.truncate(name_bytes.saturating_sub(1) as usize);
        Ok(Some(Self { name, size_bytes }))
    }
}

fn skip(input: &mut impl BufRead, mut left: u64) -> io::Result<()> {
    while left > 0 {
        let buffered = input.fill_buf()?.len();
        if buffered == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let skipped = usize::try_from(left).map_or(buffered, |left| left.min(buffered));
        input.consume(skipped);
        left -= skipped as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;

    fn member(name: &str, contents: &[u8]) -> Vec<u8> {
        let zeroes = "0".repeat(8);
        let mut head = format!("070701{}", zeroes.repeat(6));
        let (size, name_size) = (contents.len(), name.len() + 1);
        let between = zeroes.repeat(4);
        write!(head, "{size:08x}{between}{name_size:08x}{zeroes}").unwrap();
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(name.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend_from_slice(contents);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn archive_of(names: &[&str]) -> Vec<u8> {
        let mut bytes: Vec<u8> = names
            .iter()
            .flat_map(|name| member(name, b"abcde"))
            .collect();
        bytes.extend(member("TRAILER!!!", b""));
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    fn paths(image: &[u8]) -> diskfs_disk::Result<Vec<String>> {
        let mut found = Vec::new();
        each_path(image, |path| found.push(path.to_owned()))?;
        Ok(found)
    }

    #[test]
    fn archives_one_behind_the_other() {
        let mut image = archive_of(&["kernel/x86/microcode/a.bin"]);
        let main = archive_of(&["usr/lib/modules/1/virtio_blk.ko", "init"]);
        image.extend(zstd::encode_all(&main[..], 1).unwrap());
        let expected = [
            "kernel/x86/microcode/a.bin",
            "usr/lib/modules/1/virtio_blk.ko",
            "init",
        ];
        assert_eq!(paths(&image).unwrap(), expected);
        assert_eq!(paths(&main).unwrap(), expected[1..]);
        assert_eq!(paths(b"").unwrap(), [""; 0]);
    }

    #[test]
    fn nonsense_is_an_error() {
        let mut long = archive_of(&["a"]);
        long[94..102].copy_from_slice(b"ffffffff");
        let mut digits = archive_of(&["a"]);
        digits[54] = b'x';
        let cut = &archive_of(&["a"])[..113];
        for image in [&b"no archive"[..], &long, &digits, cut] {
            assert!(paths(image).is_err());
        }
    }
}
