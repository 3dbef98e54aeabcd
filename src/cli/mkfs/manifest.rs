//! A manifest: the owners, modes and device nodes of a tree, in the format of mtree(5).
//!
//! `bsdtar --format=mtree` and mtree(8) of the BSDs write it. Both forms of paths are read: full
//! ones (with a slash), and names below the directory before, which `..` closes.

mod apply;
mod escape;

use std::path::Path;

use diskfs::vfs::{Device, FileType};
use diskfs::{Error, ErrorKind, Result};

use escape::unescaped;

/// The largest manifest that is read.
const MANIFEST_MAX_BYTES: u64 = 256 << 20;

/// The entries of a manifest, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Manifest {
    entries: Vec<Entry>,
}

/// The entry of one file in a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    /// The path below the root, without a leading slash; empty for the root.
    path: Vec<u8>,
    keywords: Keywords,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Keywords {
    file_type: Option<FileType>,
    uid: Option<u32>,
    gid: Option<u32>,
    permissions: Option<u16>,
    device: Option<Device>,
    link: Option<Vec<u8>>,
    /// True if the file may be missing.
    is_optional: bool,
}

impl Manifest {
    /// Reads a manifest from a file of the host.
    ///
    /// # Errors
    /// `Invalid` for a line that is not understood, with its number.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let in_file = |e| Error::from(e).in_file(path);
        let len = std::fs::metadata(path).map_err(in_file)?.len();
        let invalid = |reason: String| Error::new(ErrorKind::Invalid, reason).in_file(path);
        if len > MANIFEST_MAX_BYTES {
            return Err(invalid(format!(
                "the manifest has {len} bytes, at most {MANIFEST_MAX_BYTES}"
            )));
        }
        Self::parse(&std::fs::read(path).map_err(in_file)?).map_err(invalid)
    }

    fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let mut parser = Parser::default();
        let mut line = Vec::new();
        for (number, piece) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if let Some(start) = piece.strip_suffix(b"\\") {
                line.extend_from_slice(start);
                line.push(b' ');
                continue;
            }
            line.extend_from_slice(piece);
            let added = parser.add(&line);
            added.map_err(|reason| format!("line {}: {reason}", number + 1))?;
            line.clear();
        }
        Ok(Self {
            entries: parser.entries,
        })
    }
}

#[derive(Debug, Default)]
struct Parser {
    entries: Vec<Entry>,
    defaults: Keywords,
    /// The directory that names without a slash are in.
    directory: Vec<Vec<u8>>,
}

impl Parser {
    fn add(&mut self, line: &[u8]) -> std::result::Result<(), String> {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        let Some(first) = words.next() else {
            return Ok(());
        };
        match first {
            _ if first.starts_with(b"#") => Ok(()),
            b"/set" => words.try_for_each(|word| self.defaults.set(word)),
            b"/unset" => {
                words.for_each(|word| self.defaults.unset(word));
                Ok(())
            }
            b".." => match self.directory.pop() {
                Some(_) => Ok(()),
                None => Err("`..` above the root".to_owned()),
            },
            name => {
                let mut keywords = self.defaults.clone();
                words.try_for_each(|word| keywords.set(word))?;
                self.entry(name, keywords)
            }
        }
    }

    fn entry(&mut self, name: &[u8], keywords: Keywords) -> std::result::Result<(), String> {
        let is_full = name.contains(&b'/');
        let name = unescaped(name)?;
        let path = if is_full {
            clean(&name)?
        } else if name == b"." {
            Vec::new()
        } else {
            let mut path = self.directory.concat();
            path.extend_from_slice(&name);
            clean(&path)?
        };
        if !is_full && keywords.file_type == Some(FileType::Directory) {
            let part = if name == b"." {
                Vec::new()
            } else {
                [&name[..], b"/"].concat()
            };
            self.directory.push(part);
        }
        self.entries.push(Entry { path, keywords });
        Ok(())
    }
}

/// Removes `.` and empty components of a path.
fn clean(path: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let parts: Vec<&[u8]> = path
        .split(|&byte| byte == b'/')
        .filter(|part| !matches!(*part, b"" | b"."))
        .collect();
    if parts.contains(&&b".."[..]) || path.contains(&0) {
        let shown = String::from_utf8_lossy(path).into_owned();
        return Err(format!("invalid path `{}`", shown.escape_debug()));
    }
    Ok(parts.join(&b'/'))
}

