//! Reassembling transactions from the operations of the log.
//!
//! The operations of several transactions can alternate, and a region can be split between records.
//! A transaction is complete with its commit operation; those without one are dropped.

use std::collections::HashMap;

use super::lsn::Lsn;
use super::operation::{Operation, OperationFlags};
use super::transaction::{Reason, Transaction};

/// The largest number of unfinished transactions. The kernel writes a few checkpoints at the same
/// time, and before delayed logging some hundreds of transactions.
const OPEN_MAX: usize = 1 << 14;
/// The largest size of all unfinished transactions. The kernel ends a checkpoint at an eighth of
/// the log and at 32 MiB, and stops its writers at twice this.
const OPEN_BYTES_MAX: u64 = 256 << 20;

/// The unfinished transactions, by their number.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    open: HashMap<u32, Transaction>,
    cost_bytes: u64,
}

/// The reason why an operation is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The log is corrupt.
    Invalid(Reason),
    /// The unfinished transactions exceed this limit.
    TooLarge(String),
}

impl Transactions {
    /// Adds an operation of a record at `lsn`. Returns the transaction that it commits.
    ///
    /// # Errors
    /// `TooLarge` if the unfinished transactions exceed a limit, `Invalid` for other operations.
    pub(super) fn add(
        &mut self,
        operation: &Operation<'_>,
        lsn: Lsn,
    ) -> Result<Option<Transaction>, Refusal> {
        let number = operation.transaction;
        if !self.open.contains_key(&number) {
            // Without a start these are the remains of a transaction from before the tail.
            if operation.flags.contains(OperationFlags::START) {
                self.start(number, lsn)?;
            }
            return Ok(None);
        }
        let mut flags = operation.flags.difference(OperationFlags::END);
        if flags.contains(OperationFlags::WAS_CONTINUED) {
            flags.remove(OperationFlags::CONTINUE);
        }
        match flags {
            OperationFlags::COMMIT => {
                let transaction = self.take(number);
                if transaction.as_ref().is_some_and(|done| !done.is_complete()) {
                    return Err(Refusal::Invalid("a log item lacks regions"));
                }
                return Ok(transaction);
            }
            OperationFlags::UNMOUNT => drop(self.take(number)),
            flags => self.add_bytes(number, flags, operation.bytes)?,
        }
        Ok(None)
    }

    fn add_bytes(
        &mut self,
        number: u32,
        flags: OperationFlags,
        bytes: &[u8],
    ) -> Result<(), Refusal> {
        let Some(transaction) = self.open.get_mut(&number) else {
            return Ok(());
        };
        let before = transaction.cost_bytes();
        let added = if flags.is_empty() || flags == OperationFlags::CONTINUE {
            transaction.add(bytes)
        } else if flags == OperationFlags::WAS_CONTINUED {
            transaction.continue_last(bytes)
        } else {
            Err("an operation has invalid flags")
        };
        let grown = transaction.cost_bytes().saturating_sub(before);
        self.cost_bytes = self.cost_bytes.saturating_add(grown);
        if self.cost_bytes > OPEN_BYTES_MAX {
            let limit = OPEN_BYTES_MAX >> 20;
            return Err(Refusal::TooLarge(format!("{limit} MiB")));
        }
        added.map_err(Refusal::Invalid)
    }

    fn start(&mut self, number: u32, lsn: Lsn) -> Result<(), Refusal> {
        if self.open.len() >= OPEN_MAX {
            return Err(Refusal::TooLarge(format!("{OPEN_MAX} transactions")));
        }
        self.open.insert(number, Transaction::new(lsn));
        Ok(())
    }

    fn take(&mut self, number: u32) -> Option<Transaction> {
        let transaction = self.open.remove(&number)?;
        self.cost_bytes = self.cost_bytes.saturating_sub(transaction.cost_bytes());
        Some(transaction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 16] = *b"NART\x2a\0\0\0\x01\0\0\0\x01\0\0\0";
    const ITEM: [u8; 8] = [0x3b, 0x12, 2, 0, 0, 0, 0, 0];

    fn add(
        transactions: &mut Transactions,
        flags: OperationFlags,
        bytes: &[u8],
    ) -> Result<Option<Transaction>, Refusal> {
        let operation = Operation {
            transaction: 7,
            flags,
            bytes,
        };
        transactions.add(&operation, Lsn(5))
    }

    #[test]
    fn split_regions_are_joined() {
        let mut open = Transactions::default();
        for (flags, bytes) in [
            (OperationFlags::empty(), &b"of an older one"[..]),
            (OperationFlags::START, b""),
            (OperationFlags::CONTINUE, &HEADER[..10]),
            (
                OperationFlags::WAS_CONTINUED | OperationFlags::END,
                &HEADER[10..],
            ),
            (OperationFlags::empty(), &ITEM),
            (OperationFlags::CONTINUE, b"abc"),
            (
                OperationFlags::WAS_CONTINUED | OperationFlags::CONTINUE,
                b"def",
            ),
            (OperationFlags::WAS_CONTINUED | OperationFlags::END, b"g"),
            (OperationFlags::empty(), b""),
        ] {
            assert!(add(&mut open, flags, bytes).unwrap().is_none());
        }
        let done = add(&mut open, OperationFlags::COMMIT, b"")
            .unwrap()
            .unwrap();
        assert_eq!((done.lsn, done.items.len()), (Lsn(5), 1));
        assert_eq!(done.items[0].regions, [ITEM.to_vec(), b"abcdefg".to_vec()]);
        assert_eq!((open.open.len(), open.cost_bytes), (0, 0));
    }

    #[test]
    fn invalid_operations_are_refused() {
        let after_start = |operations: &[(OperationFlags, &[u8])]| {
            let mut open = Transactions::default();
            add(&mut open, OperationFlags::START, b"").unwrap();
            let mut last = Ok(None);
            for (flags, bytes) in operations {
                last = add(&mut open, *flags, bytes);
            }
            match last {
                Err(Refusal::Invalid(reason)) => reason,
                other => panic!("{other:?}"),
            }
        };
        let none = OperationFlags::empty();
        assert_eq!(
            after_start(&[(none, b"NART of 16 or less")]),
            "a transaction has an invalid header"
        );
        assert_eq!(
            after_start(&[(none, &ITEM)]),
            "a transaction has a wrong magic"
        );
        let lacking = [
            (none, &HEADER[..]),
            (none, &ITEM),
            (OperationFlags::COMMIT, b""),
        ];
        assert_eq!(after_start(&lacking), "a log item lacks regions");
        let regions = [(none, &HEADER[..]), (none, &[0x3b, 0x12, 2, 2])];
        assert_eq!(
            after_start(&regions),
            "a log item has an invalid number of regions"
        );
        let nothing = [(none, &HEADER[..]), (OperationFlags::WAS_CONTINUED, b"abc")];
        assert_eq!(after_start(&nothing), "an operation continues nothing");
        let flags = [(none, &HEADER[..]), (OperationFlags::START, b"")];
        assert_eq!(after_start(&flags), "an operation has invalid flags");
    }

    #[test]
    fn unfinished_transactions_are_limited() {
        let mut open = Transactions::default();
        let refused = (0..20_000).find_map(|number| {
            let operation = Operation {
                transaction: number,
                flags: OperationFlags::START,
                bytes: b"",
            };
            open.add(&operation, Lsn(1)).err()
        });
        assert!(matches!(refused, Some(Refusal::TooLarge(_))));
    }
}
