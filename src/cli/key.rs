//! Keys of encrypted volumes, as users give them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use diskfs::luks::{Key, Secret};
use diskfs::{Error, ErrorKind, Keys, Result};

/// The largest key file that `cryptsetup` takes (its `--help` tells the limit).
const MAX_FILE_BYTES: u64 = 8 << 20;

/// A key and the volume it is for, in the grammar of libguestfs: `NAME:file:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySelector {
    name: String,
    source: Source,
}

/// Where a key comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    File(PathBuf),
    VolumeKey(PathBuf),
    Variable(String),
    Ask,
    Clear(Secret),
}

impl FromStr for KeySelector {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let parts = (parts.next(), parts.next(), parts.next());
        let (Some(name), Some(kind), value) = parts else {
            return Err("write NAME:file:FILE, NAME:env:VARIABLE or NAME:ask".to_owned());
        };
        let source = match (kind, value) {
            ("ask", None) => Source::Ask,
            ("file", Some(path)) => Source::File(path.into()),
            ("volume-key", Some(path)) => Source::VolumeKey(path.into()),
            ("env", Some(variable)) => Source::Variable(variable.to_owned()),
            ("key", Some(key)) => Source::Clear(Secret::new(key.as_bytes().to_vec())),
            _ => {
                return Err(
                    "after NAME comes ask, file:FILE, env:VARIABLE, volume-key:FILE or key:STRING"
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

/// The keys that the selectors lead to.
pub(crate) fn load(selectors: &[KeySelector], in_clear: bool) -> Result<Keys> {
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

impl Source {
    fn load(&self, name: &str, in_clear: bool) -> Result<Vec<Key>> {
        let passphrase = |bytes: Vec<u8>| vec![Key::Passphrase(Secret::new(bytes))];
        Ok(match self {
            Self::File(path) => passphrases(read(path)?),
            Self::VolumeKey(path) => vec![Key::Volume(Secret::new(read(path)?))],
            Self::Variable(variable) => {
                let value = std::env::var_os(variable).ok_or_else(|| {
                    let reason = format!("there is no environment variable {variable}");
                    Error::new(ErrorKind::NotFound, reason)
                })?;
                passphrase(value.into_encoded_bytes())
            }
            Self::Ask => passphrase(ask(name)?.into_bytes()),
            Self::Clear(secret) if in_clear => vec![Key::Passphrase(secret.clone())],
            Self::Clear(_) => {
                let reason = "a key on the command line can be seen by all users of the machine";
                return Err(Error::new(ErrorKind::Invalid, reason).with_hint(format!(
                    "give it as {name}:file:FILE, {name}:env:VARIABLE or {name}:ask; or allow it \
                     with --keys-in-clear"
                )));
            }
        })
    }
}

/// All bytes of a file; where they end with a newline that an editor may have added, they are tried
/// without it, too.
fn passphrases(bytes: Vec<u8>) -> Vec<Key> {
    let line = bytes.strip_suffix(b"\n").map(Key::passphrase);
    let mut keys = vec![Key::Passphrase(Secret::new(bytes))];
    keys.extend(line);
    keys
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |e: std::io::Error| Error::from(e).in_file(path);
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let count = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    if count.map_err(failed)? as u64 > MAX_FILE_BYTES {
        let reason = "is no key file: it has more than 8 MiB";
        return Err(Error::new(ErrorKind::Invalid, reason).in_file(path));
    }
    Ok(bytes)
}

fn ask(name: &str) -> Result<String> {
    let asked = match name {
        "all" => rpassword::prompt_password("Key of the encrypted volumes: "),
        name => rpassword::prompt_password(format!("Key of {name}: ")),
    };
    asked.map_err(|e| Error::from(e).with_hint("without a terminal, give --key NAME:file:FILE"))
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
    fn a_key_in_clear_must_be_allowed() {
        let selectors = ["all:key:secret".parse().unwrap()];
        let e = load(&selectors, false).unwrap_err();
        assert!(e.to_string().contains("--keys-in-clear") && !e.to_string().contains("secret"));
        assert!(!format!("{:?}", load(&selectors, true).unwrap()).contains("secret"));
    }

    #[test]
    fn a_last_newline_may_belong_to_the_key() {
        let keys = passphrases(b"a\n".to_vec());
        assert_eq!(keys, [Key::passphrase(b"a\n"), Key::passphrase(b"a")]);
        assert_eq!(passphrases(b"a".to_vec()).len(), 1);
    }
}
