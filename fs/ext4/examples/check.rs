//! Checks a filesystem: `check IMAGE [THREADS]` prints the findings and the counts, and exits with 4
//! if there are findings, like e2fsck.

use std::error::Error;
use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use diskfs_block::File;
use diskfs_ext4::{CheckOptions, check};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let image = args.next().ok_or("usage: check IMAGE [THREADS]")?;
    let threads = args.next().map_or(Ok(0), |threads| threads.parse())?;
    let options = CheckOptions {
        threads,
        ..CheckOptions::default()
    };
    let start = Instant::now();
    let device = Arc::new(File::open(&image)?);
    let report = check(device, &options, &mut |_| ControlFlow::Continue(()))?;
    let mut out = std::io::stdout().lock();
    for finding in &report.findings {
        let place = &finding.place;
        write!(out, "{}:", finding.kind.code())?;
        for (what, number) in [
            ("group", place.group.map(u64::from)),
            ("inode", place.inode.map(u64::from)),
            ("block", place.block),
        ] {
            if let Some(number) = number {
                write!(out, " {what} {number}")?;
            }
        }
        for (what, bytes) in [("path", &place.path), ("name", &place.name)] {
            if let Some(bytes) = bytes {
                write!(out, " {what} `{}`", bytes.escape_ascii())?;
            }
        }
        writeln!(out, ": {}", finding.detail)?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let elapsed = start.elapsed().as_secs_f64() * 1e3;
    writeln!(
        out,
        "{} findings, {:?}, {elapsed:.0} ms",
        report.total_findings, report.statistics
    )?;
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(4)
    })
}
