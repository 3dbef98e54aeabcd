//! The command `diskfs man`.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;

use diskfs::{Error, Result};
use serde_json::Map;

use super::help::for_pages;
use super::session::{Output, Session, stdout};
use super::show::json::{self as document, put_name};

/// Write the man pages into a directory
#[derive(Debug, Args)]
#[command(after_help = "Example:
  diskfs man /usr/local/share/man/man1")]
pub(super) struct Man {
    /// The directory for diskfs.1 and a page for each command; created if missing. If it is called
    /// man1, diskfs-plan.5 goes into man5 and mount.diskfs.8 into man8 beside it
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(super) fn run(args: &Man, session: &Session) -> Result<()> {
    write_pages(&args.directory).map_err(|e| Error::from(e).in_file(&args.directory))?;
    if session.output() == Output::Json {
        let mut fields = Map::new();
        let directory = args.directory.as_os_str().as_encoded_bytes();
        put_name(&mut fields, "directory", directory);
        document::write(&mut stdout()?, session.command(), fields.into())?;
    }
    Ok(())
}

pub(super) fn write_pages(directory: &Path) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(for_pages(super::definition()), directory)?;
    fs::write(directory.join("diskfs-qemu-img.1"), super::qemu_img::PAGE)?;
    super::deploy::reference::write_page(&section(directory, "man5")?)?;
    #[cfg(feature = "fuse")]
    super::helper::write_pages(&section(directory, "man8")?)?;
    Ok(())
}

/// Returns the directory for pages of another section.
fn section(directory: &Path, name: &str) -> std::io::Result<PathBuf> {
    if directory.file_name() != Some("man1".as_ref()) {
        return Ok(directory.to_owned());
    }
    let sibling = directory.with_file_name(name);
    fs::create_dir_all(&sibling)?;
    Ok(sibling)
}
