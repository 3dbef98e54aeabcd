//! The command line of a request, made of the parameters of its URL.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding};

use crate::endpoints::{Becomes, Endpoint, Form, Operand, Parameter};
use crate::program::Program;

/// The parameters of a request, which each occur once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(BTreeMap<String, String>);

/// The command line of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    /// The words after the program's name.
    pub(crate) words: Vec<OsString>,
    /// The name under which the answer is saved, if the request asks for that.
    pub(crate) saved_as: Option<Vec<u8>>,
}

impl Query {
    /// Parses the query of a URL.
    ///
    /// # Errors
    /// The reason, if a parameter occurs twice.
    pub(crate) fn parse(query: &str) -> Result<Self, String> {
        let mut parameters = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if parameters.insert(name.to_string(), value.into()).is_some() {
                return Err(format!("repeated parameter `{}`", name.escape_debug()));
            }
        }
        Ok(Self(parameters))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Removes a parameter that is `1` if it is set.
    pub(crate) fn take_switch(&mut self, name: &str) -> Result<bool, String> {
        match self.take(name).as_deref() {
            None | Some("0") => Ok(false),
            Some("1") => Ok(true),
            Some(_) => Err(format!("invalid parameter `{name}`: expected 0 or 1")),
        }
    }

    /// Removes the index of an image, and returns it with the image.
    pub(crate) fn take_image<'a>(
        &mut self,
        name: &str,
        program: &'a Program,
    ) -> Result<(usize, &'a OsStr), String> {
        let index = self.take(name).unwrap_or_else(|| "0".to_owned());
        let index = index
            .parse::<usize>()
            .map_err(|_| format!("invalid parameter `{name}`: expected the index of an image"))?;
        let image = program.images.get(index);
        let image = image.ok_or_else(|| format!("invalid parameter `{name}`: no image {index}"))?;
        Ok((index, image))
    }

    /// Removes the path, which is the root directory if it is missing.
    fn take_path(&mut self) -> Result<Vec<u8>, String> {
        let path = match (self.take("path"), self.take("path_base64")) {
            (Some(_), Some(_)) => {
                return Err("`path` and `path_base64` exclude each other".to_owned());
            }
            (None, None) => b"/".to_vec(),
            (Some(path), None) => path.into_bytes(),
            (None, Some(bytes)) => Base64::decode_vec(&bytes)
                .map_err(|_| "invalid parameter `path_base64`: expected base64".to_owned())?,
        };
        if !path.starts_with(b"/") || path.contains(&0) {
            return Err("invalid path: expected an absolute path without zero bytes".to_owned());
        }
        Ok(path)
    }

    /// Fails if a parameter is left.
    pub(crate) fn finish(&self) -> Result<(), String> {
        match self.0.keys().next() {
            Some(name) => Err(format!("unknown parameter `{}`", name.escape_debug())),
            None => Ok(()),
        }
    }
}

/// The words of a command line, in their groups.
#[derive(Debug, Default)]
struct Words {
    options: Vec<OsString>,
    after_operands: Vec<OsString>,
    other: Option<OsString>,
    is_preview: bool,
    is_download: bool,
}

impl Words {
    fn add(
        &mut self,
        parameter: &Parameter,
        query: &mut Query,
        program: &Program,
    ) -> Result<(), String> {
        let name = parameter.name;
        match parameter.becomes {
            Becomes::Switch(option) => {
                if query.take_switch(name)? {
                    self.options.push(option.into());
                }
            }
            Becomes::Option(option) => {
                let value = query
                    .take(name)
                    .map(|value| text(name, &value))
                    .transpose()?;
                self.options
                    .extend(value.map(|value| OsString::from(format!("{option}={value}"))));
            }
            Becomes::Test(test) => {
                if let Some(value) = query.take(name) {
                    let value = text(name, &value)?;
                    self.after_operands.extend([test.into(), value.into()]);
                }
            }
            Becomes::OtherImage => {
                if query.0.contains_key(name) {
                    self.other = Some(query.take_image(name, program)?.1.to_owned());
                }
            }
            Becomes::Preview => self.is_preview = query.take_switch(name)?,
            Becomes::Download => self.is_download = query.take_switch(name)?,
        }
        Ok(())
    }
}

/// Returns the value of a parameter, if it can be a word of a command line.
fn text(name: &str, value: &str) -> Result<String, String> {
    if value.contains('\0') {
        return Err(format!("invalid parameter `{name}`: a zero byte"));
    }
    Ok(value.to_owned())
}

