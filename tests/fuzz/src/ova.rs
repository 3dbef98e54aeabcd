//! OVA packages.

use std::sync::Arc;

use diskfs_block::{BlockRead, Memory};
use diskfs_ova::{Envelope, Ova};

use crate::Sparse;

/// The maximum size of an archive that is kept in memory.
const MAX_BYTES: u64 = 256 << 10;

/// The size of a header of tar.
const BLOCK: usize = 512;

/// Opens an archive with corrected checksums, which mutations never hit, and looks at each disk.
/// Then parses the first bytes as an envelope.
pub(crate) fn package(device: &Arc<dyn BlockRead>) {
    let len = device.size_bytes().min(MAX_BYTES);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    if device.read_at(0, &mut bytes).is_err() {
        return;
    }
    let _ = Envelope::parse(&bytes);
    for block in bytes.chunks_exact_mut(BLOCK) {
        if block[257..].starts_with(b"ustar") {
            seal(block);
        }
    }
    let Ok(ova) = Ova::open(Arc::new(Memory::new(bytes))) else {
        return;
    };
    let _ = (ova.manifest().len(), ova.members().len());
    for disk in ova.disks() {
        let _ = (disk.is_vmdk(), disk.file_name());
        if let Ok(Some(file)) = ova.device(disk) {
            let _ = file.read_at(file.size_bytes().saturating_sub(1), &mut [0]);
        }
    }
}

/// Corrects the checksum of a header.
fn seal(block: &mut [u8]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

const ENVELOPE: &str = r#"<?xml version="1.0"?><Envelope xmlns:ovf="x"><References>
<File ovf:href="a%20disk.vmdk" ovf:id="file1" ovf:size="7"/><File ovf:id="2" ovf:href="b&amp;"/>
</References><DiskSection><Disk ovf:capacity="1" ovf:capacityAllocationUnits="byte * 2^20"
ovf:diskId="1" ovf:fileRef="file1"/><Disk ovf:diskId="2" ovf:fileRef="2"></Disk></DiskSection>
</Envelope>"#;

/// Returns a package, and an envelope alone.
pub(crate) fn seeds() -> [(&'static str, Sparse); 2] {
    let members: [(&str, u8, &[u8]); 5] = [
        ("machine.ovf", b'0', ENVELOPE.as_bytes()),
        ("machine.mf", b'0', b"SHA256(a disk.vmdk)= 00ff\n"),
        ("x", b'x', b"20 path=a disk.vmdk\n9 size=8\n"),
        ("name", b'0', b"contents"),
        ("link", b'2', b""),
    ];
    let mut package = Vec::new();
    for (name, type_flag, contents) in members {
        let mut block = [0; BLOCK];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[124..135].copy_from_slice(format!("{:011o}", contents.len()).as_bytes());
        block[156] = type_flag;
        block[257..263].copy_from_slice(b"ustar\0");
        seal(&mut block);
        package.extend(block);
        package.extend(contents);
        package.resize(package.len().next_multiple_of(BLOCK), 0);
    }
    [
        ("ova", sparse(&package)),
        ("ovf", sparse(ENVELOPE.as_bytes())),
    ]
}

fn sparse(bytes: &[u8]) -> Sparse {
    let mut file = Sparse::zeroes(bytes.len() as u64);
    file.write(0, bytes);
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_opened() {
        let [(_, package), _] = seeds();
        let ova = Ova::open(Arc::new(package)).unwrap();
        let file = ova.device(&ova.disks()[0]).unwrap().unwrap();
        assert_eq!(file.size_bytes(), 8);
        assert_eq!(Envelope::parse(ENVELOPE.as_bytes()).unwrap().disks.len(), 2);
    }
}
