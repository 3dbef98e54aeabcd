//! The command `diskfs browse`.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use clap::Args;
use diskfs_browse::{Options, Program, Server};
use serde_json::json;
use tempfile::NamedTempFile;

use diskfs::{Error, Result};

use super::passed_on::PassedOn;
use super::schema;
use super::session::{Output, Session, stdout};
use super::show::json as document;

/// Look at images in a browser: disks, files, used space, guests
///
/// Prints the address of a page and opens it in a browser. The page shows a map of the disk, the
/// files with search and downloads, what uses the space, the report of `inspect`, logs, and the
/// differences between images, snapshots and overlays. It needs no network: all of its files are
/// part of diskfs. The address contains a random token, and nobody without it can read anything.
///
/// The server runs a command of diskfs for each request, confined as usual, and `openapi.json` below
/// the address describes these requests. The images are only changed with --write, which lets the
/// page apply plans of `diskfs deploy`. Plans can name files of this host: keep the address secret.
///
/// Ctrl-C or SIGTERM ends the server.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  diskfs browse disk.qcow2
  diskfs browse before.qcow2 after.qcow2
  diskfs browse --no-open --listen 127.0.0.1:8080 disk.qcow2
  diskfs browse --write disk.qcow2")]
pub(super) struct Browse {
    /// The images
    #[arg(required = true, value_name = "IMG")]
    images: Vec<OsString>,

    /// The address to listen on; port 0 stands for any free port
    ///
    /// The connection is not encrypted: to look at images of another host, forward a port by ssh(1)
    /// instead of an address that others can reach.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Also answer requests for this host name; can be repeated
    ///
    /// Requests for other names than localhost and addresses are refused, so that no other page can
    /// reach the server by a name that resolves to this host.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// Do not open a browser
    #[arg(long)]
    no_open: bool,

    /// Let the page change the images
    #[arg(long)]
    write: bool,

    #[command(flatten)]
    source: PassedOn,
}

pub(super) fn run(args: &Browse, session: &mut Session) -> Result<()> {
    let program = Program {
        path: std::env::current_exe()?,
        options: args.source.words(session)?,
        images: args.images.clone(),
    };
    for image in &args.images {
        if let Some(exit_code) = failure_of(&program, image, session)? {
            session.set_exit_code(exit_code);
            return Ok(());
        }
    }
    let server = Server::bind(Options {
        listen: args.listen,
        hosts: args.allow_host.clone(),
        writable: args.write,
        program,
        schema: schema::named,
    });
    let server = server.map_err(|error| cannot_listen(args.listen, error))?;
    if !args.listen.ip().is_loopback() {
        session.warn("the connection is not encrypted: others on the network may read the address and the files");
    }
    let url = server.url();
    print(&url, session)?;
    let page = if args.no_open {
        None
    } else {
        open(&url, session)
    };
    server.run()?;
    drop(page);
    Ok(())
}

/// Opens an image once, so that a wrong name or a missing key is reported before a page is open.
/// Returns the exit code of a failure, which the command has reported.
fn failure_of(program: &Program, image: &OsStr, session: &Session) -> Result<Option<u8>> {
    let mut command = Command::new(&program.path);
    command.arg("info").args(&program.options);
    if session.output() == Output::Json {
        command.arg("--json");
    }
    let status = command
        .arg("--")
        .arg(image)
        .stdout(Stdio::null())
        .status()?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok((!status.success()).then(|| code.unwrap_or(1)))
}

fn cannot_listen(address: SocketAddr, error: std::io::Error) -> Error {
    let in_use = error.kind() == std::io::ErrorKind::AddrInUse;
    let error = Error::from(error).in_file(address.to_string());
    if in_use {
        return error.with_hint("choose another port, or 0 for any free one");
    }
    error
}

fn print(url: &str, session: &Session) -> Result<()> {
    let mut out = stdout()?;
    match session.output() {
        Output::Json => {
            out.write_all(document::line(session.command(), json!({ "url": url })).as_bytes())?;
        }
        Output::Text => writeln!(out, "The page is at {url}\nPress Ctrl-C to end the server.")?,
    }
    Ok(out.flush()?)
}

/// Opens the page in the user's browser. Command lines are visible to all users of the host, so that
/// the browser gets a private file that leads to the address. Returns the file.
fn open(url: &str, session: &mut Session) -> Option<NamedTempFile> {
    let is_graphical = ["DISPLAY", "WAYLAND_DISPLAY"].map(|name| std::env::var_os(name).is_some());
    if !is_graphical.contains(&true) {
        return None;
    }
    let opened = private_page(url).and_then(|page| {
        Command::new("xdg-open")
            .arg(page.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(page)
    });
    match opened {
        Ok(page) => Some(page),
        Err(error) => {
            session.warn(&format!(
                "cannot open a browser: {error}; open the address yourself"
            ));
            None
        }
    }
}

/// Returns a file that only this user can read, and that leads a browser to an address.
fn private_page(url: &str) -> std::io::Result<NamedTempFile> {
    let mut page = tempfile::Builder::new()
        .prefix("diskfs-browse-")
        .suffix(".html")
        .tempfile()?;
    writeln!(
        page,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={url}\"><a href=\"{url}\">diskfs</a>"
    )?;
    page.flush()?;
    Ok(page)
}
