//! `diskfs tar`.

mod member;
mod sparse;
mod writer;

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::Args;

use diskfs::vfs::{FileType, Follow, InodeNumber};
use diskfs::{Error, ErrorKind, Filesystem, Result};
use serde_json::Map;

use super::copy::{self, Buffer, Source};
use super::operand::Operand;
use super::options::SourceArgs;
use super::out_file::{OutFile, is_standard};
use super::progress::{Holes, Progress, TotalBytes, sizes_below};
use super::session::{Located, Output, Session, raw_stdout};
use super::show::json::{self as document, put_name};
use super::show::name::{join, text};
use super::sorted_walk::{Entry, SortedWalk};
use member::Member;
use writer::Writer;

/// Pack files into a tar archive
#[derive(Debug, Args)]
#[command(
    after_help = "The archive is in pax format, sorted by name, so that the same tree gives the same bytes. It has
extended attributes (SCHILY.xattr, as GNU tar and bsdtar take them), hard links, devices,
holes (GNU sparse 1.0), nanoseconds, and owners by number only. With --json, what was packed is told on
standard output, or as a line on standard error where the archive goes to standard output.

Examples:
  diskfs tar disk.qcow2 | zstd > root.tar.zst
  diskfs tar -f etc.tar disk.qcow2:/etc
  diskfs tar disk.qcow2:/ etc usr/bin | tar -x --xattrs --xattrs-include='*' -C /target"
)]
pub(super) struct Tar {
    /// The directory that names are relative to; an image alone is its root
    #[arg(value_name = "IMG[:/DIR]")]
    directory: Operand,

    /// What to pack of it, instead of all
    #[arg(value_name = "MEMBER")]
    members: Vec<std::ffi::OsString>,

    /// Write to FILE, which appears when the archive is complete; - for standard output, the default
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Names are relative to DIR of the image
    #[arg(short = 'C', long, value_name = "DIR")]
    directory_in_image: Option<std::ffi::OsString>,

    /// Leave extended attributes out
    #[arg(long)]
    no_xattrs: bool,

    #[command(flatten)]
    source: SourceArgs,
}

pub(super) fn run(args: &Tar, session: &mut Session) -> Result<()> {
    let Some(mut place) = session.place(&args.directory, &args.source) else {
        return Ok(());
    };
    if let Some(directory) = &args.directory_in_image {
        place.path = join(&place.path, directory.as_bytes().trim_ascii_start());
    }
    let directory = place.filesystem.resolve(&place.path, Follow::All)?;
    let metadata = place.filesystem.as_fs().metadata(directory);
    if !metadata.map_err(|e| place.filesystem.in_image(e))?.is_dir() {
        let error = diskfs::vfs::Error::from(diskfs::vfs::ErrorKind::NotADirectory)
            .with_hint("name its directory, and the file as a member: IMG:/DIR FILE");
        return Err(place.filesystem.in_image(error.in_path(&place.path)));
    }
    let file = args.file.as_deref().filter(|path| !is_standard(path));
    let out = match file {
        Some(path) => OutFile::create(path, &[&place.filesystem])?,
        None if io::stdout().is_terminal() => {
            let reason = "an archive is not for a terminal";
            return Err(
                Error::new(ErrorKind::Invalid, reason).with_hint("give -f FILE, or pipe it on")
            );
        }
        None => OutFile::stdout()?,
    };
    let mut packer = Packer {
        filesystem: place.filesystem.clone(),
        writer: Writer::new(io::BufWriter::with_capacity(copy::BUFFER_BYTES, out)),
        links: HashMap::new(),
        buffer: Buffer::default(),
        progress: Progress::new(session.progress(), args.total(&place, directory)),
        with_xattrs: !args.no_xattrs,
        files: 0,
    };
    packer.pack_all(args, session, &place, directory)?;
    packer.progress.finish();
    let out = packer.writer.finish()?.into_inner();
    out.map_err(io::IntoInnerError::into_error)?.finish(file)?;
    if session.output() == Output::Json {
        args.tell(session, packer.files)?;
    }
    Ok(())
}

impl Tar {
    /// How much there is to pack.
    fn total(&self, place: &Located, directory: InodeNumber) -> TotalBytes {
        let filesystem = &place.filesystem;
        let members = self.members.iter().filter_map(|member| {
            let path = in_directory(place, member.as_bytes());
            let start = filesystem.resolve(&path, Follow::AllButLast).ok()?;
            Some((filesystem.clone(), start))
        });
        let mut starts: Vec<_> = members.collect();
        if self.members.is_empty() {
            starts.push((filesystem.clone(), directory));
        }
        sizes_below(starts, Holes::LeftOut)
    }
}

/// The path of a member that is named.
fn in_directory(place: &Located, name: &[u8]) -> Vec<u8> {
    join(&place.path, name.strip_prefix(b"/").unwrap_or(name))
}

impl Tar {
    /// Says what was packed: on standard error where standard output has the archive.
    fn tell(&self, session: &Session, files: u64) -> Result<()> {
        let mut fields = Map::new();
        fields.insert("files".to_owned(), files.into());
        let Some(path) = self.file.as_deref().filter(|path| !is_standard(path)) else {
            let line = document::line(session.command(), fields.into());
            return Ok(io::stderr().write_all(line.as_bytes())?);
        };
        put_name(&mut fields, "archive", path.as_os_str().as_bytes());
        document::write(&mut raw_stdout()?, session.command(), fields.into())?;
        Ok(())
    }
}

