//! VHDXs by the specification: differencing disks and logs, which qemu-img does not make.

const MIB: usize = 1 << 20;
const SECTOR: usize = 512;
/// The offsets of the log, the metadata and the block allocation table.
const LOG_AT: usize = MIB;
const METADATA_AT: usize = 2 * MIB;
const BAT_AT: usize = 3 * MIB;
/// The number of blocks of 1 MiB for each sector bitmap.
const RATIO: usize = 4096;

/// A VHDX in the making: blocks of 1 MiB, at most 4096 of them.
#[derive(Debug, Clone)]
pub(crate) struct HandMadeVhdx {
    pub(crate) data_write_guid: [u8; 16],
    pub(crate) log_guid: [u8; 16],
    /// The keys and values of the parent locator.
    pub(crate) parent: Option<Vec<(&'static str, String)>>,
    size: usize,
    /// The blocks: for each sector whether it is present, and the data.
    blocks: Vec<Option<(Vec<bool>, Vec<u8>)>>,
    /// The contents of the log.
    pub(crate) log: Vec<u8>,
}

impl HandMadeVhdx {
    pub(crate) fn new(size: usize, id: u8, parent: Option<Vec<(&'static str, String)>>) -> Self {
        Self {
            data_write_guid: [id; 16],
            log_guid: [0; 16],
            parent,
            size,
            blocks: vec![None; size.div_ceil(MIB)],
            log: vec![0; MIB],
        }
    }

    /// Writes a sector of `fill`.
    pub(crate) fn write(&mut self, sector: usize, fill: u8) {
        let (block, within) = (sector * SECTOR / MIB, sector % (MIB / SECTOR));
        let empty = || (vec![false; MIB / SECTOR], vec![0; MIB]);
        let (present, data) = self.blocks[block].get_or_insert_with(empty);
        present[within] = true;
        data[within * SECTOR..][..SECTOR].fill(fill);
    }

    /// Returns the bytes of the image.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut image = vec![0; 4 * MIB];
        put(&mut image, 0, b"vhdxfile");
        for (at, number) in [(64 << 10, 1_u64), (128 << 10, 2)] {
            put(&mut image, at, &self.header(number));
        }
        for at in [192 << 10, 256 << 10] {
            put(&mut image, at, &regions());
        }
        put(&mut image, LOG_AT, &self.log);
        put(&mut image, METADATA_AT, &self.metadata());
        let mut bitmap = vec![0; MIB];
        for (n, block) in self.blocks.iter().enumerate() {
            let Some((present, data)) = block else {
                continue;
            };
            let is_whole = self.parent.is_none() || present.iter().all(|present| *present);
            let state = if is_whole { 6 } else { 7 };
            let entry = image.len() as u64 | state;
            put(&mut image, BAT_AT + n * 8, &entry.to_le_bytes());
            image.extend(data);
            for (sector, _) in present.iter().enumerate().filter(|(_, present)| **present) {
                let sector = n * (MIB / SECTOR) + sector;
                bitmap[sector / 8] |= 1 << (sector % 8);
            }
        }
        if self.parent.is_some() {
            let entry = image.len() as u64 | 6;
            put(&mut image, BAT_AT + RATIO * 8, &entry.to_le_bytes());
            image.extend(bitmap);
        }
        image
    }

    fn header(&self, number: u64) -> Vec<u8> {
        let mut header = vec![0; 4096];
        put(&mut header, 0, b"head");
        put(&mut header, 8, &number.to_le_bytes());
        put(&mut header, 32, &self.data_write_guid);
        put(&mut header, 48, &self.log_guid);
        put(&mut header, 66, &1_u16.to_le_bytes());
        put(
            &mut header,
            68,
            &u32::try_from(self.log.len()).unwrap().to_le_bytes(),
        );
        put(&mut header, 72, &(LOG_AT as u64).to_le_bytes());
        with_checksum(header)
    }

