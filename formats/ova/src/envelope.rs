//! The OVF envelope: the files and disks of a package.
//!
//! Specification: DMTF DSP0243 1.1 and 2.1, sections 7.1 (References) and 9.1 (`DiskSection`).

use diskfs_block::{BlockRead, Error, Result, bytes, read_within};
use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::units::capacity_bytes;

/// The most bytes of an envelope: real ones have some 10 KiB.
pub(crate) const MAX_ENVELOPE_BYTES: u64 = 4 << 20;

/// The most files and the most disks of an envelope.
const MAX_ENTRIES: usize = 4096;

/// The deepest nesting of elements: real envelopes have some six levels.
const MAX_DEPTH: usize = 64;

/// The most attributes of an element that are looked at.
const MAX_ATTRIBUTES: usize = 64;

/// A file of the package: an element `File` of `References`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReference {
    /// The identifier, to which disks refer.
    pub id: String,
    /// The place as the envelope states it: usually a name in the package, possibly any URI.
    pub href: String,
    /// The size in bytes, if stated.
    pub size_bytes: Option<u64>,
    /// The compression, if any: `gzip`.
    pub compression: Option<String>,
    /// The size of the parts that the file is split in, if it is.
    pub chunk_bytes: Option<u64>,
}

/// A disk of the package: an element `Disk` of `DiskSection`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// The identifier.
    pub id: String,
    /// The file with the contents; `None` for an empty disk.
    pub file: Option<FileReference>,
    /// The format as a URI: for VMDK streams
    /// `http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized`.
    pub format: String,
    /// The capacity in bytes, if it is a number with a known unit.
    pub capacity_bytes: Option<u64>,
    /// The identifier of the disk that this one stores the differences from.
    pub parent: Option<String>,
}

/// The parts of an envelope that describe disks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// The files in their order.
    pub files: Vec<FileReference>,
    /// The disks in their order.
    pub disks: Vec<Disk>,
}

impl FileReference {
    /// Checks that the file contains the disk's image itself.
    ///
    /// # Errors
    /// `Unsupported` if it is compressed or in chunks.
    pub fn check_encoding(&self) -> Result<()> {
        if let Some(compression) = &self.compression {
            let reason = format!("unsupported compression `{compression}` of a disk of an OVF");
            return Err(Error::unsupported(reason).with_hint("unpack the disk first"));
        }
        if self.chunk_bytes.is_some() {
            let reason = "unsupported disk in chunks of an OVF";
            return Err(Error::unsupported(reason).with_hint("join the chunks first"));
        }
        Ok(())
    }
}

/// A disk before its file is known.
struct RawDisk {
    disk: Disk,
    file_ref: Option<String>,
}

impl Disk {
    /// Returns the place of the file as the envelope states it.
    pub fn file_name(&self) -> Option<&str> {
        self.file.as_ref().map(|file| &*file.href)
    }

    /// Returns true if the format is VMDK, of any kind.
    pub fn is_vmdk(&self) -> bool {
        let format = self.format.to_ascii_lowercase();
        format.contains("vmdk") || format.contains("vmware.com")
    }
}

impl Envelope {
    /// Reads an envelope that is a file by itself.
    ///
    /// # Errors
    /// As for [`parse`](Self::parse); `Unsupported` for one of more than 4 MiB.
    pub fn read(file: &dyn BlockRead) -> Result<Self> {
        let size_bytes = file.size_bytes();
        if size_bytes > MAX_ENVELOPE_BYTES {
            let reason = format!("unsupported OVF: more than {MAX_ENVELOPE_BYTES} bytes");
            return Err(Error::unsupported(reason));
        }
        let text = read_within(file, 0, bytes::index(size_bytes))?;
        Self::parse(&text.unwrap_or_default())
    }

    /// Parses an envelope.
    ///
    /// # Errors
    /// `Corrupt` with the byte for invalid XML, a document type (an envelope has none), and nesting
    /// that is too deep; `Corrupt` for disks that refer to a file that is not listed.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(text).map_err(|e| {
            let at = u64::try_from(e.valid_up_to()).unwrap_or(0);
            Error::corrupt("invalid OVF: not UTF-8").at(at)
        })?;
        let mut parser = Parser {
            path: Vec::new(),
            files: Vec::new(),
            disks: Vec::new(),
            is_envelope: false,
        };
        let mut reader = Reader::from_str(text);
        loop {
            let at = reader.buffer_position();
            let event = reader
                .read_event()
                .map_err(|e| invalid(&e.to_string()).at(at))?;
            if !parser.event(&event).map_err(|e| e.at(at))? {
                return parser.finish();
            }
        }
    }
}

