//! The command `diskfs tar-in`.

mod unpack;

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::PathBuf;

use clap::Args;

use diskfs::archive::{self, Archive};
use diskfs::vfs::Follow;
use diskfs::{Error, ErrorKind, Result};
use serde_json::Map;

use super::operand::Operand;
use super::options::SourceArgs;
use super::out_file::is_standard;
use super::progress::Progress;
use super::session::Session;
use super::target::{TargetPlace, Targets, WriteArgs};
use unpack::Unpacker;

/// Unpack a tar archive into an image
#[derive(Debug, Args)]
#[command(
    after_help = "The archive can be compressed with gzip, bzip2, xz, zstd or lz4. Modes, owners (by number), times, hard
links, devices, extended attributes, ACLs (pax SCHILY.xattr) and holes (GNU sparse) are preserved.
Absolute names, names with `..`, and names that lead out of DIR through a symlink are refused, and
so are hard links to such names. A symlink in the place of a file is replaced, not followed.

Examples:
  diskfs tar-in disk.qcow2:/ < root.tar.zst
  diskfs tar-in -f site.tar.gz disk.qcow2:/srv/www
  tar -c --xattrs ./tree | diskfs tar-in disk.qcow2:/opt"
)]
pub(super) struct TarIn {
    /// The directory to unpack the archive in
    #[arg(value_name = "IMG:/DIR")]
    directory: Operand,

    /// Read the archive from FILE instead of standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Create files that belong to root, not to the owners in the archive
    #[arg(long)]
    no_same_owner: bool,

    /// Keep existing files, and report an error for each of them
    #[arg(short = 'k', long)]
    keep_old_files: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &TarIn, session: &mut Session) -> Result<()> {
    let input = args.input()?;
    let mut targets = Targets::new(&args.source, &args.write);
    let mut facts = Map::new();
    if let Some(place) = targets.place(session, &args.directory)? {
        match args.unpack(session, &place, input) {
            Ok(files) => {
                facts.insert("files".to_owned(), files.into());
            }
            Err(error) => session.report(&error),
        }
    }
    targets.finish(session, facts)
}

impl TarIn {
    /// Opens the archive, and decompresses it if necessary.
    fn input(&self) -> Result<Box<dyn Read>> {
        let input: Box<dyn Read> = match self.file.as_deref().filter(|path| !is_standard(path)) {
            Some(path) => {
                let file = File::open(path).map_err(|e| Error::from(e).in_file(path))?;
                Box::new(file)
            }
            None if io::stdin().is_terminal() => {
                let reason = "refusing to read an archive from a terminal";
                let error = Error::new(ErrorKind::Invalid, reason);
                return Err(error.with_hint("give -f FILE, or use a pipe"));
            }
            None => Box::new(io::stdin().lock()),
        };
        archive::decompressed(input)
    }

    /// Unpacks the archive. Returns the number of its members.
    fn unpack(
        &self,
        session: &mut Session,
        place: &TargetPlace,
        input: Box<dyn Read>,
    ) -> Result<u64> {
        let directory = place.reader().resolve(&place.path, Follow::All)?;
        let metadata = place.fs().metadata(directory);
        if !metadata.map_err(|e| place.error(e))?.is_dir() {
            let error = diskfs::vfs::Error::from(diskfs::vfs::ErrorKind::NotADirectory);
            return Err(place.error(error.in_path(&place.path)));
        }
        let mut progress = Progress::new(session.progress(), None);
        let mut unpacker = Unpacker::new(place.fs(), directory, self);
        let mut archive = Archive::new(input);
        let mut files = 0;
        // An error of the archive itself ends the loop, because the next member cannot be found.
        while let Some(member) = archive.next()? {
            files += 1;
            progress.file();
            let name = member.name.clone();
            let advance = &mut |bytes| progress.advance(bytes);
            match unpacker.unpack(member, archive.contents(), advance) {
                Ok(()) => session.print_done("unpacked", &name),
                Err(error) => session.report(&place.error(error.below(&place.path))),
            }
            if session.has_failed_halfway() {
                break;
            }
        }
        for error in unpacker.finish() {
            session.report(&place.error(error.below(&place.path)));
        }
        if unpacker.xattrs_ignored > 0 {
            let count = unpacker.xattrs_ignored;
            session.warn(&format!(
                "{count} extended attributes could not be set in the image"
            ));
        }
        progress.finish();
        Ok(files)
    }
}
