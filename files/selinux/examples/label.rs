//! Prints the labels of paths according to the policy in a directory:
//! `cargo run --example label -- DIRECTORY PATH...`.
#![allow(clippy::print_stdout, reason = "the example prints")]

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use diskfs_selinux::{FileKind, Labels, Texts};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(
        arguments
            .next()
            .context("missing argument: a directory contexts/files")?,
    );
    let text = |name: &str| std::fs::read(directory.join(name)).unwrap_or_default();
    let file_contexts = std::fs::read(directory.join("file_contexts"))?;
    let (homedirs, local) = (text("file_contexts.homedirs"), text("file_contexts.local"));
    let (subs_dist, subs) = (text("file_contexts.subs_dist"), text("file_contexts.subs"));
    let texts = Texts {
        file_contexts: &file_contexts,
        homedirs: &homedirs,
        local: &local,
        subs_dist: &subs_dist,
        subs: &subs,
    };
    let started = Instant::now();
    let labels = Labels::parse(&texts)?;
    println!("# {} lines, {:?}", labels.len(), started.elapsed());
    for problem in labels.problems() {
        println!("# {problem}");
    }
    for path in arguments {
        print(&labels, &path);
    }
    Ok(())
}

fn print(labels: &Labels, path: &str) {
    // Two rounds, because the first one compiles the patterns that the paths need.
    for _ in 0..2 {
        let started = Instant::now();
        let label = labels.label_for(path.as_bytes(), FileKind::Regular);
        let label = label.map_or("<<none>>", |label| label.as_str());
        println!("{path}\t{label}\t# {:?}", started.elapsed());
    }
}
