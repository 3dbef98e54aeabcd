//! The options of formats that are only written as a whole.

use std::fmt::Display;
use std::ops::ControlFlow;
use std::path::Path;
use std::str::FromStr;

use diskfs::block::{self, Zeroes};
use diskfs::image::convert::{ConvertOptions, convert};
use diskfs::image::create::{
    Allocation, CreateOptions, Created, NewVdi, NewVhd, NewVhdx, NewVmdk, VhdSize, VmdkSubformat,
    create_with_progress,
};
use diskfs::{Error, ErrorKind, Format, Result};

use super::super::bytes;
use super::{ImageSettings, switch};

/// The names of the options, as in `qemu-img`.
pub(super) const OPTIONS: &[&str] = &[
    "adapter_type",
    "block_size",
    "force_size",
    "hwversion",
    "log_size",
    "static",
    "subformat",
];

/// Options of `qemu-img` for these formats that are not supported.
pub(super) const UNSUPPORTED_OPTIONS: &[&str] = &[
    "block_state_zero",
    "compat6",
    "toolsversion",
    "zeroed_grain",
];

/// The names of VMDK's subformats that are not written.
const OTHER_VMDK_SUBFORMATS: [&str; 3] = [
    "monolithicFlat",
    "twoGbMaxExtentSparse",
    "twoGbMaxExtentFlat",
];

/// Creates an image as the library does, also in a format that is only written as a whole: an empty
/// disk is then copied into it.
pub(in super::super) fn create_image(
    path: &Path,
    options: &CreateOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> block::Result<Created> {
    let is_whole = !options.image.format().is_writable();
    let Some(size_bytes) = options.size_bytes.filter(|_| is_whole) else {
        return create_with_progress(path, options, progress);
    };
    let copied = ConvertOptions {
        image: options.image.clone(),
        preallocation: options.preallocation,
        existing: options.existing,
        ..ConvertOptions::default()
    };
    convert(&Zeroes::new(size_bytes), path, &copied, progress)?;
    Ok(Created {
        virtual_size_bytes: options.image.virtual_size_bytes(size_bytes)?,
        file_size_bytes: path.metadata()?.len(),
    })
}

impl ImageSettings {
    pub(super) fn vmdk(&self) -> Result<NewVmdk> {
        self.check_known(Format::Vmdk, &["adapter_type", "hwversion", "subformat"])?;
        let mut new = NewVmdk::default();
        if let Some(value) = self.other("subformat") {
            new.subformat = match value {
                "monolithicSparse" => VmdkSubformat::MonolithicSparse,
                "streamOptimized" => VmdkSubformat::StreamOptimized,
                other => {
                    let known = "monolithicSparse, streamOptimized";
                    return Err(unknown_subformat(other, &OTHER_VMDK_SUBFORMATS, known));
                }
            };
        }
        if let Some(value) = self.other("adapter_type") {
            value.clone_into(&mut new.adapter_type);
        }
        if let Some(version) = self.parsed("hwversion", number)? {
            new.hardware_version = version;
        }
        Ok(new)
    }

    pub(super) fn vhd(&self) -> Result<NewVhd> {
        self.check_known(Format::Vhd, &["force_size", "subformat"])?;
        let is_exact = self.parsed("force_size", switch)?;
        Ok(NewVhd {
            allocation: self.allocation()?,
            size: match is_exact {
                Some(true) => VhdSize::Exact,
                Some(false) | None => VhdSize::Geometry,
            },
        })
    }

    pub(super) fn vdi(&self) -> Result<NewVdi> {
        self.check_known(Format::Vdi, &["static"])?;
        let allocation = match self.parsed("static", switch)? {
            Some(true) => Allocation::Fixed,
            Some(false) | None => Allocation::Dynamic,
        };
        Ok(NewVdi { allocation })
    }

    pub(super) fn vhdx(&self) -> Result<NewVhdx> {
        self.check_known(Format::Vhdx, &["block_size", "log_size", "subformat"])?;
        // As in QEMU, 0 stands for the default.
        let block_size = self.parsed("block_size", bytes::parse)?;
        let log_size = self.parsed("log_size", bytes::parse)?;
        let default = NewVhdx::default();
        Ok(NewVhdx {
            allocation: self.allocation()?,
            block_size_bytes: block_size.filter(|size| *size > 0),
            log_size_bytes: log_size.unwrap_or(default.log_size_bytes),
        })
    }

    /// Returns the allocation that `subformat` says.
    fn allocation(&self) -> Result<Allocation> {
        match self.other("subformat") {
            None | Some("dynamic") => Ok(Allocation::Dynamic),
            Some("fixed") => Ok(Allocation::Fixed),
            Some(other) => Err(unknown_subformat(
                other,
                &["differencing"],
                "dynamic, fixed",
            )),
        }
    }

    /// Returns the value of an option, of which the last one counts.
    fn other(&self, name: &str) -> Option<&str> {
        let mut others = self.others.iter().rev();
        let found = others.find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }

    fn parsed<T, E: Display>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> std::result::Result<T, E>,
    ) -> Result<Option<T>> {
        let wrong = |e: E| Error::new(ErrorKind::Invalid, format!("option {name}: {e}"));
        self.other(name).map(parse).transpose().map_err(wrong)
    }

    /// Refuses options that a format does not have.
    fn check_known(&self, format: Format, known: &[&str]) -> Result<()> {
        let is_known = |(name, _): &(String, String)| known.contains(&name.as_str());
        let is_plain = self.backing.is_none() && self.backing_format.is_none();
        if is_plain && self.qcow2_only.is_none() && self.others.iter().all(is_known) {
            return Ok(());
        }
        Err(self.refuse_others(format, known))
    }

    /// Returns the error for an option that a format does not have.
    pub(super) fn refuse_others(&self, format: Format, known: &[&str]) -> Error {
        let mut others = self.others.iter().map(|(name, _)| name.as_str());
        let other = others.find(|name| !known.contains(name));
        let what = match (&self.qcow2_only, other) {
            (_, Some(name)) => format!("option {name}"),
            (Some(what), None) => what.clone(),
            (None, None) => "a backing file".to_owned(),
        };
        let reason = format!("{what} is not supported for {format} images");
        let error = Error::new(ErrorKind::Invalid, reason);
        error.with_hint("`diskfs convert --help` lists the options of each format")
    }
}

fn number<N: FromStr>(value: &str) -> std::result::Result<N, String> {
    let wrong = |_| format!("invalid number `{}`", value.escape_debug());
    value.parse().map_err(wrong)
}

/// Returns the error for a subformat that is not written; `others` are those that QEMU writes.
fn unknown_subformat(name: &str, others: &[&str], known: &str) -> Error {
    let name = name.escape_debug();
    if others.contains(&name.to_string().as_str()) {
        let reason = format!("writing subformat {name} is not supported");
        return Error::new(ErrorKind::Unsupported, reason).with_hint(format!("supported: {known}"));
    }
    let reason = format!("option subformat: unknown subformat `{name}`; known: {known}");
    Error::new(ErrorKind::Invalid, reason)
}
