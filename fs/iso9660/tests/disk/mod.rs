//! Construction of small volumes, byte by byte.

/// The block of the root directory.
pub(crate) const ROOT: u32 = 20;
/// The number of blocks, of 2048 bytes. Those from 24 on are filled with their numbers.
const BLOCKS: u8 = 64;
const BLOCK_BYTES: usize = 2048;

/// Returns a number in both byte orders.
pub(crate) fn both(number: u32) -> Vec<u8> {
    [number.to_le_bytes(), number.to_be_bytes()].concat()
}

/// Returns a SUSP entry.
pub(crate) fn entry(signature: &str, data: &[u8]) -> Vec<u8> {
    let length = u8::try_from(4 + data.len()).unwrap();
    [signature.as_bytes(), &[length, 1], data].concat()
}

/// A directory record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) extended_attribute_blocks: u8,
    pub(crate) flags: u8,
    pub(crate) interleave_gap: u8,
    identifier: Vec<u8>,
    block: u32,
    len: u32,
    system_use: Vec<u8>,
}

impl Record {
    pub(crate) fn file(identifier: &[u8], block: u32, len: u32) -> Self {
        Self {
            identifier: identifier.to_vec(),
            block,
            len,
            ..Self::default()
        }
    }

    pub(crate) fn directory(identifier: &[u8], block: u32, len: u32) -> Self {
        Self {
            flags: 2,
            ..Self::file(identifier, block, len)
        }
    }

    /// Returns the record with a system use area.
    pub(crate) fn with(mut self, system_use: &[u8]) -> Self {
        self.system_use = system_use.to_vec();
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0, self.extended_attribute_blocks];
        bytes.extend(both(self.block));
        bytes.extend(both(self.len));
        bytes.extend([126, 1, 2, 3, 4, 5, 0, self.flags, 0, self.interleave_gap]);
        bytes.extend([1, 0, 0, 1]);
        bytes.push(self.identifier.len().try_into().unwrap());
        bytes.extend(&self.identifier);
        if self.identifier.len().is_multiple_of(2) {
            bytes.push(0);
        }
        bytes.extend(&self.system_use);
        if !bytes.len().is_multiple_of(2) {
            bytes.push(0);
        }
        bytes[0] = bytes.len().try_into().unwrap();
        bytes
    }
}

/// Returns a volume whose root has these records.
pub(crate) fn disk(records: &[Record]) -> Vec<u8> {
    with_root(&[], records)
}

/// Returns a volume with Rock Ridge whose root has these records.
pub(crate) fn rock_ridge(records: &[Record]) -> Vec<u8> {
    let er = entry("ER", b"\x0a\0\0\x01RRIP_1991A");
    with_root(&[entry("SP", &[0xbe, 0xef, 0]), er].concat(), records)
}

fn with_root(system_use: &[u8], records: &[Record]) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..BLOCKS)
        .flat_map(|block| [if block < 24 { 0 } else { block }; BLOCK_BYTES])
        .collect();
    let root = |name: &[u8]| Record::directory(name, ROOT, 2048);
    let mut descriptor = b"\x01CD001\x01\0".to_vec();
    descriptor.resize(128, b' ');
    descriptor[80..88].copy_from_slice(&both(BLOCKS.into()));
    descriptor.extend([0, 8, 8, 0]);
    descriptor.resize(156, 0);
    descriptor.extend(root(&[0]).bytes());
    put(&mut bytes, 16, &descriptor);
    put(&mut bytes, 17, b"\xffCD001\x01");
    let mut directory = root(&[0]).with(system_use).bytes();
    directory.extend(root(&[1]).bytes());
    directory.extend(records.iter().flat_map(Record::bytes));
    put(&mut bytes, ROOT as usize, &directory);
    bytes
}

fn put(bytes: &mut [u8], block: usize, what: &[u8]) {
    bytes[block * BLOCK_BYTES..][..what.len()].copy_from_slice(what);
}
