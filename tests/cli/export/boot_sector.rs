//! The smallest operating system that reads and writes its disk.

/// The text that it prints, from sector 1 of the disk, up to a NUL.
pub(super) const TEXT: &[u8] = b"booted from diskfs\r\n";

/// The first byte of sector 2 that it writes; the rest is sector 1.
pub(super) const MARK: u8 = b'!';

/// QEMU's exit code on success: `isa-debug-exit` makes it (0x10 << 1) + 1.
pub(super) const DONE: i32 = 0x21;

/// QEMU's exit code if the disk could not be read or written.
pub(super) const FAILED: i32 = 0x23;

/// The 16-bit code, loaded at 0x7c00 with the disk's number in dl; it reads sector 1 to 0x8000.
#[rustfmt::skip]
const CODE: &[u8] = &[
    /* 7c00 */ 0xfc,                         // cld
    /* 7c01 */ 0x31, 0xc0,                   // xor ax, ax
    /* 7c03 */ 0x8e, 0xd8,                   // mov ds, ax
    /* 7c05 */ 0x8e, 0xd0,                   // mov ss, ax
    /* 7c07 */ 0xbc, 0x00, 0x7c,             // mov sp, 0x7c00
    /* 7c0a */ 0x52,                         // push dx
    /* 7c0b */ 0xb4, 0x42,                   // mov ah, 0x42        read
    /* 7c0d */ 0xbe, 0x50, 0x7c,             // mov si, 0x7c50
    /* 7c10 */ 0xcd, 0x13,                   // int 0x13
    /* 7c12 */ 0x72, 0x2f,                   // jc 0x7c43
    /* 7c14 */ 0xbe, 0x00, 0x80,             // mov si, 0x8000
    /* 7c17 */ 0xac,                         // lodsb
    /* 7c18 */ 0x84, 0xc0,                   // test al, al
    /* 7c1a */ 0x74, 0x11,                   // jz 0x7c2d
    /* 7c1c */ 0x88, 0xc4,                   // mov ah, al
    /* 7c1e */ 0xba, 0xfd, 0x03,             // mov dx, 0x3fd       COM1: ready to send?
    /* 7c21 */ 0xec,                         // in al, dx
    /* 7c22 */ 0xa8, 0x20,                   // test al, 0x20
    /* 7c24 */ 0x74, 0xf8,                   // jz 0x7c1e
    /* 7c26 */ 0x88, 0xe0,                   // mov al, ah
    /* 7c28 */ 0xb2, 0xf8,                   // mov dl, 0xf8
    /* 7c2a */ 0xee,                         // out dx, al
    /* 7c2b */ 0xeb, 0xea,                   // jmp 0x7c17
    /* 7c2d */ 0x5a,                         // pop dx
    /* 7c2e */ 0xc6, 0x06, 0x00, 0x80, MARK, // mov byte [0x8000], '!'
    /* 7c33 */ 0xb8, 0x00, 0x43,             // mov ax, 0x4300      write
    /* 7c36 */ 0xbe, 0x60, 0x7c,             // mov si, 0x7c60
    /* 7c39 */ 0xcd, 0x13,                   // int 0x13
    /* 7c3b */ 0x72, 0x06,                   // jc 0x7c43
    /* 7c3d */ 0xb0, 0x10,                   // mov al, 0x10        done
    /* 7c3f */ 0xe6, 0xf4,                   // out 0xf4, al
    /* 7c41 */ 0xeb, 0xfe,                   // jmp 0x7c41
    /* 7c43 */ 0xb0, 0x11,                   // mov al, 0x11        failed
    /* 7c45 */ 0xe6, 0xf4,                   // out 0xf4, al
    /* 7c47 */ 0xeb, 0xfe,                   // jmp 0x7c47
];

/// The disk address packets at 0x7c50 and 0x7c60: 16 bytes, one sector, at 0000:8000, and the
/// sector's number.
const READ: [u8; 16] = [16, 0, 1, 0, 0x00, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
const WRITE: [u8; 16] = [16, 0, 1, 0, 0x00, 0x80, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];

/// Returns the sector as it is on the disk.
pub(super) fn bytes() -> [u8; 512] {
    let mut sector = [0; 512];
    sector[..CODE.len()].copy_from_slice(CODE);
    sector[0x50..0x60].copy_from_slice(&READ);
    sector[0x60..0x70].copy_from_slice(&WRITE);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}
