//! Prints a manifest of all files of an ext4 image: `walk IMAGE [stat|list|read]`.
//!
//! For measurements: `stat` only walks and counts, `read` also reads all files.

use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use diskfs_block::{BlockRead, File};
use diskfs_ext4::{Ext4, Options};
use diskfs_vfs::{FileType, FsRead, Metadata, walk};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let image = args.next().ok_or("usage: walk IMAGE [stat|list|read]")?;
    let mode = args.next().unwrap_or_else(|| "list".to_owned());
    let start = Instant::now();
    let device: Arc<dyn BlockRead> = Arc::new(File::open(&image)?);
    let fs = Ext4::open(device, &Options::default())?;
    let opened = start.elapsed();
    let mut manifest = Manifest {
        fs: &fs,
        mode,
        out: std::io::BufWriter::new(std::io::stdout().lock()),
        files: 0,
        bytes: 0,
        buf: vec![0; 1 << 20],
    };
    manifest.all()?;
    let (files, bytes) = (manifest.files, manifest.bytes);
    writeln!(
        std::io::stderr(),
        "{files} files, {bytes} bytes; open {opened:?}, all {:?}; peak memory {}; {:?}",
        start.elapsed(),
        peak_memory(),
        fs.statistics()?
    )?;
    Ok(())
}

struct Manifest<'a, W> {
    fs: &'a Ext4,
    mode: String,
    out: W,
    files: u64,
    bytes: u64,
    buf: Vec<u8>,
}

impl<W: Write> Manifest<'_, W> {
    fn all(&mut self) -> Outcome {
        for entry in walk(self.fs, self.fs.root()).skip(1) {
            let entry = entry?;
            self.files += 1;
            self.file(&[b"/", &entry.path[..]].concat(), &entry.metadata)?;
        }
        Ok(())
    }

    fn file(&mut self, path: &[u8], metadata: &Metadata) -> Outcome {
        match self.mode.as_str() {
            "stat" => Ok(()),
            "read" => self.contents(metadata).map(|_| ()),
            _ => self.line(path, metadata),
        }
    }

    fn line(&mut self, path: &[u8], m: &Metadata) -> Outcome {
        let time = |t: diskfs_vfs::Timestamp| format!("{}.{:09}", t.seconds, t.nanoseconds);
        let device = m
            .device
            .map_or_else(|| "-".to_owned(), |d| format!("{}:{}", d.major, d.minor));
        let sum = self.contents(m).unwrap_or_else(|e| format!("{e}"));
        let link = match m.file_type {
            FileType::Symlink => self
                .fs
                .read_link(m.inode)
                .unwrap_or_else(|e| e.to_string().into()),
            _ => Vec::new(),
        };
        let mut xattrs = Vec::new();
        for name in self.fs.list_xattrs(m.inode)? {
            let value = self
                .fs
                .xattr(m.inode, &name)?
                .ok_or("a listed name was not found")?;
            xattrs.push(format!("{}={}", name.escape_ascii(), hex(&value)));
        }
        xattrs.sort();
        writeln!(
            self.out,
            "{} {} {:o} {} {}:{} {} {} {} {} {} {device} {sum} {} [{}]",
            path.escape_ascii(),
            m.inode,
            m.mode(),
            m.links,
            m.uid,
            m.gid,
            m.size_bytes,
            m.allocated_bytes / 512,
            time(m.accessed),
            time(m.modified),
            time(m.changed),
            link.escape_ascii(),
            xattrs.join(",")
        )?;
        Ok(())
    }

    /// Returns a checksum of the contents (FNV-1a), and counts the bytes read.
    fn contents(&mut self, m: &Metadata) -> Result<String, Box<dyn std::error::Error>> {
        if m.file_type != FileType::Regular {
            return Ok("-".to_owned());
        }
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        let mut offset = 0;
        loop {
            let n = self.fs.read_at(m.inode, offset, &mut self.buf)?;
            if n == 0 {
                return Ok(format!("{sum:016x}"));
            }
            offset += n as u64;
            self.bytes += n as u64;
            if self.mode == "list" {
                for &byte in &self.buf[..n] {
                    sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
    }
}

/// Returns the peak memory of this process.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap_or("unknown").trim().to_owned()
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    digits.collect()
}
