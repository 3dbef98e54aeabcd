//! The command `diskfs cat`.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

use clap::Args;

use diskfs::Result;
use diskfs::vfs::{ErrorKind, FileType, Follow};

use super::bytes;
use super::copy::{self, Buffer};
use super::operand::Operand;
use super::options::SourceArgs;
use super::out_file::OutFile;
use super::progress::Progress;
use super::sandbox::Needs;
use super::session::{Located, Session};

/// Print the contents of files
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs cat disk.qcow2:/etc/fstab
  diskfs cat disk.qcow2:/etc/hosts /etc/hostname
  diskfs cat -o kernel disk.qcow2:/vmlinuz
  diskfs cat --skip-bytes 1M --read-bytes 512 disk.qcow2:/swapfile")]
pub(super) struct Cat {
    /// The files to print, one after the other; symlinks are followed within the image
    #[arg(required = true, value_name = "IMG:/FILE")]
    files: Vec<Operand>,

    /// Write to FILE instead of standard output (`-`)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Skip this many bytes at the start of each file, as od(1) does; K, M, G, ... are accepted
    #[arg(short = 'j', long, value_name = "BYTES", value_parser = bytes::parse, default_value = "0", hide_default_value = true)]
    skip_bytes: u64,

    /// Print at most this many bytes of each file
    #[arg(short = 'N', long, value_name = "BYTES", value_parser = bytes::parse)]
    read_bytes: Option<u64>,

    #[command(flatten)]
    source: SourceArgs,
}

impl Cat {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(&self.files, &self.source).writing(self.output.as_deref())
    }

    /// Returns the range to print of a file of this size.
    fn range(&self, size_bytes: u64) -> Range<u64> {
        let start = self.skip_bytes.min(size_bytes);
        let end = self.read_bytes.and_then(|length| start.checked_add(length));
        start..end.map_or(size_bytes, |end| end.min(size_bytes))
    }
}

pub(super) fn run(args: &Cat, session: &mut Session) -> Result<()> {
    let places = session.places(&args.files, &args.source);
    let mut out = match &args.output {
        // The output file is created only when there is something to write: a failed lookup does
        // not change it.
        Some(_) if places.is_empty() => return Ok(()),
        Some(path) => {
            let reading: Vec<_> = places.iter().map(|place| &place.filesystem).collect();
            OutFile::create(path, &reading)?
        }
        None => OutFile::stdout()?,
    };
    let mut buffer = Buffer::default();
    let mut progress = Progress::new(session.progress(), None);
    let mut printed = false;
    for place in places {
        match print(args, &place, &mut buffer, &mut progress, &mut out) {
            Ok(()) => printed = true,
            Err(error) if error.is_broken_pipe() => break,
            Err(error) => session.report(&error),
        }
    }
    progress.finish();
    if printed {
        out.finish(args.output.as_deref())?;
    }
    Ok(())
}

fn print(
    args: &Cat,
    place: &Located,
    buffer: &mut Buffer,
    progress: &mut Progress,
    out: &mut OutFile,
) -> Result<()> {
    let node = place.node(Follow::All)?;
    let metadata = node.metadata()?;
    let wrong = match metadata.file_type {
        FileType::Regular => {
            progress.file();
            let mut file = node.open_with(&metadata)?;
            let range = args.range(metadata.size_bytes);
            copy::range(&mut file, range, buffer, |piece| {
                out.write_all(piece)?;
                progress.advance(piece.len() as u64);
                Ok(())
            })?;
            return Ok(());
        }
        FileType::Directory => ErrorKind::IsADirectory.into(),
        _ => diskfs::vfs::Error::new(ErrorKind::Invalid, "not a regular file"),
    };
    Err(node.in_image(wrong))
}