    fn metadata(&self) -> Vec<u8> {
        let parameters = [
            u32::try_from(MIB).unwrap().to_le_bytes(),
            u32::from(self.parent.is_some())
                .wrapping_shl(1)
                .to_le_bytes(),
        ];
        let mut items = vec![
            ("caa16737fa364d43b3b633f0aa44e76b", parameters.concat()),
            (
                "2fa54224cd1b4876b2115dbed83bf4b8",
                (self.size as u64).to_le_bytes().to_vec(),
            ),
            ("beca12abb2e6452393efc309e000c746", vec![3; 16]),
            (
                "8141bf1da96f4709ba47f233a8faab5f",
                512_u32.to_le_bytes().to_vec(),
            ),
            (
                "cda348c7445d44719cc9e9885251c556",
                512_u32.to_le_bytes().to_vec(),
            ),
        ];
        if let Some(parent) = &self.parent {
            items.push(("a8d35f2db30b454dabf7d3d84834ab0c", locator(parent)));
        }
        let mut table = vec![0; 64 << 10];
        put(&mut table, 0, b"metadata");
        put(
            &mut table,
            10,
            &u16::try_from(items.len()).unwrap().to_le_bytes(),
        );
        for (n, (id, item)) in items.iter().enumerate() {
            let at = 32 + n * 32;
            put(&mut table, at, &guid(id));
            let offset = u32::try_from(table.len()).unwrap();
            put(&mut table, at + 16, &offset.to_le_bytes());
            put(
                &mut table,
                at + 20,
                &u32::try_from(item.len()).unwrap().to_le_bytes(),
            );
            put(&mut table, at + 24, &4_u32.to_le_bytes());
            table.extend(item);
        }
        table
    }
}

/// An entry of a log.
#[derive(Debug, Clone)]
pub(crate) struct LogEntry {
    pub(crate) number: u64,
    /// The offset in the log of the first entry of the sequence.
    pub(crate) tail: u32,
    /// The sectors to write: offset in the file and contents.
    pub(crate) data: Vec<(u64, Vec<u8>)>,
    /// The ranges to zero: offset in the file and length.
    pub(crate) zeroes: Vec<(u64, u64)>,
    /// The size of the file before and after.
    pub(crate) sizes: (u64, u64),
}

impl LogEntry {
    /// Returns the bytes of the entry.
    pub(crate) fn build(&self, log_guid: [u8; 16]) -> Vec<u8> {
        let mut entry = vec![0; 4096];
        let descriptors = self.data.len() + self.zeroes.len();
        put(&mut entry, 0, b"loge");
        put(&mut entry, 12, &self.tail.to_le_bytes());
        put(&mut entry, 16, &self.number.to_le_bytes());
        put(
            &mut entry,
            24,
            &u32::try_from(descriptors).unwrap().to_le_bytes(),
        );
        put(&mut entry, 32, &log_guid);
        put(&mut entry, 48, &self.sizes.0.to_le_bytes());
        put(&mut entry, 56, &self.sizes.1.to_le_bytes());
        let mut at = 64;
        for (offset, len) in &self.zeroes {
            put(&mut entry, at, b"zero");
            put(&mut entry, at + 8, &len.to_le_bytes());
            put(&mut entry, at + 16, &offset.to_le_bytes());
            put(&mut entry, at + 24, &self.number.to_le_bytes());
            at += 32;
        }
        let number = self.number.to_le_bytes();
        for (offset, data) in &self.data {
            put(&mut entry, at, b"desc");
            put(&mut entry, at + 4, &data[4092..]);
            put(&mut entry, at + 8, &data[..8]);
            put(&mut entry, at + 16, &offset.to_le_bytes());
            put(&mut entry, at + 24, &number);
            at += 32;
        }
        for (_, data) in &self.data {
            entry.extend(b"data");
            entry.extend(&number[4..]);
            entry.extend(&data[8..4092]);
            entry.extend(&number[..4]);
        }
        let len = u32::try_from(entry.len()).unwrap();
        put(&mut entry, 8, &len.to_le_bytes());
        with_checksum(entry)
    }
}

fn regions() -> Vec<u8> {
    let mut table = vec![0; 64 << 10];
    put(&mut table, 0, b"regi");
    put(&mut table, 8, &2_u32.to_le_bytes());
    let regions = [
        ("2dc27766f62342009d64115e9bfd4a08", BAT_AT),
        ("8b7ca20647904b9ab8fe575f050f886e", METADATA_AT),
    ];
    for (n, (id, at)) in regions.iter().enumerate() {
        let entry = 16 + n * 32;
        put(&mut table, entry, &guid(id));
        put(&mut table, entry + 16, &(*at as u64).to_le_bytes());
        put(
            &mut table,
            entry + 24,
            &u32::try_from(MIB).unwrap().to_le_bytes(),
        );
        put(&mut table, entry + 28, &1_u32.to_le_bytes());
    }
    with_checksum(table)
}

fn locator(pairs: &[(&'static str, String)]) -> Vec<u8> {
    let mut locator = guid("b04aefb7d19e4a81b78925b8e9445913").to_vec();
    locator.extend([0, 0]);
    locator.extend(u16::try_from(pairs.len()).unwrap().to_le_bytes());
    let mut texts: Vec<u8> = Vec::new();
    let texts_at = 20 + pairs.len() * 12;
    for (key, value) in pairs {
        let key: Vec<u8> = key.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let value: Vec<u8> = value.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let key_at = texts_at + texts.len();
        let value_at = key_at + key.len();
        locator.extend(u32::try_from(key_at).unwrap().to_le_bytes());
        locator.extend(u32::try_from(value_at).unwrap().to_le_bytes());
        locator.extend(u16::try_from(key.len()).unwrap().to_le_bytes());
        locator.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
        texts.extend(key);
        texts.extend(value);
    }
    locator.extend(texts);
    locator
}

/// Returns a GUID as it is stored.
fn guid(text: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[n * 2..n * 2 + 2], 16).unwrap();
    }
    bytes[..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    bytes
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c(&bytes);
    put(&mut bytes, 4, &crc.to_le_bytes());
    bytes
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}