impl Keywords {
    fn unset(&mut self, word: &[u8]) {
        match word {
            b"all" => *self = Self::default(),
            b"type" => self.file_type = None,
            b"uid" => self.uid = None,
            b"gid" => self.gid = None,
            b"mode" => self.permissions = None,
            b"device" => self.device = None,
            b"link" => self.link = None,
            b"optional" => self.is_optional = false,
            _ => {}
        }
    }

    /// Sets a keyword: `uid=0`. Keywords that say nothing about owners, modes and devices (sizes,
    /// times, digests) are skipped: the tree decides on those.
    fn set(&mut self, word: &[u8]) -> std::result::Result<(), String> {
        let text = std::str::from_utf8(word).map_err(|_| "a keyword is not text".to_owned())?;
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let invalid = || format!("invalid keyword `{}`", text.escape_debug());
        match name {
            "type" => self.file_type = Some(file_type(value).ok_or_else(invalid)?),
            "uid" => self.uid = Some(value.parse().map_err(|_| invalid())?),
            "gid" => self.gid = Some(value.parse().map_err(|_| invalid())?),
            "mode" => {
                let mode = u16::from_str_radix(value, 8).ok();
                let mode = mode.filter(|mode| *mode <= 0o7777);
                self.permissions = Some(
                    mode.ok_or_else(|| format!("{}: only octal modes are supported", invalid()))?,
                );
            }
            "device" => self.device = Some(device(value).ok_or_else(invalid)?),
            "link" => self.link = Some(unescaped(value.as_bytes())?),
            "optional" => self.is_optional = true,
            _ => {}
        }
        Ok(())
    }
}

fn file_type(name: &str) -> Option<FileType> {
    Some(match name {
        "file" => FileType::Regular,
        "dir" => FileType::Directory,
        "link" => FileType::Symlink,
        "char" => FileType::CharacterDevice,
        "block" => FileType::BlockDevice,
        "fifo" => FileType::Fifo,
        "socket" => FileType::Socket,
        _ => return None,
    })
}

/// Parses a device: `native,8,1`, `linux,8,1`, or a number in Linux's encoding of 32 bits.
fn device(text: &str) -> Option<Device> {
    if let Some((format, numbers)) = text.split_once(',') {
        let (major, minor) = numbers.split_once(',')?;
        let is_known = matches!(format, "native" | "linux" | "netbsd" | "freebsd");
        return is_known.then_some(Device {
            major: number(major)?,
            minor: number(minor)?,
        });
    }
    let packed = number(text)?;
    Some(Device {
        major: (packed >> 8) & 0xfff,
        minor: (packed & 0xff) | ((packed >> 12) & 0xfff00),
    })
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(manifest: &'a Manifest, path: &str) -> &'a Keywords {
        let mut entries = manifest.entries.iter();
        let found = entries.find(|entry| entry.path == path.as_bytes());
        &found
            .unwrap_or_else(|| panic!("{path}: {manifest:?}"))
            .keywords
    }

    #[test]
    fn both_forms_of_paths_are_read() {
        let text = b"#mtree\n/set type=file uid=0 gid=0 mode=644\n. type=dir mode=755\n\
                     etc type=dir mode=755\nshadow gid=42 mode=640 \\\n  sha256digest=00\n..\n\
                     ./dev/null type=char mode=666 device=native,1,3 uid=5\n\
                     ./a\\040b type=link link=x\\040y\n";
        let manifest = Manifest::parse(text).unwrap();
        assert_eq!(entry(&manifest, "").permissions, Some(0o755));
        let shadow = entry(&manifest, "etc/shadow");
        assert_eq!((shadow.gid, shadow.permissions), (Some(42), Some(0o640)));
        let null = entry(&manifest, "dev/null");
        assert_eq!(null.file_type, Some(FileType::CharacterDevice));
        assert_eq!(null.device, Some(Device { major: 1, minor: 3 }));
        assert_eq!(null.uid, Some(5));
        assert_eq!(entry(&manifest, "a b").link.as_deref(), Some(&b"x y"[..]));
    }

    #[test]
    fn invalid_lines_are_named() {
        for (text, line) in [
            ("x uid=a", 1),
            ("\n..", 2),
            ("./../x type=file", 1),
            ("x mode=u+s", 1),
            ("x type=door", 1),
            ("x device=hpux,1,2", 1),
            ("x\\9", 1),
        ] {
            let error = Manifest::parse(text.as_bytes()).unwrap_err();
            assert!(
                error.starts_with(&format!("line {line}: ")),
                "{text}: {error}"
            );
        }
        assert_eq!(device("0x801"), Some(Device { major: 8, minor: 1 }));
    }
}
