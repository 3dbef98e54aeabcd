//! The names of images as qemu-img spells them: paths, exports of NBD, and lists of options.

mod export;
mod keys;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use export::Export;
use keys::{check_encryption, is_key, of_backing};
use serde_json::Value;

use diskfs::Format;
use diskfs::image::ImageSpec;

use super::failure::{Failure, Result};
use crate::cli::image_settings::split_options;

/// Options that have no effect on what is read.
const IGNORED: [&str; 9] = [
    "auto-read-only",
    "cache.direct",
    "cache.no-flush",
    "detect-zeroes",
    "discard",
    "locking",
    "node-name",
    "open-timeout",
    "read-only",
];

/// An image: a path or the URI of an export, with its format if the name says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) path: PathBuf,
    pub(super) format: Option<Format>,
    /// True if the disk is what a LUKS volume contains, in the format.
    pub(super) is_luks: bool,
    /// The identifier of the secret that unlocks the image.
    pub(super) secret: Option<String>,
    /// The identifiers of the secrets of backing files, with their depth in the chain.
    pub(super) backing_secrets: Vec<(usize, String)>,
}

impl Named {
    fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            format: None,
            is_luks: false,
            secret: None,
            backing_secrets: Vec::new(),
        }
    }

    /// Parses a file name: a path, `file:PATH`, a URI of NBD, `nbd:HOST:PORT`, `nbd:unix:PATH`, or
    /// `json:` and an object of options.
    ///
    /// # Errors
    /// If the name has the prefix of another protocol: letters and a colon.
    pub(super) fn parse(name: &OsString) -> Result<Self> {
        let bytes = name.as_bytes();
        let end = bytes.iter().position(|byte| matches!(byte, b':' | b'/'));
        let protocol = end.filter(|end| bytes.get(*end) == Some(&b':'));
        let protocol = protocol.and_then(|end| std::str::from_utf8(bytes.get(..end)?).ok());
        let rest = protocol.and_then(|protocol| bytes.get(protocol.len().saturating_add(1)..));
        let rest = rest.unwrap_or_default();
        let text = std::str::from_utf8(rest);
        let invalid = |reason: &str| Failure::new(opening(name, reason));
        match (protocol, text) {
            (Some("file"), _) => Ok(Self::at(OsStr::from_bytes(rest))),
            (Some("json"), Ok(text)) => {
                let options = json_options(text).map_err(|reason| invalid(&reason))?;
                of_options(&options).map_err(|reason| invalid(&reason))
            }
            (Some("nbd"), Ok(text)) if !text.starts_with("//") => {
                let export = Export::parse(text).ok_or_else(|| invalid("invalid NBD name"))?;
                Ok(Self::at(export.uri()))
            }
            // A Windows drive letter is no protocol in QEMU either.
            (Some(protocol), _) if protocol.len() > 1 && remote_uri(name.as_ref()).is_none() => {
                Err(invalid(&format!("Unknown protocol '{protocol}'")))
            }
            _ => Ok(Self::at(name)),
        }
    }

    /// Parses `driver=qcow2,file.filename=PATH` and the like.
    pub(super) fn parse_options(list: &OsString) -> Result<Self> {
        let text = list
            .to_str()
            .ok_or_else(|| Failure::new("Invalid image options"))?;
        let options = split_options(text).into_iter().map(|option| {
            let (name, value) = option.split_once('=').unwrap_or((option.as_str(), "on"));
            (name.to_owned(), value.to_owned())
        });
        let options: Vec<_> = options.collect();
        of_options(&options).map_err(Failure::new)
    }
}

/// Returns the message of a name that cannot be opened.
fn opening(name: &OsStr, reason: &str) -> String {
    format!("Could not open '{}': {reason}", name.display())
}

/// Returns the URI that a path is, if it is that of an image on another machine.
pub(super) fn remote_uri(path: &Path) -> Option<String> {
    let spec = ImageSpec {
        path: path.to_owned(),
        ..ImageSpec::default()
    };
    spec.remote_uri().map(Into::into)
}

/// Returns the options of an object; those of an object in it have its name before theirs.
pub(super) fn json_options(text: &str) -> std::result::Result<Vec<(String, String)>, String> {
    let object: Value = serde_json::from_str(text)
        .map_err(|error| format!("Could not parse the JSON options: {error}"))?;
    if !object.is_object() {
        return Err("Invalid JSON object given".to_owned());
    }
    let mut options = Vec::new();
    add_json("", &object, &mut options)?;
    Ok(options)
}

fn add_json(
    name: &str,
    value: &Value,
    options: &mut Vec<(String, String)>,
) -> std::result::Result<(), String> {
    let text = match value {
        Value::Object(fields) => {
            return fields.iter().try_for_each(|(field, value)| {
                let name = match name {
                    "" => field.clone(),
                    outer => format!("{outer}.{field}"),
                };
                add_json(&name, value, options)
            });
        }
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(is_on) => (if *is_on { "on" } else { "off" }).to_owned(),
        Value::Null | Value::Array(_) => return Err(format!("Invalid parameter '{name}'")),
    };
    options.push((name.to_owned(), text));
    Ok(())
}