struct Packer {
    filesystem: Filesystem,
    writer: Writer<io::BufWriter<OutFile>>,
    /// The name under which a file with several names was packed first.
    links: HashMap<InodeNumber, Vec<u8>>,
    buffer: Buffer,
    progress: Progress,
    with_xattrs: bool,
    /// How many files are packed.
    files: u64,
}

impl Packer {
    fn pack_all(
        &mut self,
        args: &Tar,
        session: &mut Session,
        place: &Located,
        directory: InodeNumber,
    ) -> Result<()> {
        if args.members.is_empty() {
            return self.pack_tree(session, b".", &place.path, directory);
        }
        for member in &args.members {
            let name = member.as_bytes();
            let path = in_directory(place, name);
            match self.filesystem.resolve(&path, Follow::AllButLast) {
                Ok(start) => self.pack_tree(session, clean(name), &path, start)?,
                Err(error) => session.report(&error),
            }
        }
        Ok(())
    }

    /// Packs what is at `base` in the image as `prefix`, with all below it.
    fn pack_tree(
        &mut self,
        session: &mut Session,
        prefix: &[u8],
        base: &[u8],
        start: InodeNumber,
    ) -> Result<()> {
        let filesystem = self.filesystem.clone();
        for entry in SortedWalk::new(filesystem.as_fs(), start) {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    session.report(&filesystem.in_image(error.below(base)));
                    continue;
                }
            };
            if entry.metadata.file_type == FileType::Socket {
                let name = text(&join(prefix, &entry.path));
                session.warn(&format!("{name}: a socket has no place in an archive"));
                continue;
            }
            let (name, path) = (join(prefix, &entry.path), join(base, &entry.path));
            match self.member(name, path, &entry) {
                Ok(member) => self.pack(session, &member)?,
                Err(error) => session.report(&error),
            }
        }
        Ok(())
    }

    /// All of a file but its contents.
    fn member(&mut self, name: Vec<u8>, path: Vec<u8>, entry: &Entry) -> Result<Member> {
        let metadata = &entry.metadata;
        let fs = self.filesystem.as_fs();
        let in_place = |e: diskfs::vfs::Error| self.filesystem.in_image(e.in_path(&path));
        let target = match metadata.file_type {
            FileType::Symlink => Some(fs.read_link(metadata.inode).map_err(in_place)?),
            _ => None,
        };
        let xattrs = if self.with_xattrs {
            self.filesystem.xattrs_of(metadata.inode)?
        } else {
            Vec::new()
        };
        let sparse = match metadata.file_type {
            FileType::Regular => sparse::map(fs, metadata).map_err(in_place)?,
            _ => None,
        };
        let mut member = Member {
            name,
            path,
            metadata: metadata.clone(),
            target,
            hard_link: None,
            xattrs,
            sparse,
        };
        if metadata.links > 1 && !metadata.is_dir() {
            member.hard_link = self.links.get(&metadata.inode).cloned();
            if member.hard_link.is_none() {
                self.links.insert(metadata.inode, member.name.clone());
            }
        }
        Ok(member)
    }

    /// Writes header and contents. The archive stays sound when the contents can't be read: what is
    /// missing is zeroes, and the error is told.
    fn pack(&mut self, session: &mut Session, member: &Member) -> Result<()> {
        self.progress.file();
        self.files += 1;
        let stored_bytes = member.stored_bytes();
        member.write_header(&mut self.writer, stored_bytes)?;
        if stored_bytes == 0 {
            return Ok(());
        }
        let mut written = match &member.sparse {
            Some(sparse) => self.writer.write(&sparse.encoded())?,
            None => 0,
        };
        let whole = [(0, member.metadata.size_bytes)];
        let runs = member
            .sparse
            .as_ref()
            .map_or(&whole[..], |sparse| sparse.runs());
        for run in runs {
            let (writer, progress) = (&mut self.writer, &mut self.progress);
            let mut write_error = None;
            let source = Source {
                filesystem: &self.filesystem,
                inode: member.metadata.inode,
                path: &member.path,
            };
            let copied = copy::range(source, *run, &mut self.buffer, |piece| {
                let wrote = writer.write(piece);
                written += wrote.inspect_err(|e| write_error = Some(e.kind()))?;
                progress.advance(piece.len() as u64);
                Ok(())
            });
            match copied {
                Ok(copied) if copied == run.1 => {}
                Ok(_) => {
                    let error = diskfs::vfs::Error::new(
                        diskfs::vfs::ErrorKind::Corrupt,
                        "file is shorter than its inode says; the rest is packed as zeroes",
                    );
                    session.report(&self.filesystem.in_image(error.in_path(&member.path)));
                    break;
                }
                Err(error) if write_error.is_some() => return Err(error),
                Err(error) => {
                    session.report(&error);
                    break;
                }
            }
        }
        self.writer.pad(stored_bytes.saturating_sub(written))?;
        Ok(())
    }
}

/// A member's name without slashes at its ends.
fn clean(name: &[u8]) -> &[u8] {
    let from = name
        .iter()
        .position(|byte| *byte != b'/')
        .unwrap_or(name.len());
    let to = name
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(from, |at| at + 1);
    match &name[from..to] {
        b"" => b".",
        name => name,
    }
}
