//! Findings: images on which a target failed.

use std::path::PathBuf;

use anyhow::Result;

use crate::{Sparse, Target};

/// Writes an image to `artifacts`. Returns the command that runs the target on it again.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn save(target: Target, name: &str, image: &Sparse) -> Result<String> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("artifacts");
    std::fs::create_dir_all(&directory)?;
    let target = target.name();
    let file = directory.join(format!("{target}-{name}"));
    std::fs::write(&file, image.to_input())?;
    Ok(format!(
        "cargo run -p diskfs-fuzz --bin smoke -- --target {target} --replay {}",
        file.display()
    ))
}
