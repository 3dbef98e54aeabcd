//! The steps that write, create or delete files, directories and symbolic links.

mod copy_in;
mod json;
mod ownership;
mod tar;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::guest::Guest;
use super::super::stage::{Contents, above};
use super::super::text;
use diskfs_disk::Result;

pub use copy_in::CopyIn;
pub use json::Json;
pub use ownership::{Mode, Owner};
pub use tar::Tar;

/// A text file. An existing file keeps its mode and owner unless the step gives others. A new file
/// belongs to root and has mode 0644, and missing parent directories are created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The path of the file in the guest.
    pub path: String,
    /// The new contents of the file.
    pub text: String,
    /// The mode of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The owner of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// Leaves an existing file unchanged.
    #[serde(
        default,
        rename = "only-if-missing",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub only_if_missing: bool,
}

/// Text to append, unless the file already contains these lines, one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// The path of the file in the guest. A missing file is created.
    pub path: String,
    /// The text to append.
    pub text: String,
    /// Leaves an existing file unchanged.
    #[serde(
        default,
        rename = "only-if-missing",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub only_if_missing: bool,
    /// Appends the text byte for byte: without a line break before it, unless the file ends with
    /// the text already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verbatim: bool,
}

/// A local file and its destination in the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Upload {
    /// The path of the local file.
    pub from: PathBuf,
    /// The destination in the guest: the path of the new file, or an existing directory.
    pub to: String,
    /// The mode of the new file; default: the mode of the local file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The owner of the new file; default: root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

/// A directory of the guest. An existing directory stays, and gets the mode and owner if given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MakeDir {
    /// The path of the directory in the guest.
    pub path: String,
    /// The mode of the directory; default for a new one: 0755.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The owner of the directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

/// A symbolic link. It replaces an existing file or symbolic link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// The path of the symbolic link in the guest.
    pub path: String,
    /// The path that the link points to, in the guest.
    pub target: String,
}

/// The path to delete, with everything below it, or a pattern of glob(7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Delete(pub String);

/// The mode and the owner of an existing path. Symbolic links are followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Permissions {
    /// The path of the file or directory in the guest.
    pub path: String,
    /// The new mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The new owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
}

impl Write {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let path = absolute(guest, &self.path)?;
        if self.only_if_missing && guest.stage.exists(path)? {
            return Ok(());
        }
        guest.stage.make_dirs(above(path), 0o755)?;
        guest.stage.write_text(path, &self.text)?;
        ownership::set(guest, path, self.mode, self.owner.as_ref())
    }
}

impl Append {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let path = absolute(guest, &self.path)?;
        if self.only_if_missing && guest.stage.exists(path)? {
            return Ok(());
        }
        let before = guest.stage.bytes(path)?;
        let is_there = before.is_some();
        let mut contents = before.unwrap_or_default();
        let added = text::encode(&self.text);
        let is_done = if self.verbatim {
            contents.ends_with(&added)
        } else {
            has_lines(&contents, &added)
        };
        if is_there && is_done {
            return Ok(());
        }
        if !self.verbatim && !contents.is_empty() && !contents.ends_with(b"\n") {
            contents.push(b'\n');
        }
        contents.extend(added);
        guest.stage.make_dirs(above(path), 0o755)?;
        guest.stage.write(path, contents)
    }
}

impl Upload {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let mut path = absolute(guest, &self.to)?.to_owned();
        if path.ends_with('/') || guest.stage.is_dir(&path)? {
            let name = self.from.file_name().and_then(|name| name.to_str());
            let name =
                name.ok_or_else(|| guest.invalid("the name of the local file is not valid UTF-8"))?;
            path = format!("{}/{name}", path.trim_end_matches('/'));
        }
        guest.stage.make_dirs(above(&path), 0o755)?;
        let contents = Contents::of_host(&self.from)?;
        copy_in::put_file(guest, &path, contents)?;
        let mode = match self.mode {
            Some(mode) => mode,
            None => Mode::of_host(&self.from)?,
        };
        ownership::set(guest, &path, Some(mode), self.owner.as_ref())
    }
}

impl MakeDir {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let path = absolute(guest, &self.path)?;
        guest.stage.make_dirs(path, 0o755)?;
        ownership::set(guest, path, self.mode, self.owner.as_ref())
    }
}

impl Link {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let path = absolute(guest, &self.path)?;
        guest.stage.make_dirs(above(path), 0o755)?;
        guest.stage.symlink(path, &self.target)
    }
}

impl Delete {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let path = absolute(guest, &self.0)?;
        if path.split('/').all(str::is_empty) {
            return Err(guest.invalid("refusing to delete the root directory"));
        }
        for path in guest.stage.expand(path)? {
            guest.stage.remove(&path)?;
        }
        Ok(())
    }
}

impl Permissions {
    pub(in super::super) fn apply(&self, guest: &mut Guest) -> Result<()> {
        let path = absolute(guest, &self.path)?;
        ownership::set(guest, path, self.mode, self.owner.as_ref())
    }
}

/// Returns true if the contents contain these whole lines, one after the other.
fn has_lines(contents: &[u8], lines: &[u8]) -> bool {
    if lines.is_empty() {
        return true;
    }
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    if lines.is_empty() {
        return contents.starts_with(b"\n") || contents.windows(2).any(|pair| pair == b"\n\n");
    }
    let is_end = |at: usize| contents.get(at).is_none_or(|byte| *byte == b'\n');
    let is_start = |at: usize| at.checked_sub(1).is_none_or(is_end);
    let mut places = contents.windows(lines.len()).enumerate();
    places.any(|(at, found)| is_start(at) && is_end(at + found.len()) && found == lines)
}

