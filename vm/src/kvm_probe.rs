//! A probe, within milliseconds, whether KVM is usable and faster than emulation.
//!
//! It is not enough that `/dev/kvm` opens: in a guest without nested virtualisation, KVM may run a
//! kernel instruction by instruction in an emulator, hundreds of times slower than QEMU's own. It
//! may also stop at the first unknown instruction. So the probe runs and times a few instructions
//! that every kernel uses.
#![expect(
    unsafe_code,
    reason = "sharing memory with a machine is unsafe: the machine may write it at any time"
)]

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kvm_bindings::{kvm_segment, kvm_sregs, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// The timeout after which a hanging probe is abandoned.
const DEADLINE: Duration = Duration::from_secs(1);

/// The number of iterations of the timed loop.
const TURNS: u32 = 20_000;
/// The limit per iteration. Hardware takes less than 1 ns, an emulator 200 ns and more; the limit
/// leaves room for a busy host.
const MAX_TURN: Duration = Duration::from_nanos(20);
/// The number of tries: the first ones may be slow because of other load on the host.
const TRIES: usize = 5;

/// The size of the machine's memory: one page of 2 MiB.
const MEMORY_BYTES: usize = 2 << 20;
const PML4: u64 = 0x1000;
const PDPT: u64 = 0x2000;
const PD: u64 = 0x3000;
const DATA: u64 = 0x4000;
const CODE: u64 = 0x8000;
/// The I/O port that the program writes when all instructions have run.
const DONE_PORT: u16 = 0xf4;

/// The probe's program: a loop, and instructions that emulators lack and kernels use early.
#[rustfmt::skip]
const PROGRAM: [u8; 21] = [
    0xb9, 0x20, 0x4e, 0x00, 0x00, // mov ecx, TURNS
    0xff, 0xc9,                   // dec ecx
    0x75, 0xfc,                   // jnz to the one before
    0xf0, 0x48, 0x0f, 0xc7, 0x0e, // lock cmpxchg16b [rsi]
    0x31, 0xc0,                   // xor eax, eax
    0x0f, 0xa2,                   // cpuid
    0xe6, 0xf4,                   // out DONE_PORT, al
    0xf4,                         // hlt
];

// Bits of control registers and page tables (Intel SDM, volume 3, sections 2.5 and 4.5).
const PRESENT_WRITABLE: u64 = 0b11;
const LARGE_PAGE: u64 = 1 << 7;
const CR0_PE_PG: u64 = 1 | 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LME_LMA: u64 = 1 << 8 | 1 << 10;

/// Returns the reason why KVM is not usable; `None` if it is.
pub(super) fn problem() -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    // A probe that hangs in the kernel keeps its thread until this process ends.
    let started = thread::Builder::new()
        .name("kvm probe".to_owned())
        .spawn(move || sender.send(try_it()));
    if let Err(error) = started {
        return Some(format!("cannot start the KVM probe: {error}"));
    }
    match receiver.recv_timeout(DEADLINE) {
        Ok(result) => result.err(),
        Err(_) => Some("KVM is not usable: the probe machine hangs".to_owned()),
    }
}

fn try_it() -> Result<(), String> {
    let failed = |what: &'static str| move |e: kvm_ioctls::Error| format!("{what}: {e}");
    let kvm = Kvm::new().map_err(failed("cannot open /dev/kvm"))?;
    let vm = kvm
        .create_vm()
        .map_err(failed("KVM cannot create a machine"))?;
    let memory =
        memory().map_err(|e| format!("cannot allocate the probe machine's memory: {e}"))?;
    let host = memory
        .get_host_address(GuestAddress(0))
        .map_err(|e| e.to_string())?;
    let region = kvm_userspace_memory_region {
        memory_size: u64::try_from(MEMORY_BYTES).unwrap_or_default(),
        userspace_addr: u64::try_from(host.addr()).unwrap_or_default(),
        ..Default::default()
    };
    // SAFETY: the region is mapped with the given size. `memory` and the machine both end with this
    // function. The order does not matter, because nothing runs in the machine any more.
    unsafe { vm.set_user_memory_region(region) }
        .map_err(failed("KVM cannot map the machine's memory"))?;
    let mut vcpu = vm
        .create_vcpu(0)
        .map_err(failed("KVM cannot create a processor"))?;
    let mut best = Duration::MAX;
    for _ in 0..TRIES {
        set_up(&vcpu).map_err(failed("KVM cannot set registers"))?;
        let began = Instant::now();
        match vcpu.run() {
            Ok(VcpuExit::IoOut(DONE_PORT, _)) => best = best.min(began.elapsed()),
            Ok(exit) => {
                return Err(format!(
                    "KVM cannot run instructions that every kernel uses ({exit:?})"
                ));
            }
            Err(error) => return Err(format!("KVM cannot run the processor: {error}")),
        }
        if best < MAX_TURN.saturating_mul(TURNS) {
            return Ok(());
        }
    }
    let turn = best.checked_div(TURNS).unwrap_or_default();
    Err(format!(
        "KVM is slower than emulation on this host: {} ns per instruction",
        turn.as_nanos()
    ))
}

fn memory() -> Result<GuestMemoryMmap, Box<dyn std::error::Error>> {
    let memory = GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)])?;
    let entry = |table: u64, value: u64| memory.write_obj(value, GuestAddress(table));
    entry(PML4, PDPT | PRESENT_WRITABLE)?;
    entry(PDPT, PD | PRESENT_WRITABLE)?;
    entry(PD, LARGE_PAGE | PRESENT_WRITABLE)?;
    memory.write_slice(&PROGRAM, GuestAddress(CODE))?;
    Ok(memory)
}

/// Sets registers for 64-bit mode, ring 0, at the program's start.
fn set_up(vcpu: &VcpuFd) -> Result<(), kvm_ioctls::Error> {
    let mut system: kvm_sregs = vcpu.get_sregs()?;
    system.cr3 = PML4;
    system.cr4 = CR4_PAE;
    system.cr0 |= CR0_PE_PG;
    system.efer = EFER_LME_LMA;
    system.cs = segment(0xb, 1);
    system.ds = segment(0x3, 0);
    system.es = system.ds;
    system.ss = system.ds;
    vcpu.set_sregs(&system)?;
    let mut registers = vcpu.get_regs()?;
    registers.rip = CODE;
    registers.rsi = DATA;
    registers.rflags = 2; // This bit is always set.
    vcpu.set_regs(&registers)
}

/// Returns a flat segment: code (`type_` 0xb) of 64 bits, or data (0x3).
fn segment(type_: u8, l: u8) -> kvm_segment {
    kvm_segment {
        base: 0,
        limit: u32::MAX,
        selector: 8,
        type_,
        present: 1,
        db: 1 - l,
        s: 1,
        l,
        g: 1,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_in_time_and_the_same_each_time() {
        let began = Instant::now();
        let first = problem();
        assert!(began.elapsed() < DEADLINE * 2);
        assert_eq!(first.is_some(), problem().is_some(), "{first:?}");
    }
}
