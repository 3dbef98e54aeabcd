//! Confinement of the commands that only read images, and of mounts.
//!
//! Before such a command opens an image, it forks. The new process is its broker: it opens the
//! images that the command line names, and the files that these name, as far as the gate allows
//! them; and it starts microVMs. The command then confines itself: it can open no file, and only
//! make the system calls that reading and printing take.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

#[cfg(feature = "fuse")]
use diskfs::export::fuse::DEVICE;
use diskfs::image::{DirectOpener, FileOpener, Format, ImageSpec, is_named_compressed, is_oci};
#[cfg(feature = "microvm")]
use diskfs::vm::{ForwardServer, Forwarded};
use diskfs::{Error, ErrorKind, Result};
use diskfs_sandbox::{
    BrokerClient, Calls, Grants, HostFiles, OtherAnswer, Profile, Strictness, serve_broker,
};
use rustix::process::{Pid, WaitOptions, waitpid};
use tempfile::TempDir;

use super::config::{Config, Sandbox};
use super::fork::{Fork, fork};
#[cfg(feature = "fuse")]
use super::mount::host::HostServer;
use super::operand::{self, Operand};
use super::options::{ImageArgs, SourceArgs};
use super::out_file::is_standard;
#[cfg(feature = "nbd")]
use super::remote::RemoteServer;

/// The broker of this process; unset in a process that is not confined.
static BROKER: OnceLock<Arc<BrokerClient>> = OnceLock::new();

/// The files of the host that a command uses.
#[derive(Debug)]
pub(crate) struct Needs<'a> {
    /// The images that the command line names.
    images: Vec<OsString>,
    source: Cow<'a, SourceArgs>,
    changes: Changes<'a>,
    /// The file that the command creates.
    output: Option<&'a Path>,
    /// The image of a registry to which the command uploads.
    #[cfg(feature = "objects")]
    push: Option<&'a str>,
    /// True if the command stores its output in a temporary file first.
    spools: bool,
    /// True if the command unpacks logs and reads times in the time zones that the host knows.
    reads_logs: bool,
    /// The broker's end of a mount.
    #[cfg(feature = "fuse")]
    mount: Option<HostServer>,
}

/// The images that a command changes.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(
    not(feature = "fuse"),
    expect(dead_code, reason = "only mounts change images")
)]
pub(crate) enum Changes<'a> {
    None,
    /// All images of the command.
    Images,
    /// A qcow2 overlay of the image.
    Overlay(&'a Path),
}

impl<'a> Needs<'a> {
    /// Returns the needs of a command that reads the images of these operands.
    pub(crate) fn reading(operands: &[Operand], source: &'a SourceArgs) -> Self {
        Self::reading_images(operand::images(operands), source)
    }

    /// Returns the needs of a command that reads these images.
    pub(crate) fn reading_images(mut images: Vec<OsString>, source: &'a SourceArgs) -> Self {
        images.extend_from_slice(&source.add);
        Self::of(images, Cow::Borrowed(source))
    }

    /// Returns the needs of a command that reads this image as a whole.
    pub(crate) fn reading_whole(image: &Operand, options: &ImageArgs) -> Self {
        let images = operand::images(std::slice::from_ref(image));
        Self::of(images, Cow::Owned(SourceArgs::of_image(options)))
    }

    /// Returns the needs of a command that reads these images as a whole, without other files.
    pub(crate) fn reading_alone(images: Vec<OsString>, options: &ImageArgs) -> Self {
        let options = ImageArgs {
            no_backing: true,
            ..options.clone()
        };
        Self::of(images, Cow::Owned(SourceArgs::of_image(&options)))
    }

    fn of(images: Vec<OsString>, source: Cow<'a, SourceArgs>) -> Self {
        Self {
            images,
            source,
            changes: Changes::None,
            output: None,
            #[cfg(feature = "objects")]
            push: None,
            spools: false,
            reads_logs: false,
            #[cfg(feature = "fuse")]
            mount: None,
        }
    }

    /// Adds a mount.
    #[cfg(feature = "fuse")]
    pub(crate) fn mounting(mut self, mount: HostServer) -> Self {
        self.mount = Some(mount);
        self
    }

    /// Sets which images are changed.
    #[cfg(feature = "fuse")]
    pub(crate) fn changing(mut self, changes: Changes<'a>) -> Self {
        self.changes = changes;
        self
    }

    /// Adds what reading logs takes: the host's time zones, and a private directory for unpacked
    /// logs.
    pub(crate) fn reading_logs(mut self) -> Self {
        self.reads_logs = true;
        self
    }

    /// Adds a private directory for the output, if `spools` is true.
    pub(crate) fn spooling(mut self, spools: bool) -> Self {
        self.spools = spools;
        self
    }