/// Checks that a path of a plan is absolute: it begins at the guest's root.
pub(super) fn absolute<'p>(guest: &Guest, path: &'p str) -> Result<&'p str> {
    if path.starts_with('/') && !path.contains('\0') {
        return Ok(path);
    }
    Err(guest.invalid(format!(
        "invalid path `{path}`: expected an absolute path in the guest"
    )))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{after, apply, attributes, guest, text};

    const GUEST: &str = "-- /etc/passwd --\nroot:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n\
        -- /etc/group --\nroot:x:0:\nstaff:x:50:\n-- /etc/motd -> ../run/motd --\n-- /run/motd --\nhi\n\
        -- /var/log/a.log --\na\n-- /var/log/b.log --\nb\n-- /var/log/keep --\nk\n";

    #[test]
    fn files_are_written_with_mode_and_owner() {
        let guest = after(
            GUEST,
            "- write: {path: /opt/app/conf, text: \"a=1\\n\", mode: 0640, owner: \"ann:staff\"}\n\
             - write: {path: /etc/motd, text: \"new\\n\"}",
        );
        assert_eq!(text(&guest, "/opt/app/conf"), "a=1\n");
        assert_eq!(attributes(&guest, "/opt/app/conf"), "0640 1000:50");
        assert_eq!(attributes(&guest, "/opt/app"), "0755 0:0");
        // The file that the symlink points to is written, and the symlink stays.
        assert_eq!(text(&guest, "/run/motd"), "new\n");
        assert_eq!(attributes(&guest, "/etc/motd"), "0777 0:0");
    }

    #[test]
    fn what_is_there_can_be_left_alone() {
        let guest = after(
            GUEST,
            "- write: {path: /etc/motd, text: new, mode: 0600, only-if-missing: true}\n\
             - write: {path: /etc/gai.conf, text: new, only-if-missing: true}\n\
             - append: {path: /run/motd, text: new, only-if-missing: true}\n\
             - append: {path: /etc/more, text: new, only-if-missing: true}",
        );
        assert_eq!(text(&guest, "/run/motd"), "hi\n");
        assert_eq!(attributes(&guest, "/run/motd"), "0644 0:0");
        assert_eq!(text(&guest, "/etc/gai.conf"), "new");
        assert_eq!(text(&guest, "/etc/more"), "new");
    }

    #[test]
    fn a_text_is_added_once() {
        let guest = after(GUEST, "- append: {path: /run/motd, text: \"more\\n\"}");
        assert_eq!(text(&guest, "/run/motd"), "hi\nmore\n");
    }

    #[test]
    fn a_text_can_be_added_without_a_line_break() {
        let step = "- append: {path: /run/motd, text: \"i, \", verbatim: true}";
        let guest = after("-- /run/motd --\nhi\n", step);
        assert_eq!(text(&guest, "/run/motd"), "hi\ni, ");
        let missing = after("-- /etc/x --\nx\n", step);
        assert_eq!(text(&missing, "/run/motd"), "i, ");
    }

    #[test]
    fn lines_are_whole_and_each_is_added_once() {
        let tree = "-- /etc/conf --\nnotfoo\n";
        let one = after(tree, "- append: {path: /etc/conf, text: \"foo\\n\"}");
        assert_eq!(text(&one, "/etc/conf"), "notfoo\nfoo\n");
        let steps = "- append: {path: /etc/conf, text: \"a\\n\"}\n- append: {path: /etc/conf, text: \"b\\n\"}";
        let two = after(tree, steps);
        assert_eq!(text(&two, "/etc/conf"), "notfoo\na\nb\n");
        let blank = after(tree, "- append: {path: /etc/conf, text: \"\\n\"}");
        assert_eq!(text(&blank, "/etc/conf"), "notfoo\n\n");
    }

    #[test]
    fn nothing_is_added_to_what_is_touched() {
        let mut guest = guest(GUEST);
        guest.stage.write_text("/run/motd", "no end").unwrap();
        let steps =
            "- append: {path: /run/motd, text: \"\"}\n- append: {path: /run/new, text: \"\"}";
        apply(&mut guest, steps).unwrap();
        assert_eq!(text(&guest, "/run/motd"), "no end");
        assert!(guest.stage.exists("/run/new").unwrap());
    }

    #[test]
    fn what_matches_a_pattern_goes() {
        let guest = after(GUEST, "- delete: /var/log/*.log\n- delete: /etc/motd");
        assert_eq!(guest.stage.names("/var/log").unwrap(), ["keep"]);
        assert_eq!(text(&guest, "/run/motd"), "hi\n");
        assert_eq!(guest.stage.names("/etc").unwrap(), ["group", "passwd"]);
    }

    #[test]
    fn what_nobody_knows_is_refused() {
        for step in [
            "- write: {path: etc/motd, text: x}",
            "- write: {path: /a, text: x, owner: nobody}",
            "- write: {path: /etc/passwd/x, text: x}",
            "- permissions: {path: /none, mode: 0644}",
            "- permissions: {path: /etc/motd, mode: 10000}",
            "- delete: /",
        ] {
            assert!(apply(&mut guest(GUEST), step).is_err(), "{step}");
        }
    }
}
