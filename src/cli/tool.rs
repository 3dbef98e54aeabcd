//! What the commands have in common that work on filesystems with programs in a microVM.

use std::io::{self, Write as _};
use std::sync::Arc;

use diskfs::block::BlockWrite;
use diskfs::vm::Stream;
use diskfs::vm::tools::{self, Done, Work};
use diskfs::{ContentClass, Disk, Result, Volume};

use super::options::SourceArgs;
use super::session::{Output, Session};

/// The volumes that are meant: the one that is named, or all with a filesystem of which `takes` says that
/// something can be done with it.
pub(super) fn volumes(
    source: &SourceArgs,
    disk: &Disk,
    takes: impl Fn(&str) -> bool,
) -> Result<Vec<Volume>> {
    if let Some(volume) = source.volume.volume(disk)? {
        return Ok(vec![volume]);
    }
    let mut found = Vec::new();
    for volume in disk.volumes()? {
        if volume.problem().is_some() || volume.is_unlocked() || disk.is_member(volume)? {
            continue;
        }
        let content = volume.content()?;
        if content.is_some_and(|c| c.class == ContentClass::Filesystem && takes(c.kind)) {
            found.push(volume.clone());
        }
    }
    Ok(found)
}

/// Has it done on a volume that is open for writing. What the program says is shown with `-v`.
pub(super) fn work(
    source: &SourceArgs,
    volume: &Volume,
    work: &Work,
    session: &Session,
) -> Result<Done> {
    let device: Arc<dyn BlockWrite> = volume.writable_device()?;
    let options = source.vm.options()?;
    let kind = volume.filesystem_kind()?;
    tools::work(&options, kind, device, work, hear(session))
}

/// Shows what a program says, to those who want to know.
pub(super) fn hear(session: &Session) -> impl FnMut(Stream, &[u8]) -> Result<()> + use<> {
    let shows = session.is_verbose() && session.output() == Output::Text;
    move |_, bytes| {
        if shows {
            let _ = io::stderr().write_all(bytes); // Nowhere left to complain.
        }
        Ok(())
    }
}
