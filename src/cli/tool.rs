//! Common parts of the commands that work on whole filesystems, natively or with the filesystem's
//! own program in a microVM.

#[cfg(feature = "microvm")]
use std::io::{self, Write as _};

use clap::Args;
#[cfg(feature = "microvm")]
use clap::ValueEnum;

#[cfg(feature = "microvm")]
use diskfs::vm::{
    Stream,
    tools::{self, ToolResult, Work},
};
use diskfs::{Content, ContentClass, Disk, Error, ErrorKind, Result, Volume};

use super::options::SourceArgs;
#[cfg(feature = "microvm")]
use super::session::{Output, Session};

/// The program that does the work on a filesystem.
#[cfg(feature = "microvm")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// diskfs itself
    Native,
    /// The filesystem's own program, in a microVM
    Vm,
}

#[derive(Debug, Args)]
pub(super) struct MethodArgs {
    /// Do the work with diskfs itself (native), or with the filesystem's own program in a microVM
    /// (vm) [default: native if diskfs supports the filesystem, otherwise vm]
    #[cfg(feature = "microvm")]
    #[arg(long, value_name = "METHOD", hide_possible_values = true)]
    with: Option<Method>,
}

impl MethodArgs {
    /// Returns true if the options choose a microVM.
    #[cfg(feature = "microvm")]
    pub(super) fn asks_for_vm(&self) -> bool {
        self.with == Some(Method::Vm)
    }

    /// Returns true if the options forbid a microVM.
    #[cfg(feature = "microvm")]
    pub(super) fn asks_for_native(&self) -> bool {
        self.with == Some(Method::Native)
    }

    /// Does the work natively, and in a microVM if the options say so, or if diskfs does not
    /// support it and the options allow a microVM.
    #[cfg(feature = "microvm")]
    pub(super) fn native_or_vm<T>(
        &self,
        native: impl FnOnce() -> Result<T>,
        vm: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match self.with {
            Some(Method::Vm) => vm(),
            Some(Method::Native) => native(),
            None => match native() {
                Err(e) if e.kind() == ErrorKind::Unsupported => vm(),
                done => done,
            },
        }
    }
}

/// Returns the selected volume, or all volumes with a filesystem that `supports` accepts.
///
/// # Errors
/// `NotFound` if there is none.
pub(super) fn volumes(
    source: &SourceArgs,
    disk: &Disk,
    supports: impl Fn(&Content) -> bool,
) -> Result<Vec<Volume>> {
    if let Some(volume) = source.volume.volume_alone(disk)? {
        return Ok(vec![volume]);
    }
    let mut found = Vec::new();
    for volume in disk.volumes()? {
        if volume.problem().is_some() || volume.is_unlocked() || disk.is_member(volume)? {
            continue;
        }
        let takes = |c: &Content| c.class == ContentClass::Filesystem && supports(c);
        if volume.content()?.is_some_and(takes) {
            found.push(volume.clone());
        }
    }
    if found.is_empty() {
        let reason = "no filesystem found that is supported";
        return Err(Error::new(ErrorKind::NotFound, reason).in_file(disk.path()));
    }
    Ok(found)
}

/// Returns true if a program is known that does the work on this content.
#[cfg(feature = "microvm")]
pub(super) fn has_program(content: &Content, work: &Work) -> bool {
    tools::is_known(content.kind, work)
}

/// Runs the program on a volume that is open for writing. Its output is shown with `-v`.
#[cfg(feature = "microvm")]
pub(super) fn work(
    source: &SourceArgs,
    volume: &Volume,
    work: &Work,
    session: &Session,
) -> Result<ToolResult> {
    let device = only_device(volume, volume.writable_devices()?)?;
    let options = source.vm.options()?;
    let kind = volume.filesystem_kind()?;
    tools::work(&options, kind, device, work, output_handler(session))
}

/// Returns the device of a filesystem with one device. A program that got one of several would
/// report a damaged filesystem.
#[cfg(feature = "microvm")]
pub(super) fn only_device<T>(volume: &Volume, mut devices: Vec<T>) -> Result<T> {
    match (devices.pop(), devices.len()) {
        (Some(device), 0) => Ok(device),
        (_, others) => {
            let reason = format!(
                "volume {} holds a filesystem of {} devices: its own program is not supported for it",
                volume.name(),
                others.saturating_add(1)
            );
            Err(Error::new(ErrorKind::Unsupported, reason))
        }
    }
}

/// Returns a callback that shows a program's output with `-v`.
#[cfg(feature = "microvm")]
pub(super) fn output_handler(session: &Session) -> impl FnMut(Stream, &[u8]) -> Result<()> + use<> {
    let shows = session.is_verbose() && session.output() == Output::Text;
    move |_, bytes| {
        if shows {
            let _ = io::stderr().write_all(bytes); // A failure here cannot be reported.
        }
        Ok(())
    }
}