    /// Adds the file that the command creates; `-` is standard output.
    pub(crate) fn writing(mut self, output: Option<&'a Path>) -> Self {
        self.output = output.filter(|path| !is_standard(path));
        self
    }

    /// Adds the image of a registry to which the command uploads.
    #[cfg(feature = "objects")]
    pub(crate) fn pushing(mut self, uri: &'a str) -> Self {
        self.push = Some(uri);
        self
    }

    /// Returns the images that the broker may open, or `None` if an option is invalid: the command
    /// then fails before it opens an image.
    fn grants(&self) -> Option<Grants> {
        let mut gate = self.source.image.open_options().ok()?.gate;
        #[cfg(feature = "microvm")]
        self.source.vm.options().ok()?;
        let mut grants = Grants::default();
        for image in &self.images {
            // An invalid name is reported by the command.
            let Ok(ImageSpec { path, .. }) = ImageSpec::parse(image) else {
                continue;
            };
            grants = match self.changes {
                Changes::None => grants.reading(path),
                Changes::Images => grants.writing(path),
                Changes::Overlay(_) => {
                    // The overlay names it, and the user has named it, too.
                    if let Ok(real) = path.canonicalize() {
                        gate = gate.allow_file(real);
                    }
                    grants.reading(path)
                }
            };
        }
        if let Changes::Overlay(overlay) = self.changes {
            grants = grants.writing(overlay);
        }
        Some(grants.gate(gate))
    }

    /// Returns the URIs of the images that are on other machines.
    #[cfg(feature = "nbd")]
    fn remote_images(&self) -> Vec<String> {
        let specs = self.images.iter().flat_map(|image| ImageSpec::parse(image));
        specs
            .filter_map(|spec| spec.remote_uri().map(Into::into))
            .collect()
    }

    /// Returns true if an image may have to be decompressed into a temporary file.
    fn may_decompress(&self) -> bool {
        let is_compressed = |spec: ImageSpec| match spec.format.or(self.source.image.format) {
            // Layers are compressed, too.
            _ if is_oci(&spec.path) || spec.is_in_registry() => true,
            Some(format) => format == Format::Compressed,
            None => is_named_compressed(&spec.path),
        };
        let specs = self.images.iter().flat_map(|image| ImageSpec::parse(image));
        specs.into_iter().any(is_compressed)
    }

    /// Returns a directory for temporary files, which only this command uses.
    fn scratch(&self) -> Result<Option<TempDir>> {
        if !self.reads_logs && !self.spools && !self.may_decompress() {
            return Ok(None);
        }
        let dir = tempfile::Builder::new().prefix("diskfs-").tempdir();
        let dir = dir.map_err(|e| {
            let error = Error::from(e).in_file(tempfile::env::temp_dir());
            error.with_hint("set TMPDIR to a directory for temporary files")
        })?;
        // It fails only if it was set before.
        let _ = tempfile::env::override_temp_dir(dir.path());
        Ok(Some(dir))
    }

    fn profile(&self, scratch: Option<&Path>) -> Result<Profile> {
        let strictness = match Config::load()?.sandbox {
            Sandbox::BestEffort => Strictness::BestEffort,
            Sandbox::Required => Strictness::Required,
        };
        let mut files = HostFiles::default();
        files.write.extend(scratch.map(Into::into));
        if let Some(output) = self.output {
            files.write.extend(written_for(output));
        }
        if self.reads_logs {
            files.read = ZONES.map(PathBuf::from).into();
            files.read.extend(std::env::var_os("TZDIR").map(Into::into));
        }
        #[cfg(feature = "fuse")]
        if self.mount.is_some() {
            // Each thread opens it.
            files.write.push(DEVICE.into());
        }
        let calls = match () {
            #[cfg(feature = "fuse")]
            () if self.mount.is_some() => Calls::ServeMount,
            () if files.write.is_empty() => Calls::ReadMetadata,
            () => Calls::ChangeFiles,
        };
        Ok(Profile {
            files,
            calls,
            strictness,
            ..Profile::default()
        })
    }
}

/// The directories of time zones (tzfile(5), and those of other systems).
const ZONES: [&str; 3] = [
    "/usr/share/zoneinfo",
    "/usr/share/lib/zoneinfo",
    "/etc/zoneinfo",
];

/// Returns what is written to create a file, or to replace it.
fn written_for(output: &Path) -> Vec<PathBuf> {
    // A symlink is kept, and the file that it points to is replaced.
    let target = output.canonicalize().unwrap_or_else(|_| output.to_owned());
    let parent = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut written = vec![parent(&target), parent(output)];
    // Devices and pipes are written to directly.
    written.extend(target.metadata().is_ok().then_some(target));
    written
}

/// The broker process of a confined command.
#[derive(Debug)]
pub(crate) struct Confined {
    connection: UnixStream,
    broker: Pid,
}

