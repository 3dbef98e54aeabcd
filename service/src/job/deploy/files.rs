//! The files of a request.

use diskfs_deploy::{Append, Step, Write};
use diskfs_disk::{Error, ErrorKind, Result};

use super::DeployFile;

/// Adds the steps that write the files. A file without contents is left out, as by the
/// host-deployer.
pub(super) fn add(files: &[DeployFile], steps: &mut Vec<Step>) -> Result<()> {
    for file in files.iter().filter(|file| !file.text.is_empty()) {
        let path = checked(&file.path)?;
        let text = file.text.clone();
        steps.push(if file.appends {
            Step::Append(Append {
                path,
                text,
                only_if_missing: false,
                verbatim: true,
            })
        } else {
            Step::Write(Write {
                path,
                text,
                mode: None,
                owner: None,
                only_if_missing: false,
            })
        });
    }
    Ok(())
}

/// Returns the path as an absolute one, and refuses paths that leave the guest by their words.
fn checked(path: &str) -> Result<String> {
    let is_bad = path.split('/').any(|name| name == "..") || path.contains('\0');
    if is_bad || path.split('/').all(|name| matches!(name, "" | ".")) {
        let reason = format!("invalid path `{path}` of a file: expected a path without `..`");
        return Err(Error::new(ErrorKind::Invalid, reason));
    }
    Ok(format!("/{}", path.trim_start_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_in_the_guest() {
        assert_eq!(checked("/etc/motd").unwrap(), "/etc/motd");
        assert_eq!(checked("etc/motd").unwrap(), "/etc/motd");
        for path in ["", "/", "/.", "/etc/../../x", "..", "a/..", "/a\0b"] {
            assert!(checked(path).is_err(), "{path}");
        }
    }
}
