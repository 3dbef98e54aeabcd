//! The command `diskfs demo`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

use clap::Args;

use diskfs::{Error, Result};

use super::session::Session;

/// The demo image: a small Linux system in a compressed qcow2 image, 16 KiB in this form.
static IMAGE: &[u8] = include_bytes!("../../fixtures/images/demo.qcow2.zst");

const IMAGE_NAME: &str = "demo.qcow2";

/// Demonstrate diskfs on a small built-in image
///
/// Writes the image into a temporary directory and runs commands on it; each command is printed
/// before it runs. With FUSE, the image is also mounted and unmounted. The directory is removed at
/// the end.
#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Only write the demo image to FILE, and run no commands
    #[arg(long, value_name = "FILE")]
    save: Option<std::path::PathBuf>,
}

pub(super) fn run(args: &Demo, session: &mut Session) -> Result<()> {
    if let Some(path) = &args.save {
        return unpack(path);
    }
    let directory = tempfile::Builder::new().prefix("diskfs-demo-").tempdir()?;
    unpack(&directory.path().join(IMAGE_NAME))?;
    let shell = Shell {
        program: std::env::current_exe()?,
        directory: directory.path(),
    };
    print("# A virtual machine's disk image, as QEMU and clouds use them. What does it contain?")?;
    shell.run(&["info", IMAGE_NAME])?;
    print("# Its files, without root and without a mount:")?;
    shell.run(&["tree", "-L", "2", "demo.qcow2:/etc"])?;
    shell.run(&["ls", "-l", "demo.qcow2:/"])?;
    shell.run(&["cat", "demo.qcow2:/etc/os-release"])?;
    shell.run(&[
        "find",
        "demo.qcow2:/usr",
        "-type",
        "f",
        "-size",
        "+8k",
        "-printf",
        "%s %p\\n",
    ])?;
    shell.run(&["cp", "-a", "demo.qcow2:/etc", "etc"])?;
    mount(&shell, session)?;
    print("# Now try your own images: diskfs info IMG, diskfs ls IMG:/, diskfs mount IMG DIR")
}

fn unpack(path: &Path) -> Result<()> {
    let in_place = |e: io::Error| Error::from(e).in_file(path);
    let mut file = File::create(path).map_err(in_place)?;
    zstd::stream::copy_decode(IMAGE, &mut file).map_err(in_place)
}

#[cfg(not(feature = "fuse"))]
fn mount(_: &Shell<'_>, _: &mut Session) -> Result<()> {
    print("# (Not mounted: this diskfs was built without FUSE.)")
}

#[cfg(feature = "fuse")]
fn mount(shell: &Shell<'_>, session: &mut Session) -> Result<()> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        let reason = Error::from(error).reason();
        return print(&format!(
            "# (Not mounted: cannot open /dev/fuse: {reason}.)"
        ));
    }
    std::fs::create_dir(shell.directory.join("mnt"))?;
    print("# The same files in a mount:")?;
    if let Err(error) = shell.run(&["mount", IMAGE_NAME, "mnt"]) {
        let reason =
            "# (The mount failed. Without root it needs fusermount3, from the package fuse3.)";
        session.warn(&error.to_string());
        return print(reason);
    }
    let read = shell.run_program("cat", &["mnt/etc/hostname"]);
    shell.run(&["umount", "mnt"])?;
    read
}

fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

/// A runner of commands, which prints each command as the user would type it.
struct Shell<'a> {
    program: std::path::PathBuf,
    directory: &'a Path,
}

impl Shell<'_> {
    fn run(&self, arguments: &[&str]) -> Result<()> {
        prompt("diskfs", arguments)?;
        self.wait(Command::new(&self.program), "diskfs", arguments)
    }

    #[cfg(feature = "fuse")]
    fn run_program(&self, program: &str, arguments: &[&str]) -> Result<()> {
        prompt(program, arguments)?;
        self.wait(Command::new(program), program, arguments)
    }

    fn wait(&self, mut command: Command, program: &str, arguments: &[&str]) -> Result<()> {
        let arguments = arguments.iter().map(OsString::from);
        let status = command.args(arguments).current_dir(self.directory).status();
        let status = status.map_err(|e| Error::from(e).in_file(program))?;
        print("")?;
        if status.success() {
            return Ok(());
        }
        Err(Error::new(
            diskfs::ErrorKind::Other,
            format!("`{program}` failed: {status}"),
        ))
    }
}

fn prompt(program: &str, arguments: &[&str]) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+=".contains(c);
    let quoted = arguments.iter().map(|argument| {
        if argument.chars().all(plain) {
            (*argument).to_owned()
        } else {
            format!("'{argument}'")
        }
    });
    let line: Vec<String> = std::iter::once(program.to_owned()).chain(quoted).collect();
    print(&format!("$ {}", line.join(" ")))
}
