//! The checksums of the appliance's files: a file that was cut or changed is reported by its name,
//! and not by whatever fails with its contents.
//!
//! The checksum of `uml` is in `uml.crc32c`: the CRC-32C and the size of the file. A file without
//! one is not checked.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::install::install;
use diskfs_block::bytes::len_u64;
use diskfs_disk::{Error, ErrorKind, Result};

/// The suffix of the files with checksums.
const SUFFIX: &str = ".crc32c";

/// The size of the buffer for reading: it stays in the processor's cache.
const BUFFER_BYTES: usize = 256 << 10;

/// The maximum length of a file with a checksum.
const TEXT_BYTES_MAX: u64 = 100;

/// The checksum of a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Checksum {
    crc32c: u32,
    size_bytes: u64,
}

impl Checksum {
    fn of_file(file: &Path) -> io::Result<Self> {
        let mut file = File::open(file)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let (mut crc32c, mut size_bytes) = (0, 0_u64);
        loop {
            let len = file.read(&mut buffer)?;
            let Some(read) = buffer.get(..len).filter(|read| !read.is_empty()) else {
                return Ok(Self { crc32c, size_bytes });
            };
            crc32c = crc32c::crc32c_append(crc32c, read);
            size_bytes = size_bytes.saturating_add(len_u64(len));
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x} {}", self.crc32c, self.size_bytes)
    }
}

impl FromStr for Checksum {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        let (crc32c, size_bytes) = text.trim_end().split_once(' ').ok_or(())?;
        Ok(Self {
            crc32c: u32::from_str_radix(crc32c, 16).map_err(drop)?,
            size_bytes: size_bytes.parse().map_err(drop)?,
        })
    }
}

/// Writes the checksum of a file that was built.
///
/// # Errors
/// Fails if the file can't be read or the checksum can't be written.
pub(crate) fn write_checksum(file: &Path) -> Result<()> {
    let checksum = Checksum::of_file(file).map_err(|e| Error::from(e).in_file(file))?;
    install(&path_of(file), format!("{checksum}\n").as_bytes(), 0o644)
}

/// Removes the checksum of a file that will be replaced, so that the new file is never compared
/// with the checksum of the old one.
///
/// # Errors
/// Fails if the checksum exists and can't be removed.
pub(crate) fn remove_checksum(file: &Path) -> Result<()> {
    let path = path_of(file);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::from(error).in_file(&path))
        }
        _ => Ok(()),
    }
}

/// Compares a file with its checksum, if it has one.
///
/// # Errors
/// Fails with `Unsupported` if the file is not as it was built.
pub fn verify_checksum(file: &Path) -> Result<()> {
    let Some(wanted) = checksum_of(file)? else {
        return Ok(());
    };
    let io_error = |e: io::Error| Error::from(e).in_file(file);
    // A cut file is found without reading it.
    let size_bytes = fs::metadata(file).map_err(io_error)?.len();
    if size_bytes != wanted.size_bytes {
        let built = wanted.size_bytes;
        return Err(damaged(
            file,
            &format!("it has {size_bytes} bytes, and had {built} when it was built"),
        ));
    }
    if Checksum::of_file(file).map_err(io_error)? != wanted {
        return Err(damaged(file, "its checksum is wrong"));
    }
    Ok(())
}

/// Reads the checksum of a file; `None` if it has none.
fn checksum_of(file: &Path) -> Result<Option<Checksum>> {
    let path = path_of(file);
    let mut text = String::new();
    let opened = match File::open(&path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::from(error).in_file(&path)),
    };
    let read = opened.take(TEXT_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|e| Error::from(e).in_file(&path))?;
    let checksum = text.parse();
    checksum
        .map(Some)
        .map_err(|()| damaged(&path, "it is not a checksum"))
}

fn damaged(file: &Path, how: &str) -> Error {
    let reason = format!("damaged file of the appliance: {how}");
    Error::new(ErrorKind::Unsupported, reason)
        .in_file(file)
        .with_hint("build it again with `diskfs appliance build`, or copy it again")
}

fn path_of(file: &Path) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(SUFFIX);
    path.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_and_a_changed_file_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("uml");
        fs::write(&file, "123456789").unwrap();
        verify_checksum(&file).unwrap(); // Without a checksum nothing is checked.
        write_checksum(&file).unwrap();
        let text = fs::read_to_string(dir.path().join("uml.crc32c")).unwrap();
        // The check value of CRC-32C.
        assert_eq!(text, "e3069283 9\n");
        verify_checksum(&file).unwrap();
        for (contents, how) in [
            ("12345678", "it has 8 bytes, and had 9"),
            ("123456780", "its checksum is wrong"),
        ] {
            fs::write(&file, contents).unwrap();
            let error = verify_checksum(&file).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.reason().contains(how), "{error}");
            assert!(error.to_string().contains("/uml"), "{error}");
        }
        remove_checksum(&file).unwrap();
        remove_checksum(&file).unwrap();
        verify_checksum(&file).unwrap();
    }

    #[test]
    fn a_checksum_that_is_none_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tools");
        fs::write(&file, "x").unwrap();
        fs::write(dir.path().join("tools.crc32c"), "xyz").unwrap();
        assert!(verify_checksum(&file).is_err());
    }
}
