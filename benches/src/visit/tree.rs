//! The visit that unpacks, copies and removes a Debian tree.

use std::process::Command;

use anyhow::Result;

use super::written::Writer;
use super::{Record, Row, Unit, Visit};
use crate::command;
use crate::contender::Contender;
use crate::rig::Rig;

const KEY_UNTAR: &str = "untar";
const KEY_COPY: &str = "copy";
const KEY_REMOVE: &str = "remove";
const KEY_MEMORY: &str = "tree_server_memory";

/// The visit of `tar -x`, `cp -a` and `rm -rf`, each on a new mount that is unmounted before the
/// clock stops.
#[derive(Debug)]
pub(super) struct Tree;

impl Visit for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }

    fn rows(&self) -> &'static [Row] {
        const {
            &[
                Row::new(KEY_UNTAR, "untar of the Debian tree", Unit::Milliseconds).within(2.0),
                Row::new(KEY_COPY, "`cp -a` of the tree", Unit::Milliseconds).within(2.0),
                Row::new(KEY_REMOVE, "`rm -rf` of the tree", Unit::Milliseconds).within(2.0),
                Row::new(
                    KEY_MEMORY,
                    "untar, `cp -a`, `rm -rf`: the server's peak memory",
                    Unit::Mebibytes,
                ),
            ]
        }
    }

    fn run(&self, rig: &Rig, contender: &dyn Contender, record: &mut Record<'_>) -> Result<()> {
        let Some(writer) = Writer::on_empty(rig, contender)? else {
            return Ok(());
        };
        let archive = rig.archive();
        let untar = writer.record(KEY_UNTAR, record, |mount| {
            let mut tar = Command::new("tar");
            tar.args(["--xattrs", "--acls", "-xpf"]).arg(archive);
            tar.arg("-C").arg(mount.path());
            command::timed(&mut tar).map(drop)
        })?;
        let copy = writer.record(KEY_COPY, record, |mount| {
            let mut copy = Command::new("cp");
            copy.arg("-a").arg(mount.path().join("tree"));
            command::timed(copy.arg(mount.path().join("copy"))).map(drop)
        })?;
        let remove = writer.record(KEY_REMOVE, record, |mount| {
            let mut remove = Command::new("rm");
            command::timed(remove.arg("-rf").arg(mount.path().join("copy"))).map(drop)
        })?;
        let peaks = [untar, copy, remove].into_iter().flatten();
        if let Some(peak) = peaks.reduce(f64::max) {
            record(KEY_MEMORY, peak);
        }
        Ok(())
    }
}
