//! The command `diskfs tar`.

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
use super::sandbox::Needs;
use super::session::{Output, Session, raw_stdout};
use super::show::json::{self as document, put_name};
use super::show::name::{join, text};
use member::Member;
use sparse::Sparse;
use writer::Writer;

/// Pack files of an image into a tar archive
#[derive(Debug, Args)]
#[command(
    after_help = "The archive is in pax format and sorted by name, so that the same tree gives the same bytes. It
contains extended attributes (SCHILY.xattr, for GNU tar and bsdtar), hard links, devices, holes (GNU
sparse 1.0), nanoseconds, and owners by number only. With --json, a summary is printed on standard
output, or as a line on standard error if the archive is written to standard output.

Examples:
  diskfs tar disk.qcow2 | zstd > root.tar.zst
  diskfs tar -f etc.tar disk.qcow2:/etc
  diskfs tar disk.qcow2:/ etc usr/bin | tar -x --xattrs --xattrs-include='*' -C /target"
)]
pub(super) struct Tar {
    /// The directory that names are relative to; an image alone stands for its root directory
    #[arg(value_name = "IMG[:/DIR]")]
    directory: Operand,

    /// The files and directories to pack, relative to the directory [default: all of it]
    #[arg(value_name = "MEMBER")]
    members: Vec<std::ffi::OsString>,

    /// Write to FILE, which appears when the archive is complete [default: -, standard output]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// Pack names relative to DIR of the image
    #[arg(short = 'C', long, value_name = "DIR")]
    directory_in_image: Option<std::ffi::OsString>,

    /// Leave out extended attributes
    #[arg(long)]
    no_xattrs: bool,

    #[command(flatten)]
    source: SourceArgs,
}

impl Tar {
    /// Returns the files of the host that the command uses.
    pub(super) fn needs(&self) -> Needs<'_> {
        Needs::reading(std::slice::from_ref(&self.directory), &self.source)
            .writing(self.file.as_deref())
    }
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
            .with_hint("give the directory, and the file as a member: IMG:/DIR FILE");
        return Err(directory.in_image(error));
    }
    let file = args.file.as_deref().filter(|path| !is_standard(path));
    let out = match file {
        Some(path) => OutFile::create(path, &[&place.filesystem])?,
        None if io::stdout().is_terminal() => {
            let reason = "refusing to write an archive to a terminal";
            return Err(
                Error::new(ErrorKind::Invalid, reason).with_hint("give -f FILE, or use a pipe")
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
        args.print_summary(session, packer.files)?;
    }
    Ok(())
}

impl Tar {
    /// Returns the size of the files to pack.
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

/// Looks up a member that the command line names.
fn member(directory: &Node, name: &[u8]) -> Result<Node> {
    let path = join(directory.path(), name.strip_prefix(b"/").unwrap_or(name));
    directory.filesystem().node(path, Follow::AllButLast)
}

impl Tar {
    /// Prints the summary: on standard error if the archive is written to standard output.
    fn print_summary(&self, session: &Session, files: u64) -> Result<()> {
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
    /// The name under which a file with several names was first packed.
    links: HashMap<InodeNumber, Vec<u8>>,
    buffer: Buffer,
    progress: Progress,
    with_xattrs: bool,
    /// The number of packed files.
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

    /// Packs a file as `prefix`, and everything below it.
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
                session.warn(&format!(
                    "{name}: skipped a socket, which an archive cannot contain"
                ));
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

    /// Returns a file's header data, without its contents.
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

    /// Writes header and contents. The archive stays valid if the contents cannot be read: missing
    /// data is replaced by zeroes, and the error is reported.
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
                        "the file is shorter than its inode says; the rest is packed as zeroes",
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

/// Returns a member's name without leading and trailing slashes.
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