/// Returns the image that options name.
fn of_options(options: &[(String, String)]) -> std::result::Result<Named, String> {
    let find = |wanted: &str| {
        let found = options.iter().find(|(name, _)| name == wanted);
        found.map(|(_, value)| value.as_str())
    };
    if let Some(node) = find("file") {
        return Err(format!(
            "Cannot find device='{node}' nor node-name='{node}'"
        ));
    }
    let driver = find("driver").or_else(|| find("format"));
    let is_protocol = driver.is_some_and(|name| PROTOCOLS.contains(&name));
    let is_luks = driver == Some(LUKS);
    let (format, protocol) = match driver {
        // A protocol's driver alone shows the bytes of the file.
        Some(_) if is_protocol => (Some(Format::Raw), driver),
        Some(_) if is_luks => (Some(Format::Raw), find("file.driver")),
        Some(name) => (Some(format_of(name)?), find("file.driver")),
        None => (None, find("file.driver")),
    };
    let (mut file, mut secret) = (None, None);
    let mut backing_secrets = Vec::new();
    let mut export = Export::default();
    for (name, value) in options {
        match of_backing(name, driver) {
            Some((_, "encrypt.format")) => {
                check_encryption(value)?;
                continue;
            }
            Some((depth, _)) => {
                backing_secrets.push((depth, value.clone()));
                continue;
            }
            None => {}
        }
        let option = name.strip_prefix("file.").unwrap_or(name);
        let is_of_file = is_protocol || option != name;
        match option {
            "driver" => {}
            "format" if name == "format" => {}
            "filename" => file = Some(value.as_str()),
            _ if is_key(name, driver) => secret = Some(value.clone()),
            "encrypt.format" if format != Some(Format::Raw) => check_encryption(value)?,
            _ if IGNORED.contains(&option) => {}
            _ if protocol == Some("nbd") && is_of_file => export.take(option, value)?,
            _ => return Err(format!("Invalid parameter '{name}'")),
        }
    }
    let path = path_of(protocol, file, &export)?;
    Ok(Named {
        path,
        format,
        is_luks,
        secret,
        backing_secrets,
    })
}

/// Returns the path or the URI that the options of a protocol name.
fn path_of(
    protocol: Option<&str>,
    file: Option<&str>,
    export: &Export,
) -> std::result::Result<PathBuf, String> {
    match (protocol, file) {
        (Some("nbd"), None) if export.unix.is_some() || export.host.is_some() => {
            Ok(export.uri().into())
        }
        (Some("nbd"), _) => Err("one of path and host must be specified".to_owned()),
        (Some(name), _) if !PROTOCOLS.contains(&name) => Err(format!("Unknown driver '{name}'")),
        (_, None) => Err("A block device must be specified for \"file\"".to_owned()),
        (Some(_), Some(file)) => Ok(file.into()),
        // Without a driver, the name may have a protocol, but no options again.
        (None, Some(file)) => {
            let name = Some(file).filter(|file| !file.starts_with("json:"));
            let named = name.and_then(|name| Named::parse(&name.into()).ok());
            named.map_or_else(
                || Err(format!("Invalid file name '{file}'")),
                |it| Ok(it.path),
            )
        }
    }
}

fn format_of(name: &str) -> std::result::Result<Format, String> {
    let known = name.parse().ok();
    let known = known.filter(|format: &Format| format.is_qemus());
    known.ok_or_else(|| format!("Unknown driver '{name}'"))
}

/// The driver of LUKS volumes, whose contents are the disk.
pub(super) const LUKS: &str = "luks";

/// The drivers that store bytes, and are no formats.
const PROTOCOLS: [&str; 3] = ["file", "host_device", "nbd"];

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> Option<(String, Option<Format>)> {
        let named = Named::parse(&name.into()).ok()?;
        Some((named.path.to_str().unwrap().to_owned(), named.format))
    }

    #[test]
    fn names_of_exports_become_uris() {
        for (name, uri) in [
            ("nbd:unix:/a b", "nbd+unix://?socket=/a%20b"),
            ("nbd:unix:/s:exportname=x/y", "nbd+unix:///x/y?socket=/s"),
            ("nbd:localhost:10809", "nbd://localhost:10809"),
            ("nbd:[::1]:1:exportname=a?b", "nbd://[::1]:1/a%3Fb"),
            ("nbd://host/export", "nbd://host/export"),
            ("https://host/disk", "https://host/disk"),
            ("file:a:b", "a:b"),
            ("a/b:c", "a/b:c"),
            (r#"json:{"driver":"file","filename":"x"}"#, "x"),
            (
                r#"json:{"file":{"driver":"nbd","path":"/s"}}"#,
                "nbd+unix://?socket=/s",
            ),
            (
                r#"json:{"file":{"driver":"nbd","server":{"type":"inet","host":"h","port":1}}}"#,
                "nbd://h:1",
            ),
        ] {
            assert_eq!(parsed(name).unwrap().0, uri, "{name}");
        }
        for wrong in [
            "nbd:host",
            "ssh://host/x",
            "json:[]",
            "json:{",
            r#"json:{"file":"node"}"#,
            r#"json:{"driver":"nbd"}"#,
            r#"json:{"driver":"nbd","path":"/s","tls-creds":"x"}"#,
            r#"json:{"file":{"filename":"json:{}"}}"#,
            r#"json:{"backing":{"driver":"file"}}"#,
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
