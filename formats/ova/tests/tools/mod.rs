//! Packages that are built by hand.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::sync::Arc;

use diskfs_block::{BlockRead, Memory};
use diskfs_ova::Envelope;

const FORMAT: &str = "http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized";

/// Returns an envelope with these files and disks.
pub(crate) fn envelope(files: &str, disks: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- a < comment -->\n\
         <Envelope xmlns=\"http://schemas.dmtf.org/ovf/envelope/1\" \
         xmlns:ovf=\"http://schemas.dmtf.org/ovf/envelope/1\">\n\
         <References>{files}</References>\n\
         <DiskSection><Info>Virtual disks &amp; more</Info>{disks}</DiskSection>\n\
         <VirtualSystem ovf:id=\"x\"><Info/><Name>x</Name></VirtualSystem>\n</Envelope>\n"
    )
}

pub(crate) fn two_disks() -> String {
    envelope(
        "<File ovf:href=\"a%20disk.vmdk\" ovf:id=\"file1\" ovf:size=\"7\"/>\
         <File ovf:id=\"file2\" ovf:href=\"seed.iso\"></File>",
        &format!(
            "<Disk ovf:capacity=\"1\" ovf:capacityAllocationUnits=\"byte * 2^20\" \
             ovf:diskId=\"vmdisk1\" ovf:fileRef=\"file1\" ovf:format=\"{FORMAT}\"/>\
             <Disk ovf:capacity=\"${{size}}\" ovf:diskId=\"vmdisk2\" ovf:format=\"{FORMAT}\"/>"
        ),
    )
}

pub(crate) fn parse(text: &str) -> diskfs_block::Result<Envelope> {
    Envelope::parse(text.as_bytes())
}

/// Returns an archive with one member and a correct checksum.
pub(crate) fn ovf_alone(text: &str) -> Arc<dyn BlockRead> {
    Arc::new(Memory::new(archive("machine.ovf", text.as_bytes())))
}

pub(crate) fn archive(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 512];
    file[..name.len()].copy_from_slice(name.as_bytes());
    file[124..135].copy_from_slice(format!("{:011o}", contents.len()).as_bytes());
    file[156] = b'0';
    file[257..263].copy_from_slice(b"ustar\0");
    seal(&mut file);
    file.extend(contents);
    file.resize(file.len().next_multiple_of(512) + 1024, 0);
    file
}

pub(crate) fn seal(file: &mut [u8]) {
    file[148..156].fill(b' ');
    let sum: u32 = file[..512].iter().map(|byte| u32::from(*byte)).sum();
    file[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
}

/// Returns a member of the type, without the blocks of zeroes that end an archive.
pub(crate) fn head(name: &str, type_flag: u8, contents: &[u8]) -> Vec<u8> {
    let mut file = archive(name, contents);
    file.truncate(file.len() - 1024);
    file[156] = type_flag;
    seal(&mut file);
    file
}
