//! The requests of the API: each with its command, and the parameters that become its words.

/// A request that reads images.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// The name in the URL: `api/NAME`.
    pub(crate) name: &'static str,
    /// The description in one sentence.
    pub(crate) about: &'static str,
    /// The command and its fixed options.
    pub(crate) words: &'static [&'static str],
    /// The operand of the command.
    pub(crate) operand: Operand,
    /// The parameters besides those that select the image and the filesystem.
    pub(crate) parameters: &'static [Parameter],
    /// The form of the answer.
    pub(crate) form: Form,
}

/// The operand of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    /// No operand.
    None,
    /// The image.
    Image,
    /// A path in the image.
    Path,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One JSON document.
    Json,
    /// One JSON object per line.
    JsonLines,
    /// The contents of a file.
    Bytes,
    /// A file to save, whose name ends like this.
    Attachment(&'static str),
}

/// A parameter of a request.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) becomes: Becomes,
}

/// The words that a parameter becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Becomes {
    /// This option, if the value is `1`.
    Switch(&'static str),
    /// This option with the value.
    Option(&'static str),
    /// This test of `find` with the value, after the operand.
    Test(&'static str),
    /// A second operand: the same path in the image with this index.
    OtherImage,
    /// The overlay of the last plan that was tried, instead of the image.
    Preview,
    /// The header `Content-Disposition`, if the value is `1`.
    Download,
}

use Becomes::{Download, Option as Valued, OtherImage, Preview, Switch, Test};

const fn parameter(name: &'static str, becomes: Becomes, about: &'static str) -> Parameter {
    Parameter {
        name,
        about,
        becomes,
    }
}

/// The parameters that select a filesystem of the image; every request with an image has them.
pub(crate) const SELECTION: &[Parameter] = &[
    parameter(
        "snapshot",
        Valued("--snapshot"),
        "The internal snapshot of the image to read.",
    ),
    parameter(
        "partition",
        Valued("--partition"),
        "The number of the partition to read.",
    ),
    parameter(
        "volume",
        Valued("--volume"),
        "The volume to read, as `info` names it.",
    ),
    parameter(
        "os",
        Valued("--os"),
        "The operating system to read, if the image contains several.",
    ),
];

/// All requests that read images.
pub(crate) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "info",
        about: "Returns the image's format, partitions, volumes and filesystems.",
        words: &["info", "--json"],
        operand: Operand::Image,
        parameters: &[],
        form: Form::Json,
    },
    Endpoint {
        name: "map",
        about: "Returns where the image stores each range of its disk.",
        words: &["map", "--json"],
        operand: Operand::Image,
        parameters: &[],
        form: Form::Json,
    },
    Endpoint {
        name: "df",
        about: "Returns the size, used and free space of the filesystems.",
        words: &["df", "--json"],
        operand: Operand::Image,
        parameters: &[],
        form: Form::Json,
    },
    Endpoint {
        name: "ls",
        about: "Returns the entries of a directory, one per line.",
        words: &["ls", "-A", "--json"],
        operand: Operand::Path,
        parameters: &[],
        form: Form::Json,
    },
    Endpoint {
        name: "stat",
        about: "Returns the metadata, extended attributes and extents of a file.",
        words: &["stat", "--extents", "--json"],
        operand: Operand::Path,
        parameters: &[],
        form: Form::Json,
    },
    Endpoint {
        name: "cat",
        about: "Returns the contents of a file, or a range of them.",
        words: &["cat", "--json"],
        operand: Operand::Path,
        parameters: &[
            parameter(
                "offset",
                Valued("--skip-bytes"),
                "The offset of the first byte.",
            ),
            parameter(
                "length",
                Valued("--read-bytes"),
                "The maximum number of bytes.",
            ),
            parameter("download", Download, "1 to save the file under its name."),
        ],
        form: Form::Bytes,
    },
    Endpoint {
        name: "tar",
        about: "Returns a directory as a tar archive.",
        words: &["tar", "--json"],
        operand: Operand::Path,
        parameters: &[],
        form: Form::Attachment(".tar"),
    },
    Endpoint {
        name: "find",
        about: "Returns the files below a directory that match all given tests, one per line.",
        words: &["find", "--json"],
        operand: Operand::Path,
        parameters: &[
            parameter(
                "depth",
                Test("-maxdepth"),
                "The maximum depth of the files.",
            ),
            parameter(
                "name",
                Test("-iname"),
                "A shell pattern that the name must match; case is ignored.",
            ),
            parameter("type", Test("-type"), "The type: f, d, l, b, c, p or s."),
            parameter("size", Test("-size"), "The size, as in find(1): +1M, -4k."),
            parameter(
                "mtime",
                Test("-mtime"),
                "The age in days of the last change, as in find(1): -7.",
            ),
        ],
        form: Form::Json,
    },
    Endpoint {
        name: "grep",
        about: "Returns the lines of files below a path that match a pattern, one per line.",
        words: &["grep", "-n", "-I", "--json"],
        operand: Operand::Path,
        parameters: &[
            parameter(
                "pattern",
                Valued("--regexp"),
                "The extended regular expression.",
            ),
            parameter(
                "fixed",
                Switch("--fixed-strings"),
                "1 if the pattern is plain text.",
            ),
            parameter(
                "ignore_case",
                Switch("--ignore-case"),
                "1 to ignore upper and lower case.",
            ),
            parameter(
                "include",
                Valued("--include"),
                "A shell pattern that the names of files must match.",
            ),
            parameter(
                "max_count",
                Valued("--max-count"),
                "The maximum number of lines of each file.",
            ),
        ],
        form: Form::Json,
    },
    Endpoint {
        name: "du",
        about: "Returns the disk usage of directories, one per line, each after its contents.",
        words: &["du", "-x", "--json"],
        operand: Operand::Path,
        parameters: &[
            parameter(
                "depth",
                Valued("--max-depth"),
                "The maximum depth of the entries.",
            ),
            parameter("all", Switch("--all"), "1 to return files as well."),
        ],
        form: Form::Json,
    },
    Endpoint {
        name: "inspect",
        about: "Returns the operating systems of the image, with their users, network and services.",
        words: &["inspect", "--json"],
        operand: Operand::Image,
        parameters: &[parameter(
            "packages",
            Switch("--packages"),
            "1 to return the installed packages as well.",
        )],
        form: Form::Json,
    },
    Endpoint {
        name: "sbom",
        about: "Returns a software bill of materials.",
        words: &["inspect", "--json"],
        operand: Operand::Image,
        parameters: &[parameter(
            "format",
            Valued("--sbom"),
            "The format: spdx or cyclonedx.",
        )],
        form: Form::Attachment(".json"),
    },
    Endpoint {
        name: "log",
        about: "Returns the records of the guest's logs, one JSON object per line.",
        words: &["log", "--json"],
        operand: Operand::Image,
        parameters: &[
            parameter(
                "lines",
                Valued("--lines"),
                "The maximum number of records: the last ones.",
            ),
            parameter(
                "since",
                Valued("--since"),
                "The earliest time, as in journalctl(1).",
            ),
            parameter(
                "until",
                Valued("--until"),
                "The latest time, as in journalctl(1).",
            ),
            parameter(
                "unit",
                Valued("--unit"),
                "The unit of systemd that logged the record.",
            ),
            parameter(
                "priority",
                Valued("--priority"),
                "The least urgent priority: 0 to 7, or emerg to debug.",
            ),
            parameter(
                "boot",
                Valued("--boot"),
                "The boot: its ID or its number; 0 is the last one.",
            ),
            parameter(
                "grep",
                Valued("--grep"),
                "A regular expression that the message must match.",
            ),
            parameter(
                "reverse",
                Switch("--reverse"),
                "1 to return the newest records first.",
            ),
        ],
        form: Form::JsonLines,
    },
    Endpoint {
        name: "boots",
        about: "Returns the boots in the guest's journal, one JSON object per line.",
        words: &["log", "--list-boots", "--json"],
        operand: Operand::Image,
        parameters: &[],
        form: Form::JsonLines,
    },
    Endpoint {
        name: "diff",
        about: "Returns the files that differ between two images or states of an image.",
        words: &["diff", "--json"],
        operand: Operand::Path,
        parameters: &[
            parameter(
                "other",
                OtherImage,
                "The index of the image to compare with.",
            ),
            parameter(
                "from_snapshot",
                Valued("--from-snapshot"),
                "The snapshot that is the old state.",
            ),
            parameter(
                "to_snapshot",
                Valued("--to-snapshot"),
                "The snapshot that is the new state.",
            ),
            parameter(
                "backing",
                Switch("--backing"),
                "1 to compare an overlay with its backing file.",
            ),
            parameter(
                "preview",
                Preview,
                "1 to compare the result of the last dry run with the image.",
            ),
            parameter(
                "only",
                Valued("--only"),
                "The only file or directory to compare, relative to `path`.",
            ),
            parameter(
                "unified",
                Valued("--unified"),
                "The number of context lines of unified diffs.",
            ),
        ],
        form: Form::Json,
    },
    Endpoint {
        name: "plan-schema",
        about: "Returns the JSON Schema of plans for `deploy`.",
        words: &["deploy", "--schema"],
        operand: Operand::None,
        parameters: &[],
        form: Form::Json,
    },
];

impl Endpoint {
    /// Returns the request with this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ENDPOINTS.iter().find(|endpoint| endpoint.name == name)
    }

    /// Returns the command's name.
    pub(crate) fn command(&self) -> &'static str {
        self.words.first().copied().unwrap_or_default()
    }

    /// Returns all parameters besides `image` and `path`.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &'static Parameter> {
        let selection: &'static [Parameter] = match self.operand {
            Operand::None => &[],
            Operand::Image | Operand::Path => SELECTION,
        };
        selection.iter().chain(self.parameters)
    }

    /// Returns true if this exit code means that the command has done its work. `diff` and `grep`
    /// have the exit codes of diff(1) and grep(1).
    pub(crate) fn succeeds_with(&self, exit_code: i32) -> bool {
        exit_code == 0 || exit_code == 1 && matches!(self.command(), "diff" | "grep")
    }
}
