use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

const SOON: Duration = Duration::from_millis(50);

fn commit(transactions: &Transactions) -> Result<usize> {
    let (id, changes, ()) = transactions.close_running(|_| ())?;
    transactions.became_durable(id);
    Ok(changes.blocks.len())
}

#[test]
fn a_commit_waits_for_handles_and_they_for_none() {
    let transactions = Transactions::new(10);
    let id = transactions.try_begin(6).unwrap().unwrap();
    transactions.note_changed(FsBlock(5));
    let closed = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(commit(&transactions).unwrap(), 2);
            closed.store(true, Ordering::SeqCst);
        });
        thread::sleep(SOON);
        assert!(!closed.load(Ordering::SeqCst));
        assert!(transactions.try_begin(1).unwrap().is_none());
        // An operation with an open handle may get more credits, but only as long as there is room.
        assert!(transactions.try_extend(2));
        assert!(!transactions.try_extend(2));
        assert!(!transactions.try_exchange(8, 1));
        transactions.note_changed(FsBlock(6));
        transactions.end(8);
    });
    assert!(closed.load(Ordering::SeqCst));
    assert!(transactions.try_begin(10).unwrap().unwrap() > id);
}

#[test]
fn room_that_is_given_back_needs_no_commit() {
    let transactions = Transactions::new(10);
    transactions.try_begin(8).unwrap().unwrap();
    transactions.note_changed(FsBlock(5));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| transactions.wait_for_room(9));
        thread::sleep(SOON);
        assert!(!waiting.is_finished());
        transactions.end(8);
        waiting.join().unwrap().unwrap();
    });
    assert_eq!(transactions.state().wanted, TransactionId(0));
    // With two changed blocks there is no other way.
    transactions.note_changed(FsBlock(6));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| transactions.wait_for_room(9));
        let Task::Commit(_turn) = transactions.next_task(None) else {
            panic!("a commit makes room");
        };
        commit(&transactions).unwrap();
        waiting.join().unwrap().unwrap();
    });
    assert!(transactions.wait_for_room(11).is_err());
}

#[test]
fn what_was_half_done_is_never_closed() {
    let transactions = Transactions::new(10);
    transactions.try_begin(1).unwrap().unwrap();
    transactions.note_changed(FsBlock(5));
    thread::scope(|scope| {
        let commit = scope.spawn(|| commit(&transactions));
        while !transactions.state().closing_down {
            thread::yield_now();
        }
        let waits = scope.spawn(|| transactions.wait_until_durable(TransactionId(1)));
        thread::sleep(SOON);
        transactions.finish(StopReason::Aborted("an error".to_owned()));
        transactions.end(1);
        let e = commit.join().unwrap().unwrap_err();
        assert!(e.to_string().contains("an error"), "{e}");
        assert!(waits.join().unwrap().is_err());
    });
    assert!(transactions.try_begin(1).is_err());
    assert!(matches!(transactions.next_task(None), Task::End));
}

#[test]
fn closing_commits_what_is_left() {
    let transactions = Transactions::new(10);
    transactions.try_begin(1).unwrap().unwrap();
    transactions.note_changed(FsBlock(5));
    transactions.finish(StopReason::Closed);
    assert!(transactions.try_begin(1).is_err());
    transactions.end(1);
    let Task::Commit(turn) = transactions.next_task(None) else {
        panic!("the changes are committed");
    };
    thread::scope(|scope| {
        let ends = scope.spawn(|| transactions.next_task(None));
        assert_eq!(commit(&transactions).unwrap(), 1);
        thread::sleep(SOON);
        // Who closes the journal afterwards must not meet a commit.
        assert!(!ends.is_finished());
        drop(turn);
        assert!(matches!(ends.join().unwrap(), Task::End));
    });
    let turn = transactions.wait_until_durable(TransactionId(2)).unwrap();
    assert!(turn.is_none());
}

#[test]
fn what_is_empty_is_durable() {
    let transactions = Transactions::new(10);
    let turn = transactions.wait_until_durable(TransactionId(1)).unwrap();
    assert!(turn.is_none());
    transactions.checkpoint_at(Some(Instant::now()));
    assert!(matches!(
        transactions.next_task(Some(SOON)),
        Task::Checkpoint
    ));
    let began = Instant::now();
    transactions.note_changed(FsBlock(5));
    let task = transactions.next_task(Some(SOON));
    assert!(matches!(task, Task::Commit(_)));
    assert!(began.elapsed() >= SOON);
}

#[test]
fn what_is_being_taken_is_not_durable_yet() {
    let transactions = Transactions::new(10);
    let id = transactions.try_begin(1).unwrap().unwrap();
    transactions.note_changed(FsBlock(5));
    transactions.end(1);
    let written = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut waits = None;
        transactions
            .close_running(|_| {
                waits = Some(scope.spawn(|| {
                    let turn = transactions.wait_until_durable(id).unwrap();
                    assert!(turn.is_none());
                    assert!(written.load(Ordering::SeqCst));
                }));
                thread::sleep(SOON);
            })
            .unwrap();
        written.store(true, Ordering::SeqCst);
        transactions.became_durable(id);
        waits.unwrap().join().unwrap();
    });
}

#[test]
fn what_is_revoked_may_come_back() {
    let transactions = Transactions::new(10);
    transactions.note_changed(FsBlock(5));
    transactions.note_revoked(FsBlock(5));
    transactions.note_revoked(FsBlock(6));
    transactions.note_changed(FsBlock(6));
    let (_, changes, ()) = transactions.close_running(|_| ()).unwrap();
    assert_eq!(changes.blocks, HashSet::from_iter([FsBlock(6)]));
    assert_eq!(changes.revoked, HashSet::from_iter([FsBlock(5)]));
}

/// Of several threads that want their changes to be durable, one commits for all.
#[test]
fn one_commits_and_the_others_wait() {
    let transactions = &Transactions::new(10);
    transactions.note_changed(FsBlock(5));
    let id = transactions.running();
    let turn = transactions.wait_until_durable(id).unwrap();
    assert!(turn.is_some());
    thread::scope(|scope| {
        let same = scope.spawn(move || transactions.wait_until_durable(id).unwrap().is_some());
        commit(transactions).unwrap();
        assert!(!same.join().unwrap());
        // The next transaction waits until the turn is given back.
        transactions.note_changed(FsBlock(6));
        let next = transactions.running();
        let next = scope.spawn(move || transactions.wait_until_durable(next).unwrap().is_some());
        thread::sleep(SOON);
        assert!(!next.is_finished());
        drop(turn);
        assert!(next.join().unwrap());
    });
}