struct Parser {
    /// The local names of the open elements.
    path: Vec<String>,
    files: Vec<FileReference>,
    disks: Vec<RawDisk>,
    is_envelope: bool,
}

impl Parser {
    /// Handles an event. Returns false at the end.
    fn event(&mut self, event: &Event) -> Result<bool> {
        match event {
            Event::Start(element) => {
                self.element(element)?;
                let name = element.local_name();
                self.path.push(AsRef::<str>::as_ref(&name).to_owned());
                if self.path.len() > MAX_DEPTH {
                    return Err(invalid("elements are nested too deep"));
                }
            }
            Event::Empty(element) => self.element(element)?,
            Event::End(_) => drop(self.path.pop()),
            Event::DocType(_) => return Err(invalid("it has a document type")),
            Event::Eof => return Ok(false),
            _ => {}
        }
        Ok(true)
    }

    fn element(&mut self, element: &BytesStart) -> Result<()> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        let name = element.local_name();
        let name: &str = name.as_ref();
        match (&*path, name) {
            ([], "Envelope") => self.is_envelope = true,
            (["Envelope", "References"], "File") => {
                let file = file(&Attributes::of(element)?)?;
                push(&mut self.files, file)?;
            }
            // Envelopes of version 0.9 have sections that an attribute tells apart.
            (["Envelope", "DiskSection" | "Section"], "Disk") => {
                let disk = disk(&Attributes::of(element)?)?;
                push(&mut self.disks, disk)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(self) -> Result<Envelope> {
        if !self.is_envelope || !self.path.is_empty() {
            return Err(invalid("no complete element `Envelope`"));
        }
        let files: std::collections::HashMap<_, _> =
            self.files.iter().map(|it| (&*it.id, it)).collect();
        let find = |id: &str| {
            let file = files.get(id).map(|it| (*it).clone());
            file.ok_or_else(|| invalid(&format!("a disk refers to file `{id}`, which is missing")))
        };
        let disks = self.disks.into_iter().map(|RawDisk { disk, file_ref }| {
            let file = file_ref.map(|id| find(&id)).transpose()?;
            Ok(Disk { file, ..disk })
        });
        Ok(Envelope {
            disks: disks.collect::<Result<_>>()?,
            files: self.files,
        })
    }
}

/// The attributes of an element, by their local names.
struct Attributes(Vec<(String, String)>);

impl Attributes {
    fn of(element: &BytesStart) -> Result<Self> {
        // Checks for duplicates would take quadratic time; the first one counts.
        let mut all = element.attributes();
        let attributes = all
            .with_checks(false)
            .take(MAX_ATTRIBUTES)
            .map(|attribute| {
                let attribute = attribute.map_err(|e| invalid(&e.to_string()))?;
                let value = attribute
                    .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                    .map_err(|e| invalid(&e.to_string()))?;
                let name = attribute.key.local_name();
                Ok((AsRef::<str>::as_ref(&name).to_owned(), value.into_owned()))
            });
        Ok(Self(attributes.collect::<Result<_>>()?))
    }

    fn get(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.clone())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.trim().parse().ok()
    }

    fn mandatory(&self, name: &str) -> Result<String> {
        self.get(name)
            .ok_or_else(|| invalid(&format!("missing attribute `{name}`")))
    }
}

fn file(attributes: &Attributes) -> Result<FileReference> {
    Ok(FileReference {
        id: attributes.mandatory("id")?,
        href: attributes.mandatory("href")?,
        size_bytes: attributes.number("size"),
        compression: attributes
            .get("compression")
            .filter(|it| !it.is_empty() && it != "identity"),
        chunk_bytes: attributes.number("chunkSize"),
    })
}

fn disk(attributes: &Attributes) -> Result<RawDisk> {
    let unit = attributes.get("capacityAllocationUnits");
    let capacity = attributes.get("capacity");
    Ok(RawDisk {
        disk: Disk {
            id: attributes.mandatory("diskId")?,
            file: None,
            format: attributes.get("format").unwrap_or_default(),
            capacity_bytes: capacity.and_then(|it| capacity_bytes(&it, unit.as_deref())),
            parent: attributes.get("parentRef").filter(|it| !it.is_empty()),
        },
        file_ref: attributes.get("fileRef").filter(|it| !it.is_empty()),
    })
}

fn push<T>(list: &mut Vec<T>, entry: T) -> Result<()> {
    if list.len() >= MAX_ENTRIES {
        let reason = format!("unsupported OVF: more than {MAX_ENTRIES} files or disks");
        return Err(Error::unsupported(reason));
    }
    list.push(entry);
    Ok(())
}

fn invalid(what: &str) -> Error {
    Error::corrupt(format!("invalid OVF: {what}"))
}
