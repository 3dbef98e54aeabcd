//! The property list, an XML document: the block tables in it.

use base64ct::{Base64, Encoding};
use diskfs_block::{Error, Result};
use quick_xml::Reader;
use quick_xml::events::Event;

/// The deepest nesting of elements. Images have five levels.
const DEPTH_MAX: usize = 64;

/// The state of the walk through the document.
#[derive(Default)]
struct Walk {
    depth: usize,
    /// The name of the element whose text comes next.
    element: Vec<u8>,
    /// The last `<key>`.
    key: Vec<u8>,
    /// The depth of the array of block tables, while the walk is in it.
    tables_depth: Option<usize>,
    /// The text of a table in base64, while the walk is in it.
    text: Option<Vec<u8>>,
    tables: Vec<Vec<u8>>,
}

/// Returns the contents of the block tables: the `Data` of each entry of `blkx`.
pub(crate) fn block_tables(list: &[u8]) -> Result<Vec<Vec<u8>>> {
    let list = str::from_utf8(list)
        .map_err(|e| Error::corrupt("property list of the DMG is not UTF-8").with_source(e))?;
    let mut reader = Reader::from_str(list);
    let mut walk = Walk::default();
    loop {
        let event = reader
            .read_event()
            .map_err(|e| Error::corrupt("invalid property list of the DMG").with_source(e))?;
        match event {
            Event::Eof => return Ok(walk.tables),
            Event::Start(start) => walk.start(start.name().as_ref().as_bytes())?,
            Event::End(_) => walk.end()?,
            Event::Text(text) => walk.text(text.as_bytes()),
            _ => {}
        }
    }
}

impl Walk {
    fn start(&mut self, name: &[u8]) -> Result<()> {
        self.depth = self.depth.saturating_add(1);
        if self.depth > DEPTH_MAX {
            return Err(Error::corrupt(
                "property list of the DMG is nested too deeply",
            ));
        }
        self.element = name.to_vec();
        match name {
            b"key" => self.key.clear(),
            b"array" if self.key == b"blkx" && self.tables_depth.is_none() => {
                self.tables_depth = Some(self.depth);
            }
            b"data" if self.tables_depth.is_some() && self.key == b"Data" => {
                self.text = Some(Vec::new());
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &[u8]) {
        if let Some(collected) = &mut self.text {
            collected.extend(text.iter().filter(|byte| !byte.is_ascii_whitespace()));
        } else if self.element == b"key" {
            self.key.extend_from_slice(text);
        }
    }

    fn end(&mut self) -> Result<()> {
        self.element.clear();
        if let Some(text) = self.text.take() {
            let table = str::from_utf8(&text)
                .ok()
                .and_then(|text| Base64::decode_vec(text).ok());
            let invalid = || Error::corrupt("invalid base64 of a block table of the DMG");
            self.tables.push(table.ok_or_else(invalid)?);
        }
        if self.tables_depth == Some(self.depth) {
            self.tables_depth = None;
            self.key.clear();
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_data_of_blkx_counts() {
        let list = b"<?xml version=\"1.0\"?><!DOCTYPE plist><plist><dict>\
            <key>resource-fork</key><dict><key>blkx</key><array>\
            <dict><key>Attributes</key><string>0x0050</string><key>Data</key>\
            <data>\n\tbWlz\n\taA==\n\t</data><key>Name</key><string>x</string></dict>\
            <dict><key>Data</key><data>AA==</data></dict></array>\
            <key>plst</key><array><dict><key>Data</key><data>BB==</data></dict></array>\
            </dict></dict></plist>";
        let tables = block_tables(list).unwrap();
        assert_eq!(tables, [b"mish".to_vec(), vec![0]]);
        assert!(block_tables(b"<a><b></a>").is_err());
        assert!(block_tables("<a>".repeat(100).as_bytes()).is_err());
        assert!(block_tables(b"").unwrap().is_empty());
    }
}
