//! `diskfs tar`.

mod member;
mod sparse;
mod writer;

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::slice;

use clap::Args;

use diskfs::vfs::{FileType, Follow, InodeNumber, Metadata};
use diskfs::{Error, ErrorKind, Node, Result};
use serde_json::Map;

use super::copy::{self, Buffer};
use super::operand::Operand;
use super::options::SourceArgs;
use super::out_file::{OutFile, is_standard};
use super::progress::{Holes, Progress, TotalBytes, sizes_below};
use super::session::{Output, Session, raw_stdout};
use super::show::json::{self as document, put_name};
use super::show::name::{join, text};
use member::Member;
use sparse::Sparse;
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
    let directory = place.node(Follow::All)?;
    if !directory.metadata()?.is_dir() {
        let error = diskfs::vfs::Error::from(diskfs::vfs::ErrorKind::NotADirectory)
            .with_hint("name its directory, and the file as a member: IMG:/DIR FILE");
        return Err(directory.in_image(error));
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
        writer: Writer::new(io::BufWriter::with_capacity(copy::BUFFER_BYTES, out)),
        links: HashMap::new(),
        buffer: Buffer::default(),
        progress: Progress::new(session.progress(), args.total(&directory)),
        with_xattrs: !args.no_xattrs,
        files: 0,
    };
    packer.pack_all(args, session, &directory)?;
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
    fn total(&self, directory: &Node) -> TotalBytes {
        let members = self.members.iter();
        let members = members.filter_map(|name| member(directory, name.as_bytes()).ok());
        let mut starts: Vec<_> = members.collect();
        if self.members.is_empty() {
            starts.push(directory.clone());
        }
        sizes_below(starts, Holes::LeftOut)
    }
}

/// Finds a member that is named.
fn member(directory: &Node, name: &[u8]) -> Result<Node> {
    let path = join(directory.path(), name.strip_prefix(b"/").unwrap_or(name));
    directory.filesystem().node(path, Follow::AllButLast)
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
    fn pack_all(&mut self, args: &Tar, session: &mut Session, directory: &Node) -> Result<()> {
        if args.members.is_empty() {
            return self.pack_tree(session, b".", directory);
        }
        for name in &args.members {
            let name = name.as_bytes();
            match member(directory, name) {
                Ok(start) => self.pack_tree(session, clean(name), &start)?,
                Err(error) => session.report(&error),
            }
        }
        Ok(())
    }

    /// Packs a file as `prefix`, with all below it.
    fn pack_tree(&mut self, session: &mut Session, prefix: &[u8], start: &Node) -> Result<()> {
        for entry in start.walk_sorted() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    session.report(&error);
                    continue;
                }
            };
            if entry.metadata.file_type == FileType::Socket {
                let name = text(&join(prefix, &entry.path));
                session.warn(&format!("{name}: a socket has no place in an archive"));
                continue;
            }
            let name = join(prefix, &entry.path);
            let node = start.below(&entry.path, entry.metadata.inode);
            match self.member(name, node, entry.metadata) {
                Ok(member) => self.pack(session, &member)?,
                Err(error) => session.report(&error),
            }
        }
        Ok(())
    }

    /// All of a file but its contents.
    fn member(&mut self, name: Vec<u8>, node: Node, metadata: Metadata) -> Result<Member> {
        let target = match metadata.file_type {
            FileType::Symlink => Some(node.read_link()?),
            _ => None,
        };
        let xattrs = if self.with_xattrs {
            node.xattrs()?
        } else {
            Vec::new()
        };
        let sparse = match metadata.file_type {
            FileType::Regular => sparse::map(&node, &metadata)?,
            _ => None,
        };
        let mut member = Member {
            name,
            node,
            metadata,
            target,
            hard_link: None,
            xattrs,
            sparse,
        };
        if member.metadata.links > 1 && !member.metadata.is_dir() {
            let inode = member.metadata.inode;
            member.hard_link = self.links.get(&inode).cloned();
            if member.hard_link.is_none() {
                self.links.insert(inode, member.name.clone());
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
        let whole = 0..member.metadata.size_bytes;
        let runs = member
            .sparse
            .as_ref()
            .map_or(slice::from_ref(&whole), Sparse::runs);
        let mut file = member.node.clone().open_with(&member.metadata)?;
        for run in runs {
            let (writer, progress) = (&mut self.writer, &mut self.progress);
            let mut write_error = None;
            let copied = copy::range(&mut file, run.clone(), &mut self.buffer, |piece| {
                let wrote = writer.write(piece);
                written += wrote.inspect_err(|e| write_error = Some(e.kind()))?;
                progress.advance(piece.len() as u64);
                Ok(())
            });
            match copied {
                Ok(copied) if copied == run.end - run.start => {}
                Ok(_) => {
                    let error = diskfs::vfs::Error::new(
                        diskfs::vfs::ErrorKind::Corrupt,
                        "file is shorter than its inode says; the rest is packed as zeroes",
                    );
                    session.report(&member.node.in_image(error));
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