/// Returns the command line of a request. `preview` returns the overlay of the last dry run for the
/// image with an index.
///
/// # Errors
/// The reason, if a parameter is invalid or unknown.
pub(crate) fn of_request(
    endpoint: &Endpoint,
    mut query: Query,
    program: &Program,
    preview: impl FnOnce(usize) -> Option<PathBuf>,
) -> Result<Arguments, String> {
    let mut words: Vec<OsString> = endpoint.words.iter().map(OsString::from).collect();
    if endpoint.operand == Operand::None {
        query.finish()?;
        return Ok(Arguments {
            words,
            saved_as: None,
        });
    }
    words.extend(program.options.iter().cloned());
    let (index, image) = query.take_image("image", program)?;
    let path = match endpoint.operand {
        Operand::Path => Some(query.take_path()?),
        _ => None,
    };
    let mut more = Words::default();
    for parameter in endpoint.parameters() {
        more.add(parameter, &mut query, program)?;
    }
    query.finish()?;
    words.append(&mut more.options);
    let mut image = image.to_owned();
    if more.is_preview {
        let overlay = preview(index).ok_or("no dry run was made of this image")?;
        words.extend(compared_with(&image));
        image = overlay.into();
    }
    words.push("--".into());
    let operand = |image: &OsStr| match &path {
        Some(path) => Program::operand(image, path),
        None => image.to_owned(),
    };
    words.push(operand(&image));
    words.extend(more.other.as_deref().map(operand));
    words.append(&mut more.after_operands);
    let is_saved = more.is_download || matches!(endpoint.form, Form::Attachment(_));
    let saved_as = is_saved.then(|| file_name(path.as_deref(), &image));
    Ok(Arguments { words, saved_as })
}

/// Returns the options that compare an overlay of an image with it, as its backing file.
fn compared_with(image: &OsStr) -> impl Iterator<Item = OsString> {
    let path = Path::new(image).canonicalize();
    let directory = path.ok().and_then(|path| Some(path.parent()?.to_owned()));
    let allow = directory.map(|directory| {
        let mut option = OsString::from("--allow-backing=");
        option.push(directory);
        option
    });
    std::iter::once("--backing".into()).chain(allow)
}

/// Returns the last name of a path, or that of the image for its root directory.
fn file_name(path: Option<&[u8]>, image: &OsStr) -> Vec<u8> {
    let name = path.and_then(|path| Path::new(OsStr::from_bytes(path)).file_name());
    let name = name.or_else(|| Path::new(image).file_name());
    OsString::from(name.unwrap_or(image)).into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        Program {
            path: "diskfs".into(),
            options: vec!["--force-share".into()],
            images: vec!["a.img".into(), "b.img".into()],
        }
    }

    fn words(name: &str, query: &str) -> Result<Vec<String>, String> {
        let endpoint = Endpoint::named(name).unwrap();
        let parsed = Query::parse(query)?;
        let arguments = of_request(endpoint, parsed, &program(), |_| None)?;
        let words = arguments.words.into_iter();
        Ok(words.map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn parameters_become_words() {
        let cases = [
            ("info", "", "info --json --force-share -- a.img"),
            (
                "ls",
                "image=1&path=%2Fetc",
                "ls -A --json --force-share -- b.img:/etc",
            ),
            (
                "ls",
                "path_base64=L%2F8%3D&partition=2",
                "ls -A --json --force-share --partition=2 -- a.img:/\u{fffd}",
            ),
            (
                "find",
                "name=*.conf&path=/",
                "find --json --force-share -- a.img:/ -iname *.conf",
            ),
            (
                "diff",
                "other=1&unified=3",
                "diff --json --force-share --unified=3 -- a.img:/ b.img:/",
            ),
            ("plan-schema", "", "deploy --schema"),
        ];
        for (name, query, expected) in cases {
            let endpoint = Endpoint::named(name).unwrap();
            let query = Query::parse(query).unwrap();
            let words = of_request(endpoint, query, &program(), |_| None)
                .unwrap()
                .words;
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(words.join(" "), expected);
        }
    }

    #[test]
    fn values_are_no_options() {
        assert_eq!(
            words("grep", "pattern=--no-sandbox&path=/x").unwrap()[5..],
            ["--regexp=--no-sandbox", "--", "a.img:/x"]
        );
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let cases = [
            ("ls", "path=etc", "invalid path"),
            ("ls", "path=/a%00b", "invalid path"),
            ("ls", "path=/&path_base64=Lw==", "exclude each other"),
            ("ls", "path_base64=%", "expected base64"),
            ("ls", "image=2", "no image 2"),
            ("ls", "image=-1", "expected the index"),
            ("ls", "no-sandbox=1", "unknown parameter `no-sandbox`"),
            ("ls", "path=/&path=/etc", "repeated parameter `path`"),
            ("du", "all=yes", "expected 0 or 1"),
            ("log", "unit=a%00b", "a zero byte"),
            ("diff", "preview=1", "no dry run"),
        ];
        for (name, query, reason) in cases {
            let error = words(name, query).unwrap_err();
            assert!(error.contains(reason), "{name}?{query}: {error}");
        }
    }

    #[test]
    fn saved_files_have_their_names() {
        let saved = |name: &str, query: &str| {
            let endpoint = Endpoint::named(name).unwrap();
            let query = Query::parse(query).unwrap();
            let arguments = of_request(endpoint, query, &program(), |_| None).unwrap();
            arguments
                .saved_as
                .map(|name| String::from_utf8(name).unwrap())
        };
        assert_eq!(saved("cat", "path=/etc/fstab"), None);
        assert_eq!(saved("cat", "path=/etc/fstab&download=1").unwrap(), "fstab");
        assert_eq!(saved("tar", "path=/etc/").unwrap(), "etc");
        assert_eq!(saved("tar", "").unwrap(), "a.img");
    }
}
