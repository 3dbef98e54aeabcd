//! `diskfs write`.

use std::io::{self, IsTerminal, Read};
use std::ops::ControlFlow;

use clap::Args;

use diskfs::vfs::{self, FileType, FileWriter, InodeNumber, SetMetadata, replace_contents};
use diskfs::{Error, Result};

use super::chown::NewOwner;
use super::mode_change::{ModeChange, Of};
use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::Session;
use super::target::{TargetPlace, Targets, UMASK, WriteArgs};

/// What is read before the file is touched: when it can't be read, the file stays as it was.
const READ_FIRST_BYTES: u64 = 16 << 20;

/// Write standard input to a file
#[derive(Debug, Args)]
#[command(
    after_help = "The file keeps its owner, mode and attributes; a new one belongs to root, with mode 0644. After a
crash or an error it has its old contents or the new ones, so there must be room for both
(`diskfs help` says more).

Examples:
  echo web1 | diskfs write disk.qcow2:/etc/hostname
  diskfs write --mode 0600 --owner root:root disk.qcow2:/root/.ssh/authorized_keys < keys
  date | diskfs write --append disk.qcow2:/var/log/deploy.log"
)]
pub(super) struct Write {
    /// The file; a symlink is followed within the image
    #[arg(value_name = "IMG:/FILE")]
    file: Operand,

    /// Write behind what is there
    #[arg(long)]
    append: bool,

    /// Give it this mode, octal or symbolic
    #[arg(long, value_name = "MODE", value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,

    /// Give it this owner: USER, USER:GROUP
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    changes: WriteArgs,
}

pub(super) fn run(args: &Write, session: &mut Session) -> Result<()> {
    let mut targets = Targets::new(&args.source, &args.changes).in_one_transaction();
    if let Some(place) = targets.place(session, &args.file)? {
        let mut progress = Progress::new(session.progress(), None);
        if let Err(error) = args.write(&place, &mut progress) {
            targets.fail(session, &error);
        }
        progress.finish();
    }
    targets.finish(session, serde_json::Map::new())
}

impl Write {
    fn write(&self, place: &TargetPlace, progress: &mut Progress) -> Result<()> {
        let owner = self.owner.as_deref();
        let owner = owner.map(|owner| NewOwner::find(owner, place.reader()));
        let owner = owner.transpose()?;
        let input = io::stdin().lock();
        if input.is_terminal() {
            tracing::info!("reading standard input up to Ctrl-D");
        }
        let mut input = Ahead::new(input).map_err(|e| Error::from(e).in_file("standard input"))?;
        let failed = |e: vfs::Error| place.error(e.in_path(&place.path));
        let inode = regular_file(place)?;
        let mut told = |bytes| {
            progress.advance(bytes);
            ControlFlow::Continue(())
        };
        if self.append {
            let size = place.fs().metadata(inode).map_err(failed)?.size_bytes;
            let mut writer = FileWriter::new(place.fs(), inode, size);
            writer.put_all(&mut input, &mut told).map_err(failed)?;
        } else {
            replace_contents(place.fs(), inode, &mut input, &mut told).map_err(failed)?;
        }
        self.set_attributes(place, inode, owner).map_err(failed)
    }

    fn set_attributes(
        &self,
        place: &TargetPlace,
        inode: InodeNumber,
        owner: Option<NewOwner>,
    ) -> vfs::Result<()> {
        let before = place.fs().metadata(inode)?.permissions;
        let mode = self.mode.as_ref();
        let change = SetMetadata {
            permissions: mode.map(|mode| mode.apply(before, Of::Other, UMASK)),
            uid: owner.and_then(|owner| owner.uid),
            gid: owner.and_then(|owner| owner.gid),
            ..SetMetadata::default()
        };
        if change == SetMetadata::default() {
            return Ok(());
        }
        place.fs().set_metadata(inode, &change)
    }
}

/// The regular file that `place` names, through symlinks, which is made if it isn't there.
pub(super) fn regular_file(place: &TargetPlace) -> Result<InodeNumber> {
    let inode = place.find_or_create()?;
    let metadata = place.fs().metadata(inode);
    let wrong = match metadata.map_err(|e| place.error(e))?.file_type {
        FileType::Regular => return Ok(inode),
        FileType::Directory => vfs::ErrorKind::IsADirectory.into(),
        _ => vfs::Error::new(vfs::ErrorKind::Invalid, "is no regular file"),
    };
    Err(place.error(wrong.in_path(&place.path)))
}

/// Input of which the beginning, mostly all of it, has been read.
struct Ahead<R> {
    head: io::Cursor<Vec<u8>>,
    rest: R,
}

impl<R: Read> Ahead<R> {
    fn new(mut input: R) -> io::Result<Self> {
        let mut head = Vec::new();
        input
            .by_ref()
            .take(READ_FIRST_BYTES)
            .read_to_end(&mut head)?;
        Ok(Self {
            head: io::Cursor::new(head),
            rest: input,
        })
    }
}

impl<R: Read> Read for Ahead<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buf)? {
            0 => self.rest.read(buf),
            read => Ok(read),
        }
    }
}
