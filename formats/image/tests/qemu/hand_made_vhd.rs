//! VHDs by the specification: differencing disks, which qemu-img does not make.

/// The size of a block of the made images: eight sectors, so that a bitmap has one byte.
const BLOCK: usize = 4096;
const SECTOR: usize = 512;

/// A VHD in the making.
#[derive(Debug, Clone)]
pub(crate) struct HandMadeVhd {
    pub(crate) id: [u8; 16],
    pub(crate) parent: Option<VhdParent>,
    size: usize,
    /// The blocks: the bitmap and the data.
    blocks: Vec<Option<(u8, Vec<u8>)>>,
}

/// The parent of a differencing disk.
#[derive(Debug, Clone)]
pub(crate) struct VhdParent {
    pub(crate) id: [u8; 16],
    /// Seconds since 2000; 0 for unknown.
    pub(crate) time: u32,
    /// The platform code and the path.
    pub(crate) locators: Vec<([u8; 4], String)>,
}

impl HandMadeVhd {
    pub(crate) fn new(size: usize, id: u8, parent: Option<VhdParent>) -> Self {
        Self {
            id: [id; 16],
            parent,
            size,
            blocks: vec![None; size.div_ceil(BLOCK)],
        }
    }

    /// Writes a sector of `fill`.
    pub(crate) fn write(&mut self, sector: usize, fill: u8) {
        let (block, within) = (sector * SECTOR / BLOCK, sector % (BLOCK / SECTOR));
        let (bitmap, data) = self.blocks[block].get_or_insert((0, vec![0; BLOCK]));
        *bitmap |= 0x80 >> within;
        data[within * SECTOR..][..SECTOR].fill(fill);
    }

    /// Returns the bytes of the image.
    pub(crate) fn build(&self) -> Vec<u8> {
        let table_at = 1536;
        let mut image = vec![0; table_at];
        let mut table: Vec<u8> = Vec::new();
        let mut body: Vec<u8> = Vec::new();
        let body_at = table_at + (self.blocks.len() * 4).next_multiple_of(SECTOR);
        for block in &self.blocks {
            match block {
                None => table.extend(u32::MAX.to_be_bytes()),
                Some((bitmap, data)) => {
                    let at = u32::try_from((body_at + body.len()) / SECTOR).unwrap();
                    table.extend(at.to_be_bytes());
                    body.push(*bitmap);
                    body.resize(body.len() + SECTOR - 1, 0);
                    body.extend(data);
                }
            }
        }
        table.resize(body_at - table_at, 0xff);
        image.extend(table);
        image.extend(body);
        let header = self.header(table_at, &mut image);
        let footer = self.footer();
        image[..512].copy_from_slice(&footer);
        image[512..1536].copy_from_slice(&header);
        image.extend(footer);
        image
    }

    /// Returns the header, and adds the names of the parent to the image.
    fn header(&self, table_at: usize, image: &mut Vec<u8>) -> Vec<u8> {
        let mut header = vec![0; 1024];
        header[..8].copy_from_slice(b"cxsparse");
        header[8..16].fill(0xff);
        put(&mut header, 16, &(table_at as u64).to_be_bytes());
        put(&mut header, 24, &0x10000_u32.to_be_bytes());
        put(
            &mut header,
            28,
            &u32::try_from(self.blocks.len()).unwrap().to_be_bytes(),
        );
        put(
            &mut header,
            32,
            &u32::try_from(BLOCK).unwrap().to_be_bytes(),
        );
        if let Some(parent) = &self.parent {
            put(&mut header, 40, &parent.id);
            put(&mut header, 56, &parent.time.to_be_bytes());
            for (n, (code, path)) in parent.locators.iter().enumerate() {
                let name: Vec<u8> = path.encode_utf16().flat_map(u16::to_le_bytes).collect();
                let at = 576 + n * 24;
                put(&mut header, at, code);
                put(&mut header, at + 4, &1_u32.to_be_bytes());
                put(
                    &mut header,
                    at + 8,
                    &u32::try_from(name.len()).unwrap().to_be_bytes(),
                );
                put(&mut header, at + 16, &(image.len() as u64).to_be_bytes());
                image.extend(&name);
                image.resize(image.len().next_multiple_of(SECTOR), 0);
            }
        }
        let sum = checksum(&header);
        put(&mut header, 36, &sum);
        header
    }

    fn footer(&self) -> Vec<u8> {
        let mut footer = vec![0; 512];
        footer[..8].copy_from_slice(b"conectix");
        put(&mut footer, 8, &2_u32.to_be_bytes());
        put(&mut footer, 12, &0x10000_u32.to_be_bytes());
        put(&mut footer, 16, &512_u64.to_be_bytes());
        put(&mut footer, 28, b"win ");
        put(&mut footer, 48, &(self.size as u64).to_be_bytes());
        let kind = if self.parent.is_some() { 4_u32 } else { 3 };
        put(&mut footer, 60, &kind.to_be_bytes());
        put(&mut footer, 68, &self.id);
        let sum = checksum(&footer);
        put(&mut footer, 64, &sum);
        footer
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// Returns the checksum of a structure whose own one is still zero.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    let sum: u32 = bytes.iter().map(|byte| u32::from(*byte)).sum();
    (!sum).to_be_bytes()
}
