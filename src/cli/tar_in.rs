//! The command `diskfs tar-in`.

mod unpack;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::archive::Archive;
use diskfs::vfs::Follow;
use diskfs::{Error, ErrorKind, Result};
use serde_json::Map;

use super::operand::Operand;
use super::options::SourceArgs;
use super::out_file::is_standard;
use super::progress::Progress;
use super::session::Session;
use super::target::{TargetPlace, Targets, WriteArgs};
use unpack::{Failure, Unpacker};

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
    let archive = args.archive()?;
    let mut targets = Targets::new(&args.source, &args.write);
    let mut facts = Map::new();
    if let Some(place) = targets.place(session, &args.directory)? {
        match args.unpack(session, &place, archive) {
            Ok(files) => {
                facts.insert("files".to_owned(), files.into());
            }
            Err(error) => session.report(&error),
        }
    }
    targets.finish(session, facts)
}

impl TarIn {
    /// Returns the path of the archive, unless it is read from standard input.
    fn path(&self) -> Option<&Path> {
        self.file.as_deref().filter(|path| !is_standard(path))
    }

    /// Opens the archive.
    fn archive(&self) -> Result<Archive<'static>> {
        match self.path() {
            Some(path) => {
                let archive = File::open(path).map_err(Error::from);
                archive.and_then(Archive::read_ahead)
            }
            None if io::stdin().is_terminal() => {
                let reason = "refusing to read an archive from a terminal";
                let error = Error::new(ErrorKind::Invalid, reason);
                Err(error.with_hint("give -f FILE, or use a pipe"))
            }
            None => Archive::read_ahead(io::stdin()),
        }
        .map_err(|error| self.in_archive(error))
    }

    /// Adds the name of the archive to an error.
    fn in_archive(&self, error: Error) -> Error {
        match self.path() {
            Some(path) => error.in_file(path),
            None => error,
        }
    }

    /// Unpacks the archive. Returns the number of its members.
    fn unpack(
        &self,
        session: &mut Session,
        place: &TargetPlace,
        mut archive: Archive<'_>,
    ) -> Result<u64> {
        let directory = place.reader().resolve(&place.path, Follow::All)?;
        let metadata = place.fs().metadata(directory);
        if !metadata.map_err(|e| place.error(e))?.is_dir() {
            let error = diskfs::vfs::Error::from(diskfs::vfs::ErrorKind::NotADirectory);
            return Err(place.error(error.in_path(&place.path)));
        }
        let mut progress = Progress::new(session.progress(), None);
        let mut unpacker = Unpacker::new(place.fs(), directory, self);
        let mut files = 0;
        // An error of the archive itself ends the loop, because the next member cannot be found.
        while let Some(member) = archive.next().map_err(|e| self.in_archive(e))? {
            files += 1;
            progress.file();
            let name = member.name.clone();
            let advance = &mut |bytes| progress.advance(bytes);
            match unpacker.unpack(member, archive.contents(), advance) {
                Ok(()) => session.print_done("unpacked", &name),
                Err(Failure::Archive(error)) => return Err(self.in_archive(error)),
                Err(Failure::Member(error)) => {
                    session.report(&place.error(error.below(&place.path)));
                }
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
