//! The options for keys of encrypted volumes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use clap::Args;

use diskfs::luks::{Key, Secret};
use diskfs::{Error, ErrorKind, Keys, Result, block};

use super::out_file::is_standard;

/// The maximum size of a key file, which is that of `cryptsetup` (see its `--help`).
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The options for keys.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Key options")]
pub(crate) struct KeyArgs {
    /// Give a key of an encrypted volume or image: NAME:file:FILE, NAME:ask, NAME:env:VARIABLE
    ///
    /// NAME is a volume (as for --volume), the file name of an image whose data is encrypted (such
    /// as `disk.qcow2`; it can also be a backing file), the UUID of either, or `all`. `file:FILE`
    /// uses the whole contents of FILE (`-` for standard input), as cryptsetup --key-file does; if
    /// they end with a newline, the contents without it are tried as well. `ask` prompts on the
    /// terminal, `env:VARIABLE` reads an environment variable, `volume-key:FILE` reads the volume's
    /// own key. `key:STRING` is the key itself, which all users of the host can see; it requires
    /// --keys-in-clear. Can be repeated.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) key: Vec<KeySelector>,

    /// Read the LUKS header of a volume from a file: VOLUME:FILE
    ///
    /// VOLUME is a volume, as for --volume. FILE begins with its header and key slots: a detached
    /// header (cryptsetup --header), or a backup of a lost header (luksHeaderBackup). Can be
    /// repeated.
    #[arg(long, value_name = "VOLUME:FILE")]
    pub(crate) luks_header: Vec<HeaderSelector>,

    /// Allow keys on the command line (--key NAME:key:STRING), where all users of the host can see
    /// them
    #[arg(long)]
    pub(crate) keys_in_clear: bool,

    /// The keys, once they were loaded: a process that has confined itself cannot open their files
    /// again.
    #[arg(skip)]
    loaded: OnceLock<Keys>,
}

impl KeyArgs {
    /// Loads the keys, or returns `None` if no key option is given.
    pub(crate) fn load(&self) -> Result<Option<Keys>> {
        if self.key.is_empty() && self.luks_header.is_empty() {
            return Ok(None);
        }
        if let Some(loaded) = self.loaded.get() {
            return Ok(Some(loaded.clone()));
        }
        let keys = load(&self.key, self.keys_in_clear)?;
        let mut headers = self.luks_header.iter();
        let keys = headers.try_fold(keys, HeaderSelector::add_to)?;
        Ok(Some(self.loaded.get_or_init(|| keys).clone()))
    }
}

/// A key and its volume, in the syntax of libguestfs: `NAME:file:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySelector {
    name: String,
    source: Source,
}

/// The source of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    VolumeKey(PathBuf),
    Variable(String),
    Ask,
    Clear(Secret),
}

/// A detached header and its volume: `VOLUME:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeaderSelector {
    volume: String,
    file: PathBuf,
}

impl KeySelector {
    /// Returns true if only the first process that reads the key gets it.
    pub(crate) fn is_read_once(&self) -> bool {
        match &self.source {
            Source::Ask => true,
            Source::File(path) => is_standard(path),
            Source::VolumeKey(_) | Source::Variable(_) | Source::Clear(_) => false,
        }
    }
}

impl FromStr for HeaderSelector {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once(':') {
            Some((volume, file)) if !volume.is_empty() && !file.is_empty() => Ok(Self {
                volume: volume.to_owned(),
                file: file.into(),
            }),
            _ => Err("expected VOLUME:FILE, such as p1:header.img".to_owned()),
        }
    }
}

impl HeaderSelector {
    fn add_to(keys: Keys, this: &Self) -> Result<Keys> {
        let in_file = |error: Error| error.in_file(&this.file);
        let device = block::File::open(&this.file).map_err(|e| in_file(e.into()))?;
        keys.with_header(&this.volume, Arc::new(device))
            .map_err(in_file)
    }
}

impl FromStr for KeySelector {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let parts = (parts.next(), parts.next(), parts.next());
        let (Some(name), Some(kind), value) = parts else {
            return Err("expected NAME:file:FILE, NAME:env:VARIABLE or NAME:ask".to_owned());
        };
        let source = match (kind, value) {
            ("ask", None) => Source::Ask,
            ("file", Some(path)) => Source::File(path.into()),
            ("volume-key", Some(path)) => Source::VolumeKey(path.into()),
            ("env", Some(variable)) => Source::Variable(variable.to_owned()),
            ("key", Some(key)) => Source::Clear(Secret::new(key.as_bytes().to_vec())),
            _ => {
                return Err(
                    "expected ask, file:FILE, env:VARIABLE, volume-key:FILE or key:STRING after NAME"
                        .to_owned(),
                );
            }
        };
        Ok(Self {
            name: name.to_owned(),
            source,
        })
    }
}

/// Loads the keys of the selectors.
fn load(selectors: &[KeySelector], in_clear: bool) -> Result<Keys> {
    let mut keys = Keys::default();
    for KeySelector { name, source } in selectors {
        for key in source.load(name, in_clear)? {
            keys = match name.as_str() {
                "all" => keys.with_all(key),
                name => keys.with_volume(name, key),
            };
        }
    }
    Ok(keys)
}

