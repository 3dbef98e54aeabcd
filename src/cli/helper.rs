//! The names under which mount(8) and umount(8) call the program: `mount.diskfs` and
//! `mount.fuse.diskfs`, `umount.diskfs` and `umount.fuse.diskfs`, each a link to it.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use clap::ValueEnum;

use diskfs::image::{ImageSpec, host_file};

use super::mount::MountOption;

mod remount;

/// The exit code of mount(8) for a usage error.
const USAGE: u8 = 1;
/// The exit code of mount(8) for a mount that failed.
const FAILED: u8 = 32;

/// Options of fstab(5) and systemd.mount(5) that mount(8) and systemd handle themselves.
const FOR_CALLERS: [&str; 24] = [
    "async",
    "auto",
    "comment",
    "defaults",
    "group",
    "helper",
    "iversion",
    "loud",
    "lazytime",
    "mand",
    "_netdev",
    "noauto",
    "nofail",
    "nogroup",
    "noiversion",
    "nolazytime",
    "nomand",
    "noowner",
    "nouser",
    "owner",
    "silent",
    "uhelper",
    "user",
    "users",
];

/// Options of `diskfs mount` that make no sense in fstab, or that mount(8) has under the same name.
const NOT_OFFERED: [&str; 6] = ["explain", "foreground", "help", "json", "progress", "rw"];

/// The task that the program was called for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// Run the program with these words.
    AsIs(Vec<OsString>),
    /// Run the program with these words, and end with the exit codes of mount(8).
    AsHelper(Vec<OsString>),
    /// Exit with this code.
    Done(u8),
}

impl Invocation {
    /// Determines what to do from the name under which the program is called.
    pub(crate) fn with(words: Vec<OsString>) -> Self {
        let name = words.first().map(|name| Path::new(name).file_name());
        let translated = match name.flatten().and_then(OsStr::to_str) {
            Some("mount.diskfs" | "mount.fuse.diskfs") => mount(&words),
            Some("umount.diskfs" | "umount.fuse.diskfs") => umount(&words),
            _ => return Self::AsIs(words),
        };
        match translated {
            Ok(Some(words)) => Self::AsHelper(words),
            Ok(None) => Self::Done(0),
            Err(refusal) => {
                let name = name.flatten().unwrap_or_default().display();
                let _ = writeln!(std::io::stderr(), "{name}: {}", refusal.reason); // A failure here cannot be reported.
                Self::Done(refusal.code)
            }
        }
    }
}

/// Converts an exit code of diskfs into one of mount(8).
pub(crate) fn exit_code(code: u8) -> u8 {
    match code {
        0 => 0,
        2 => USAGE,
        _ => FAILED,
    }
}

/// The reason why a helper did nothing, and its exit code.
struct Refusal {
    code: u8,
    reason: String,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self {
            code: USAGE,
            reason,
        }
    }
}

/// The arguments that mount(8) passes: `SRC DIR [-sfnvrw] [-o OPTIONS] [-t TYPE] [-N NAMESPACE]`.
#[derive(Debug, Default)]
struct MountArguments {
    operands: Vec<OsString>,
    options: Vec<OsString>,
    flags: Vec<u8>,
    namespace: bool,
}

impl MountArguments {
    fn parse(words: &[OsString]) -> Result<Self, String> {
        let mut given = Self::default();
        let mut words = words.iter().skip(1);
        while let Some(word) = words.next() {
            let letters = match word.as_bytes() {
                [b'-', letters @ ..] if !letters.is_empty() => letters,
                _ => {
                    given.operands.push(word.clone());
                    continue;
                }
            };
            for (at, letter) in letters.iter().enumerate() {
                if !b"otNO".contains(letter) {
                    given.flags.push(*letter);
                    continue;
                }
                // The value is the rest of the word, or the next word.
                let value = match &letters[at + 1..] {
                    [] => words.next().cloned(),
                    rest => Some(OsString::from_vec(rest.to_vec())),
                };
                let letter = char::from(*letter);
                let value = value.ok_or_else(|| format!("missing value of option -{letter}"))?;
                match letter {
                    'o' => given.options.extend(split(&value)),
                    'N' => given.namespace = true,
                    _ => {}
                }
                break;
            }
        }
        if given.namespace {
            return Err(
                "mounting in another namespace (-N) is not supported; use nsenter(1)".to_owned(),
            );
        }
        Ok(given)
    }

