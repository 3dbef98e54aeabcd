//! A filter in parts, each for a range of numbers of system calls.
//!
//! seccompiler compares a number with that of each rule in turn. When a filter is added, the kernel
//! runs it for every number that exists, to find those that are allowed whatever their arguments
//! are (`seccomp_cache_prepare` of kernel/seccomp.c). With 100 rules in one list, that takes longer
//! than opening an image does.

use seccompiler::{BackendError, BpfProgram, sock_filter};

use super::Rules;

/// The number of rules of a part.
const PART_RULES: usize = 8;

/// `BPF_LD | BPF_W | BPF_ABS` of `linux/bpf_common.h`: loads four bytes of `seccomp_data`.
const LOAD: u16 = 0x20;
/// `BPF_JMP | BPF_JGE | BPF_K`: jumps if what was loaded is at least a constant.
const JUMP_IF_AT_LEAST: u16 = 0x35;

/// Returns a filter of all rules. `filter` returns the filter of some of them, which decides about
/// every call, and has the same answer for all without a rule.
pub(super) fn joined(
    mut rules: Rules,
    filter: impl Fn(Rules) -> Result<BpfProgram, BackendError>,
) -> Result<BpfProgram, BackendError> {
    let mut joined = vec![load_number()];
    while let Some((&next, _)) = rules.iter().nth(PART_RULES) {
        let after = rules.split_off(&next);
        let part = filter(rules)?;
        joined.push(skip_from(next, part.len())?);
        joined.extend(part);
        rules = after;
    }
    joined.extend(filter(rules)?);
    Ok(joined)
}

/// Returns the instruction that loads the number of the call, the first field.
fn load_number() -> sock_filter {
    sock_filter {
        code: LOAD,
        jt: 0,
        jf: 0,
        k: 0,
    }
}

/// Returns a jump over the next `len` instructions for calls from this number on.
fn skip_from(number: i64, len: usize) -> Result<sock_filter, BackendError> {
    let too_large = |_| BackendError::FilterTooLarge(len);
    Ok(sock_filter {
        code: JUMP_IF_AT_LEAST,
        jt: len.try_into().map_err(too_large)?,
        jf: 0,
        k: number.try_into().map_err(too_large)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Calls, one_list, rules};
    use super::*;

    /// The fields of `seccomp_data` in words: the number, the architecture, the address, the
    /// arguments.
    type Data = [u32; 16];

    /// Runs a filter of the instructions that seccompiler uses. Returns its answer, and how many
    /// instructions it took.
    fn run(program: &BpfProgram, data: &Data) -> (u32, usize) {
        let (mut at, mut loaded, mut steps) = (0, 0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            steps += 1;
            let skip = |holds: bool| usize::from(if holds { jt } else { jf });
            match code {
                LOAD => loaded = data[usize::try_from(k).unwrap() / 4],
                0x54 => loaded &= k,
                0x05 => at += usize::try_from(k).unwrap(),
                0x15 => at += skip(loaded == k),
                JUMP_IF_AT_LEAST => at += skip(loaded >= k),
                0x06 => return (k, steps),
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    fn data(number: u32, architecture: u32, argument: u32) -> Data {
        let mut data = [argument; 16];
        data[0] = number;
        data[1] = architecture;
        data
    }

    #[test]
    fn the_parts_decide_as_one_filter_does_in_a_quarter_of_the_instructions() {
        let ours = one_list(Rules::new()).unwrap()[1].k;
        let x32 = 1 << 30;
        let numbers = (0..700).flat_map(|number| [number, number | x32, !number]);
        let calls = [
            Calls::Compute,
            Calls::ReadMetadata,
            Calls::ReadFiles,
            Calls::ChangeFiles,
            Calls::ServeMount,
        ];
        for calls in calls {
            let whole = one_list(rules(calls)).unwrap();
            let joined = joined(rules(calls), one_list).unwrap();
            let (mut before, mut after) = (0, 0);
            for number in numbers.clone() {
                for architecture in [ours, ours ^ 1] {
                    for argument in [0, 1, 2, 4, 0x5401, 0x4000_3f00, u32::MAX] {
                        let data = data(number, architecture, argument);
                        let (expected, steps) = run(&whole, &data);
                        before += steps;
                        let (answer, steps) = run(&joined, &data);
                        after += steps;
                        assert_eq!(answer, expected, "{calls:?}: {data:x?}");
                    }
                }
            }
            assert!(after * 4 < before, "{calls:?}: {after} of {before}");
        }
    }

    #[test]
    fn a_part_that_no_jump_can_skip_is_an_error() {
        let long = |_| Ok(vec![load_number(); 256]);
        assert_eq!(
            joined(rules(Calls::Compute), long),
            Err(BackendError::FilterTooLarge(256))
        );
    }
}
