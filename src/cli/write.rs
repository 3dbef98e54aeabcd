//! The command `diskfs write`.

use std::io::{self, IsTerminal, Read};
use std::ops::ControlFlow;

use clap::Args;

use diskfs::vfs::{self, FileType, FileWriter, InodeNumber, SetMetadata, replace_contents};
use diskfs::{Error, Result};

use super::chown::NewOwner;
use super::mode_change::{FileClass, ModeChange};
use super::operand::Operand;
use super::options::SourceArgs;
use super::progress::Progress;
use super::session::Session;
use super::target::{TargetPlace, Targets, UMASK, WriteArgs};

/// The amount of input that is read before the file is changed: if reading it fails, the file stays
/// unchanged.
const READ_FIRST_BYTES: u64 = 16 << 20;

/// Write standard input to a file
#[derive(Debug, Args)]
#[command(
    after_help = "The file keeps its owner, mode and attributes; a new file belongs to root, and has mode 0644. After
a crash or an error, the file has its old or its new contents, so the image needs room for both (see
`diskfs help`).

Examples:
  echo web1 | diskfs write disk.qcow2:/etc/hostname
  diskfs write --mode 0600 --owner root:root disk.qcow2:/root/.ssh/authorized_keys < keys
  date | diskfs write --append disk.qcow2:/var/log/deploy.log"
)]
pub(super) struct Write {
    /// The file to write to; a symlink is followed within the image
    #[arg(value_name = "IMG:/FILE")]
    file: Operand,

    /// Append to the file instead of replacing its contents
    #[arg(long)]
    append: bool,

    /// Set the mode of the file, octal or symbolic
    #[arg(long, value_name = "MODE", value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,

    /// Set the owner of the file: USER, USER:GROUP
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
        let owner = owner.map(|owner| NewOwner::look_up(owner, place.reader()));
        let owner = owner.transpose()?;
        let input = io::stdin().lock();
        if input.is_terminal() {
            tracing::info!("reading standard input until Ctrl-D");
        }
        let mut input =
            PrefetchedInput::new(input).map_err(|e| Error::from(e).in_file("standard input"))?;
        let failed = |e: vfs::Error| place.error(e.in_path(&place.path));
        let inode = regular_file(place)?;
        let mut advance = |bytes| {
            progress.advance(bytes);
            ControlFlow::Continue(())
        };
        if self.append {
            let size = place.fs().metadata(inode).map_err(failed)?.size_bytes;
            let mut writer = FileWriter::new(place.fs(), inode, size);
            writer
                .write_from(&mut input, &mut advance)
                .map_err(failed)?;
        } else {
            replace_contents(place.fs(), inode, &mut input, &mut advance).map_err(failed)?;
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
            permissions: mode.map(|mode| mode.apply(before, FileClass::Other, UMASK)),
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

/// Returns the regular file at `place`, following symlinks; a missing file is created.
pub(super) fn regular_file(place: &TargetPlace) -> Result<InodeNumber> {
    let inode = place.find_or_create()?;
    let metadata = place.fs().metadata(inode);
    let wrong = match metadata.map_err(|e| place.error(e))?.file_type {
        FileType::Regular => return Ok(inode),
        FileType::Directory => vfs::ErrorKind::IsADirectory.into(),
        _ => vfs::Error::new(vfs::ErrorKind::Invalid, "not a regular file"),
    };
    Err(place.error(wrong.in_path(&place.path)))
}

/// An input whose beginning was already read; that is mostly all of it.
struct PrefetchedInput<R> {
    head: io::Cursor<Vec<u8>>,
    rest: R,
}

impl<R: Read> PrefetchedInput<R> {
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

impl<R: Read> Read for PrefetchedInput<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.head.read(buf)? {
            0 => self.rest.read(buf),
            read => Ok(read),
        }
    }
}