/// Loads the passphrases for new volumes, with the names of their volumes. Of a file, all bytes are
/// used, as `cryptsetup luksFormat --key-file` does.
pub(crate) fn new_passphrases(
    selectors: &[KeySelector],
    in_clear: bool,
) -> Result<Vec<(String, Secret)>> {
    let mut passphrases = Vec::new();
    for KeySelector { name, source } in selectors {
        let loaded = source.load(name, in_clear)?.into_iter().next();
        let Some(Key::Passphrase(secret)) = loaded else {
            let reason = format!("--key {name}: a new volume needs a passphrase");
            let error = Error::new(ErrorKind::Invalid, reason);
            return Err(error.with_hint("give the volume key in the plan: `volume-key`"));
        };
        passphrases.push((name.clone(), secret));
    }
    Ok(passphrases)
}

impl Source {
    fn load(&self, name: &str, in_clear: bool) -> Result<Vec<Key>> {
        let passphrase = |bytes: Vec<u8>| vec![Key::Passphrase(Secret::new(bytes))];
        Ok(match self {
            Self::File(path) => {
                let all = passphrases(read(path)?).into_iter();
                all.map(Key::Passphrase).collect()
            }
            Self::VolumeKey(path) => vec![Key::Volume(Secret::new(read(path)?))],
            Self::Variable(name) => passphrase(variable(name)?),
            Self::Ask => passphrase(prompt(name)?.into_bytes()),
            Self::Clear(secret) if in_clear => vec![Key::Passphrase(secret.clone())],
            Self::Clear(_) => {
                let reason =
                    "refusing a key on the command line, where all users of the host can see it";
                return Err(Error::new(ErrorKind::Invalid, reason).with_hint(format!(
                    "give {name}:file:FILE, {name}:env:VARIABLE or {name}:ask; or allow it \
                     with --keys-in-clear"
                )));
            }
        })
    }
}

/// Returns the contents of a key file as keys. If they end with a newline, which an editor may have
/// added, the contents without it are a second key.
pub(super) fn passphrases(bytes: Vec<u8>) -> Vec<Secret> {
    let line = bytes.strip_suffix(b"\n");
    let line = line.map(|line| Secret::new(line.to_vec()));
    let mut all = vec![Secret::new(bytes)];
    all.extend(line);
    all
}

/// Returns the value of an environment variable.
pub(super) fn variable(name: &str) -> Result<Vec<u8>> {
    let value = std::env::var_os(name).ok_or_else(|| {
        let reason = format!("no such environment variable: `{name}`");
        Error::new(ErrorKind::NotFound, reason)
    })?;
    Ok(value.into_encoded_bytes())
}

/// Reads a key file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::from(e).in_file(path);
    let mut bytes = Vec::new();
    let file: Box<dyn Read> = if is_standard(path) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(failed)?)
    };
    let count = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    if count.map_err(failed)? as u64 > MAX_FILE_BYTES {
        let reason = "the key file is too large: at most 8 MiB";
        return Err(Error::new(ErrorKind::Invalid, reason).in_file(path));
    }
    Ok(bytes)
}

fn prompt(name: &str) -> Result<String> {
    let text = match name {
        "all" => "Key of the encrypted volumes: ".to_owned(),
        name => format!("Key of {name}: "),
    };
    let hint =
        format!("give --key {name}:file:FILE (- for standard input) or --key {name}:env:VARIABLE");
    ask(&text, &format!("the key of `{name}`"), &hint)
}

/// Asks on the terminal. `what` and the hint are for the error if there is none.
pub(super) fn ask(text: &str, what: &str, hint: &str) -> Result<String> {
    rpassword::prompt_password(text).map_err(|error| {
        let error = if File::open("/dev/tty").is_ok() {
            error.into()
        } else {
            let reason = format!("cannot ask for {what}: no terminal is available");
            Error::new(ErrorKind::Other, reason)
        };
        error.with_hint(hint.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_have_three_parts() {
        let parse = |text: &str| text.parse::<KeySelector>();
        let file = parse("p3:file:/tmp/a:b").unwrap();
        assert_eq!(file.source, Source::File("/tmp/a:b".into()));
        assert_eq!(parse("all:ask").unwrap().source, Source::Ask);
        let clear = parse("all:key:a:b").unwrap();
        assert_eq!(clear.source, Source::Clear(Secret::new(b"a:b".to_vec())));
        for wrong in [
            "",
            "p3",
            "p3:",
            "p3:file",
            "p3:ask:x",
            "p3:clevis",
            "p3:word:x",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_have_a_volume_and_a_file() {
        let header: HeaderSelector = "p3:/tmp/a:b".parse().unwrap();
        assert_eq!(
            (header.volume.as_str(), header.file),
            ("p3", "/tmp/a:b".into())
        );
        for wrong in ["", "p3", "p3:", ":file"] {
            assert!(wrong.parse::<HeaderSelector>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_in_clear_must_be_allowed() {
        let selectors = ["all:key:secret".parse().unwrap()];
        let e = load(&selectors, false).unwrap_err();
        assert!(e.to_string().contains("--keys-in-clear") && !e.to_string().contains("secret"));
        assert!(!format!("{:?}", load(&selectors, true).unwrap()).contains("secret"));
    }

    #[test]
    fn a_last_newline_may_belong_to_the_key() {
        let all = passphrases(b"a\n".to_vec());
        assert_eq!(all, [b"a\n".to_vec(), b"a".to_vec()].map(Secret::new));
        assert_eq!(passphrases(b"a".to_vec()).len(), 1);
    }
}
