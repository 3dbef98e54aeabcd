//! Common parts of the commands that run filesystem programs in a microVM.

use std::io::{self, Write as _};

use diskfs::vm::Stream;
use diskfs::vm::tools::{self, ToolResult, Work};
use diskfs::{Content, ContentClass, Disk, Error, ErrorKind, Result, Volume};

use super::options::SourceArgs;
use super::session::{Output, Session};

/// Returns the selected volume, or all volumes whose filesystem the program supports.
///
/// # Errors
/// `NotFound` if there is none.
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
        let reason = "no filesystem found that a known program supports";
        return Err(Error::new(ErrorKind::NotFound, reason).in_file(disk.path()));
    }
    Ok(found)
}

/// Runs the program on a volume that is open for writing. Its output is shown with `-v`.
pub(super) fn work(
    source: &SourceArgs,
    volume: &Volume,
    work: &Work,
    session: &Session,
) -> Result<ToolResult> {
    let device = volume.writable_device()?;
    let options = source.vm.options()?;
    let kind = volume.filesystem_kind()?;
    tools::work(&options, kind, device, work, output_handler(session))
}

/// Returns a callback that shows a program's output with `-v`.
pub(super) fn output_handler(session: &Session) -> impl FnMut(Stream, &[u8]) -> Result<()> + use<> {
    let shows = session.is_verbose() && session.output() == Output::Text;
    move |_, bytes| {
        if shows {
            let _ = io::stderr().write_all(bytes); // A failure here cannot be reported.
        }
        Ok(())
    }
}