    fn has(&self, letter: u8) -> bool {
        self.flags.contains(&letter)
    }
}

/// Splits options at commas outside of quotes, and removes the quotes.
fn split(list: &OsStr) -> Vec<OsString> {
    let (mut options, mut option, mut quoted) = (Vec::new(), Vec::new(), false);
    for &byte in list.as_bytes() {
        match byte {
            b'"' => quoted = !quoted,
            b',' if !quoted => options.push(std::mem::take(&mut option)),
            byte => option.push(byte),
        }
    }
    options.push(option);
    options.retain(|option| !option.is_empty());
    options.into_iter().map(OsString::from_vec).collect()
}

/// Translates the words of mount(8) into those of `diskfs mount`, or returns `None` if there is
/// nothing to do.
fn mount(words: &[OsString]) -> Result<Option<Vec<OsString>>, Refusal> {
    let given = MountArguments::parse(words)?;
    if given.has(b'V') {
        return Ok(Some(vec!["diskfs".into(), "--version".into()]));
    }
    let [source, directory] = given.operands.as_slice() else {
        let expected = "expected SOURCE DIRECTORY [-sfnv] [-o OPTIONS] [-t TYPE]";
        return Err(expected.to_owned().into());
    };
    if given.options.iter().any(|option| option == "remount") {
        return remount::remount(&given, directory.as_ref()).map(|()| None);
    }
    let mut translated: Vec<OsString> = ["diskfs", "mount"].map(OsString::from).into();
    for (letter, word) in [(b'r', "-oro"), (b'w', "-orw"), (b'v', "--verbose")] {
        translated.extend(given.has(letter).then(|| word.into()));
    }
    let definition = super::definition();
    let command = definition.find_subcommand("mount");
    let options: Vec<&str> = command
        .into_iter()
        .flat_map(clap::Command::get_arguments)
        .filter_map(clap::Arg::get_long)
        .filter(|name| !NOT_OFFERED.contains(name))
        .collect();
    let takes_value = |name: &str| {
        let mut arguments = command.into_iter().flat_map(clap::Command::get_arguments);
        let found = arguments.find(|argument| argument.get_long() == Some(name));
        found.is_some_and(|argument| argument.get_action().takes_values())
    };
    for option in &given.options {
        match option_word(option, &options, takes_value) {
            Ok(word) => translated.extend(word),
            // With -s, options of other filesystems are ignored.
            Err(_) if given.has(b's') => {}
            Err(reason) => return Err(reason.into()),
        }
    }
    let spec = ImageSpec::parse(source);
    let is_missing = spec.is_ok_and(|spec| !host_file(&spec.path).exists());
    let may_be_missing = given.options.iter().any(|option| option == "nofail");
    if given.has(b'f') || is_missing && may_be_missing {
        return Ok(None);
    }
    translated.extend(["--".into(), source.clone(), directory.clone()]);
    Ok(Some(translated))
}

/// Translates an option into a word of `diskfs mount`, or returns `None` for an option that only
/// callers handle.
fn option_word(
    option: &OsStr,
    known: &[&str],
    takes_value: impl Fn(&str) -> bool,
) -> Result<Option<OsString>, String> {
    let bytes = option.as_bytes();
    let end = bytes.iter().position(|&byte| byte == b'=');
    let name = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned();
    let value = end.map(|at| OsStr::from_bytes(&bytes[at + 1..]));
    if FOR_CALLERS.contains(&&*name) || name.starts_with("x-") || name.starts_with("X-") {
        return Ok(None);
    }
    if value.is_none() && MountOption::from_str(&name, false).is_ok() {
        return Ok(Some(format!("-o{name}").into()));
    }
    let long = name.replace('_', "-");
    if !known.contains(&&*long) {
        return Err(format!(
            "unknown mount option `{}`; known: those of mount(8), and the long options of `diskfs mount`, \
             such as volume=p3",
            name.escape_debug()
        ));
    }
    let mut word = OsString::from(format!("--{long}"));
    match (takes_value(&long), value) {
        (true, Some(value)) => {
            word.push("=");
            word.push(value);
        }
        (true, None) => {
            return Err(format!(
                "missing value of mount option `{name}`; write {name}=VALUE"
            ));
        }
        (false, None) => {}
        (false, Some(_)) => return Err(format!("mount option `{name}` takes no value")),
    }
    Ok(Some(word))
}