impl Confined {
    /// Ends the broker, with its microVMs, and waits for that.
    pub(crate) fn finish(self) {
        let _ = self.connection.shutdown(Shutdown::Both); // It fails only if the broker has ended.
        let _ = waitpid(Some(self.broker), WaitOptions::empty());
    }
}

/// Confines this process, unless an option is invalid. The broker first runs `in_broker`, which
/// closes what the broker must not keep open.
///
/// # Errors
/// If the host has no resources for another process, or refuses a limit.
pub(crate) fn enter(needs: &Needs<'_>, in_broker: &mut dyn FnMut()) -> Result<Option<Confined>> {
    #[cfg(feature = "microvm")]
    if needs.source.vm.lacks_kernel() {
        tracing::warn!("not confined: --vm-kernel guest extracts a kernel to a file");
        return Ok(None);
    }
    let Some(grants) = needs.grants() else {
        return Ok(None);
    };
    let scratch = needs.scratch()?;
    let profile = needs.profile(scratch.as_ref().map(TempDir::path))?;
    let (ours, theirs) = UnixStream::pair()?;
    match fork()? {
        Fork::Child => {
            drop(ours);
            in_broker();
            serve(&theirs, &grants, needs, scratch)
        }
        Fork::Parent(broker) => {
            drop(theirs);
            // The broker removes it.
            let _ = scratch.map(TempDir::keep);
            let connection = ours.try_clone()?;
            let confined = profile.apply().map_err(|error| {
                let reason = format!("cannot confine this process: {error}");
                Error::new(ErrorKind::Other, reason).with_hint("use --no-sandbox")
            })?;
            tracing::info!(%confined, "the process that reads the image is confined");
            // It is set only once.
            let _ = BROKER.set(Arc::new(BrokerClient::new(ours)));
            Ok(Some(Confined { connection, broker }))
        }
    }
}

/// Returns the broker, if this process is confined.
pub(crate) fn broker() -> Option<Arc<BrokerClient>> {
    BROKER.get().cloned()
}

/// Returns the opener of images.
pub(crate) fn opener() -> Arc<dyn FileOpener> {
    match broker() {
        Some(broker) => broker,
        None => Arc::new(DirectOpener),
    }
}

/// Returns the fallback for filesystems without a driver: of the broker if this process is
/// confined.
#[cfg(feature = "microvm")]
pub(crate) fn fallback(vm: &super::vm::VmArgs) -> Result<Arc<dyn diskfs::Fallback>> {
    let Some(broker) = broker() else {
        return vm.fallback();
    };
    let local = vm.fallback()?;
    let ask = move |request: &[u8]| {
        let answer = broker.ask(request).map_err(io::Error::other)?;
        Ok((answer.bytes, answer.descriptor))
    };
    Ok(Arc::new(Forwarded::new(local, ask)))
}

/// Serves as the broker, and ends the process.
fn serve(socket: &UnixStream, grants: &Grants, needs: &Needs<'_>, scratch: Option<TempDir>) -> ! {
    let code = match leave_streams().and_then(|()| answer(socket, grants, needs)) {
        Ok(()) => 0,
        Err(error) => {
            tracing::warn!(%error, "the broker of a confined command ended");
            1
        }
    };
    drop(scratch);
    std::process::exit(code)
}

/// Leaves the streams of the command: its output ends when the command ends.
fn leave_streams() -> io::Result<()> {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}

/// Answers the requests of the command until it ends.
fn answer(socket: &UnixStream, grants: &Grants, needs: &Needs<'_>) -> io::Result<()> {
    #[cfg(feature = "fuse")]
    let mut mount = needs.mount.clone();
    #[cfg(feature = "microvm")]
    let mut machines = ForwardServer::new(|| needs.source.vm.fallback());
    #[cfg(feature = "nbd")]
    let may_write = matches!(needs.changes, Changes::Images);
    #[cfg(feature = "nbd")]
    let mut remote = RemoteServer::new(needs.remote_images(), may_write);
    #[cfg(feature = "objects")]
    remote.allow_push(needs.push);
    #[cfg(not(any(feature = "fuse", feature = "microvm", feature = "nbd")))]
    let _ = needs;
    serve_broker(socket, grants, &mut |request| {
        #[cfg(feature = "fuse")]
        if let Some(answer) = mount.as_mut().and_then(|mount| mount.answer(request)) {
            return answer;
        }
        #[cfg(feature = "nbd")]
        if let Some(answer) = remote.answer(request) {
            return answer;
        }
        #[cfg(feature = "microvm")]
        {
            let (bytes, descriptor) = machines.answer(request);
            OtherAnswer { bytes, descriptor }
        }
        #[cfg(not(feature = "microvm"))]
        {
            let _ = request;
            OtherAnswer::default()
        }
    })
}
