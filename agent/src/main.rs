//! `diskfs-agent`: PID 1 of the microVM. With `--directory DIR` it serves that directory on its
//! standard input and output, for tests.
#![expect(
    clippy::print_stderr,
    reason = "the program writes to a terminal if it is not PID 1"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;

use diskfs_agent::{DirectoryMachine, LinuxMachine, init};
use diskfs_remote::server::{Machine, serve};

fn main() -> ExitCode {
    if rustix::process::getpid().is_init() {
        init::run();
    }
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let machine: Box<dyn Machine> = match *arguments {
        ["--directory", directory] => Box::new(DirectoryMachine::new(directory)),
        // Mounts devices of this machine.
        ["--stdio"] => Box::<LinuxMachine>::default(),
        _ => {
            eprintln!(
                "usage: diskfs-agent --directory DIR | --stdio\nWithout arguments it must run as PID 1."
            );
            return ExitCode::from(2);
        }
    };
    match serve_stdio(&*machine) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("diskfs-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Serves on standard input and output, without the buffers of the standard library.
fn serve_stdio(machine: &dyn Machine) -> io::Result<()> {
    let reader = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let writer = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    serve(reader, writer, machine).map(drop)
}
