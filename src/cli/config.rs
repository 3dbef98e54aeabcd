//! The user's configuration file: settings that apply to every run, unless the command line or the
//! environment overrides them.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use serde::Deserialize;

use diskfs::image::Policy;
#[cfg(feature = "microvm")]
use diskfs::vm::BackendChoice;
use diskfs::{Error, ErrorKind, Result};

/// The environment variable that names the configuration file to read instead of the default ones.
const VARIABLE: &str = "DISKFS_CONFIG";

/// The configuration file of all users.
const SYSTEM: &str = "/etc/diskfs/config.toml";

/// The contents of the configuration file (TOML 1.0).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The files that images may refer to: `none`, `chain-owner`, or a list of directories.
    #[serde(deserialize_with = "policy")]
    pub(crate) backing: Policy,
    /// The policy for a host that cannot confine a command completely.
    pub(crate) sandbox: Sandbox,
    pub(crate) cache: Cache,
    pub(crate) remote: Remote,
    #[cfg(feature = "microvm")]
    pub(crate) vm: Vm,
    /// The table `[vm]`, accepted but not used in programs without microVMs.
    #[cfg(not(feature = "microvm"))]
    vm: toml::Table,
}

/// The policy for a host that cannot confine a command completely.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Sandbox {
    /// The command runs with what the host has, and warns in the log.
    #[default]
    BestEffort,
    /// The command fails.
    Required,
}

/// The table `[cache]`: blocks of images on other machines, on disk. Only programs with HTTP and object
/// stores use it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cache {
    /// The directory; without it, blocks are only kept in memory.
    pub(crate) directory: Option<PathBuf>,
    /// The limit in bytes.
    #[serde(deserialize_with = "bytes")]
    pub(crate) size: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            directory: None,
            size: 10 << 30,
        }
    }
}

/// The table `[remote]`: the behaviour towards HTTP servers, object stores and registries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Remote {
    /// The time in which a failed request is repeated; a minute if it is not set.
    #[serde(deserialize_with = "seconds")]
    pub(crate) retry: Option<Duration>,
}

fn seconds<'d, D: serde::Deserializer<'d>>(
    from: D,
) -> std::result::Result<Option<Duration>, D::Error> {
    let seconds = f64::deserialize(from)?;
    let seconds = parse_seconds(&seconds.to_string());
    seconds.map(Some).map_err(serde::de::Error::custom)
}

/// Parses a number of seconds that is larger than zero.
pub(super) fn parse_seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| format!("invalid number of seconds `{text}`"))
}

fn bytes<'d, D: serde::Deserializer<'d>>(from: D) -> std::result::Result<u64, D::Error> {
    let text = String::deserialize(from)?;
    super::bytes::parse(&text).map_err(serde::de::Error::custom)
}

/// The forms of [`Policy`] in the configuration file.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Backing {
    Word(String),
    Directories(Vec<PathBuf>),
}

fn policy<'d, D: serde::Deserializer<'d>>(from: D) -> std::result::Result<Policy, D::Error> {
    let wrong = |what: String| {
        let expected = "\"none\", \"chain-owner\", or a list of absolute directories";
        serde::de::Error::custom(format!("invalid `backing`: {what}; write {expected}"))
    };
    let found =
        Backing::deserialize(from).map_err(|_| wrong("expected a word or a list".to_owned()))?;
    match found {
        Backing::Word(word) if word == "none" => Ok(Policy::Closed),
        Backing::Word(word) if word == "chain-owner" => Ok(Policy::Beside),
        Backing::Word(word) => Err(wrong(format!("unknown policy `{word}`"))),
        // A relative path would depend on the directory in which the program is started.
        Backing::Directories(dirs) => match dirs.iter().find(|dir| !dir.is_absolute()) {
            Some(dir) => Err(wrong(format!("not an absolute path: `{}`", dir.display()))),
            None => Ok(Policy::Below(dirs)),
        },
    }
}

/// The table `[vm]`.
#[cfg(feature = "microvm")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Vm {
    /// The backend, as with `--vm`.
    #[serde(deserialize_with = "deserialize_backend")]
    pub(crate) backend: Option<BackendChoice>,
    /// The directory of the appliance, as with `--appliance`.
    pub(crate) appliance: Option<PathBuf>,
    /// The maximum memory of a machine in MiB, as with `--vm-memory`.
    #[serde(deserialize_with = "memory")]
    pub(crate) memory: Option<u32>,
    /// The deadline of a call, as with `--vm-deadline`.
    #[serde(deserialize_with = "seconds")]
    pub(crate) deadline: Option<Duration>,
}

/// Deserializes a value in the syntax of the command line.
#[cfg(feature = "microvm")]
fn deserialize_backend<'d, D: serde::Deserializer<'d>>(
    from: D,
) -> std::result::Result<Option<BackendChoice>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

#[cfg(feature = "microvm")]
fn memory<'d, D: serde::Deserializer<'d>>(from: D) -> std::result::Result<Option<u32>, D::Error> {
    let text = String::deserialize(from)?;
    let mib = super::vm::memory_mib(&text);
    mib.map(Some).map_err(serde::de::Error::custom)
}

