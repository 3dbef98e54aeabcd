//! The visit of a whole session: mount, write one file, unmount.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::written::Writer;
use super::{Record, Row, Unit, Visit, milliseconds};
use crate::command;
use crate::contender::Contender;
use crate::rig::Rig;

const KEY: &str = "session";

/// The visit that mounts, writes 32 MiB, syncs and unmounts: then the image is durable, and the
/// server has exited.
#[derive(Debug)]
pub(super) struct Session;

impl Visit for Session {
    fn name(&self) -> &'static str {
        "session"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[Row::new(
                KEY,
                "mount, 32 MiB written and synced, unmount",
                Unit::Milliseconds,
            )
            .with_machine(500.0)]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let Some(writer) = Writer::on_empty(rig, contender)? else {
            return Ok(());
        };
        let start = Instant::now();
        writer.timed(|mount| {
            let mut dd = Command::new("dd");
            dd.args(["if=/dev/zero", "bs=1M", "count=32", "conv=fsync"]);
            dd.arg(format!("of={}", mount.path().join("file").display()));
            command::timed(&mut dd)
        })?;
        record(KEY, milliseconds(start.elapsed()));
        Ok(())
    }
}