/// Translates `DIR [-nlfvr] [-t TYPE] [-N NAMESPACE]` into the words of `diskfs umount`.
fn umount(words: &[OsString]) -> Result<Option<Vec<OsString>>, Refusal> {
    let given = MountArguments::parse(words)?;
    if given.operands.is_empty() {
        return Err("expected DIRECTORY [-nlfv]".to_owned().into());
    }
    let mut translated: Vec<OsString> = ["diskfs", "umount"].map(OsString::from).into();
    translated.extend(given.has(b'l').then(|| "--lazy".into()));
    translated.push("--".into());
    translated.extend(given.operands);
    Ok(Some(translated))
}

/// Writes mount.diskfs.8, and a page for each other name that refers to it.
pub(super) fn write_pages(directory: &Path) -> std::io::Result<()> {
    let page = directory.join("mount.diskfs.8");
    std::fs::write(page, PAGE)?;
    for name in ["mount.fuse.diskfs", "umount.diskfs", "umount.fuse.diskfs"] {
        let page = directory.join(name).with_added_extension("8");
        std::fs::write(page, ".so man8/mount.diskfs.8\n")?;
    }
    Ok(())
}

const PAGE: &str = include_str!("helper/mount.diskfs.8");

#[cfg(test)]
mod tests {
    use super::*;

    fn called(line: &str) -> Invocation {
        Invocation::with(line.split(' ').map(OsString::from).collect())
    }

    fn words(line: &str) -> String {
        match called(line) {
            Invocation::AsHelper(words) => words.join(OsStr::new(" ")).into_string().unwrap(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn options_of_tables_are_those_of_the_command() {
        assert_eq!(
            words(
                "/sbin/mount.fuse.diskfs /dev/null /mnt -o \
                 volume=p3,ro,nofail,_netdev,noatime,x-systemd.device-timeout=9,user=ann -t fuse.diskfs"
            ),
            "diskfs mount --volume=p3 -oro -onoatime -- /dev/null /mnt"
        );
        assert_eq!(
            words("mount.diskfs a.qcow2 /mnt -sn -o rw,bogus,allow_other,uid=0:1000:1,force_share"),
            "diskfs mount -orw -oallow_other --uid=0:1000:1 --force-share -- a.qcow2 /mnt"
        );
        assert_eq!(
            words("mount.diskfs -v -o overlay=\"a,b\",key=all:file:/k a.qcow2 /mnt"),
            "diskfs mount --verbose --overlay=a,b --key=all:file:/k -- a.qcow2 /mnt"
        );
        assert_eq!(
            words("umount.fuse.diskfs /mnt -nl"),
            "diskfs umount --lazy -- /mnt"
        );
    }

    #[test]
    fn what_is_not_for_mounts_is_refused_or_passed_over() {
        for line in [
            "mount.diskfs a.qcow2",
            "mount.diskfs a.qcow2 /mnt -o bogus",
            "mount.diskfs a.qcow2 /mnt -o foreground",
            "mount.diskfs a.qcow2 /mnt -o volume",
            "mount.diskfs a.qcow2 /mnt -o force_share=1",
            "mount.diskfs a.qcow2 /mnt -o",
            "umount.diskfs -l",
        ] {
            assert_eq!(called(line), Invocation::Done(USAGE), "{line}");
        }
        for line in [
            "mount.diskfs /no/such /mnt -o nofail",
            "mount.diskfs /no/such /mnt -f -o ro",
        ] {
            assert_eq!(called(line), Invocation::Done(0), "{line}");
        }
        assert!(matches!(called("diskfs mount a /mnt"), Invocation::AsIs(_)));
    }
}
