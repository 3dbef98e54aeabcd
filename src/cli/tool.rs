//! What the commands have in common that work on filesystems with programs in a microVM.

use std::io::{self, Write as _};

use diskfs::vm::Stream;
use diskfs::vm::tools::{self, Done, Work};
use diskfs::{Content, ContentClass, Disk, Error, ErrorKind, Result, Volume};

use super::options::SourceArgs;
use super::session::{Output, Session};

/// The volumes that are meant: the one that is named, or all with a filesystem with which it can be done.
///
/// # Errors
/// `NotFound` when there is none.
pub(super) fn volumes(source: &SourceArgs, disk: &Disk, work: &Work) -> Result<Vec<Volume>> {
    if let Some(volume) = source.volume.volume_alone(disk)? {
        return Ok(vec![volume]);
    }
    let mut found = Vec::new();
    for volume in disk.volumes()? {
        if volume.problem().is_some() || volume.is_unlocked() || disk.is_member(volume)? {
            continue;
        }
        let content = volume.content()?;
        let takes =
            |c: &Content| c.class == ContentClass::Filesystem && tools::is_known(c.kind, work);
        if content.is_some_and(takes) {
            found.push(volume.clone());
        }
    }
    if found.is_empty() {
        let reason = "holds no filesystem that there is a program for";
        return Err(Error::new(ErrorKind::NotFound, reason).in_file(disk.path()));
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
    let device = volume.writable_device()?;
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