impl Config {
    /// Loads the file that `$DISKFS_CONFIG` names, else the user's file, else that of the system.
    /// If none exists, no setting is set.
    ///
    /// # Errors
    /// `Invalid`, with the line, if the file is invalid; `NotFound` if the file that the variable
    /// names is missing.
    pub(crate) fn load() -> Result<Self> {
        // Read once: a process that has confined itself cannot open the file again.
        static LOADED: OnceLock<Config> = OnceLock::new();
        if let Some(loaded) = LOADED.get() {
            return Ok(loaded.clone());
        }
        let loaded = Self::find()?;
        Ok(LOADED.get_or_init(|| loaded).clone())
    }

    fn find() -> Result<Self> {
        if let Some(named) = std::env::var_os(VARIABLE) {
            // An empty variable means no configuration file.
            return match PathBuf::from(named) {
                none if none.as_os_str().is_empty() => Ok(Self::default()),
                named => Self::read(&named).map_err(|e| Error::from(e).in_file(&named))?,
            };
        }
        for file in [user_config(), Some(PathBuf::from(SYSTEM))]
            .into_iter()
            .flatten()
        {
            match Self::read(&file) {
                Ok(read) => return read,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // The environment may belong to another user, for example after `su`, whose file is
                // not readable.
                Err(error) => {
                    tracing::info!(%error, file = %file.display(), "configuration file is not readable, skipped");
                }
            }
        }
        Ok(Self::default())
    }

    fn read(file: &std::path::Path) -> io::Result<Result<Self>> {
        let text = fs::read_to_string(file)?;
        Ok(Self::parse(&text).map_err(|error| error.in_file(file)))
    }

    fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| {
                let before = text.get(..span.start).unwrap_or_default();
                before.matches('\n').count().saturating_add(1)
            });
            let place = line.map_or_else(String::new, |line| format!("line {line}: "));
            let reason = error.message().lines().collect::<Vec<_>>().join(" ");
            Error::new(ErrorKind::Invalid, format!("{place}{reason}"))
                .with_hint("`diskfs help` lists the settings")
        })
    }
}

/// Returns the user's file, below `$XDG_CONFIG_HOME` (XDG Base Directory Specification).
fn user_config() -> Option<PathBuf> {
    let dir = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".config"));
    let base = dir.filter(|dir| dir.is_absolute()).or_else(home)?;
    Some(base.join("diskfs/config.toml"))
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "microvm")]
    use diskfs::vm::BackendKind;

    use super::*;

    #[test]
    fn which_files_images_may_name() {
        let policy = |value: &str| Config::parse(&format!("backing = {value}\n"));
        assert_eq!(Config::default().backing, Policy::Beside);
        for (value, expected) in [
            ("\"none\"", Policy::Closed),
            ("\"chain-owner\"", Policy::Beside),
            (
                "[\"/srv/a\", \"/srv/b\"]",
                Policy::Below(vec!["/srv/a".into(), "/srv/b".into()]),
            ),
            ("[]", Policy::Below(Vec::new())),
        ] {
            assert_eq!(policy(value).unwrap().backing, expected, "{value}");
        }
        for value in ["\"all\"", "[\"images\"]", "true", "[1]"] {
            let error = policy(value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(
                error.reason().contains("line 1: invalid `backing`"),
                "{}",
                error.reason()
            );
        }
    }

    #[cfg(feature = "microvm")]
    #[test]
    fn all_that_may_be_set() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
        let text = "[vm]\nbackend = \"qemu-tcg\"\nappliance = \"/srv/a\"\nmemory = \"1G\"\ndeadline = 5.0\n";
        let expected = Vm {
            backend: Some(BackendChoice::Only(BackendKind::QemuTcg)),
            appliance: Some("/srv/a".into()),
            memory: Some(1024),
            deadline: Some(Duration::from_secs(5)),
        };
        assert_eq!(Config::parse(text).unwrap().vm, expected);
    }

    #[test]
    fn the_cache_of_blocks() {
        let text = "[cache]\ndirectory = \"/srv/c\"\nsize = \"2G\"\n";
        let expected = Cache {
            directory: Some("/srv/c".into()),
            size: 2 << 30,
        };
        assert_eq!(Config::parse(text).unwrap().cache, expected);
        for text in ["[cache]\nsize = \"much\"\n", "[cache]\nsize = 5\n"] {
            let error = Config::parse(text).unwrap_err();
            assert!(error.reason().contains("line 2"), "{}", error.reason());
        }
    }

    #[test]
    fn the_time_of_retries() {
        let parsed = |text: &str| Config::parse(text).map(|config| config.remote.retry);
        assert_eq!(parsed("").unwrap(), None);
        let seconds = Some(Duration::from_millis(1500));
        assert_eq!(parsed("[remote]\nretry = 1.5\n").unwrap(), seconds);
        for text in ["[remote]\nretry = 0\n", "[remote]\nretry = \"1\"\n"] {
            assert!(parsed(text).unwrap_err().reason().contains("line 2"));
        }
    }

    #[cfg(feature = "microvm")]
    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        for (text, expected) in [
            ("[vm]\nbackend = \"xen\"\n", "line 2: unknown backend `xen`"),
            ("[vm]\n\nmemory = \"1M\"\n", "line 3: "),
            ("[vm]\npool = 2\n", "line 2: "),
            (
                "[vm]\nbackends = \"uml\"\n",
                "line 2: unknown field `backends`",
            ),
            ("[wm]\n", "unknown field `wm`"),
            ("vm", "line 1: "),
        ] {
            let error = Config::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(
                error.reason().contains(expected),
                "{text}: {}",
                error.reason()
            );
        }
    }
}
