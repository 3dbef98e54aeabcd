//! Connectivity: the root directory reaches each directory, and `..` leads back.

use std::sync::atomic::Ordering;

use super::context::Context;
use super::directories::DirectoryPass;
use super::finding::FindingKind;
use crate::error::Result;
use crate::inode::ROOT;

/// The state of a directory in the search for its connection to the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Unknown,
    /// On the path that is being followed.
    Visiting,
    Known,
}

/// Checks all directories.
pub(super) fn check(pass: &DirectoryPass<'_>) -> Result<()> {
    let context = pass.context;
    context.budget.take::<Reach>(pass.directories.len())?;
    let mut reached = vec![Reach::Unknown; pass.directories.len()];
    for (position, directory) in pass.directories.iter().enumerate() {
        follow(pass, &mut reached, position);
        check_dot_dot(context, pass, position, directory.inode);
    }
    Ok(())
}

/// Follows the parents of a directory to one that is known. Each directory is visited once.
fn follow(pass: &DirectoryPass<'_>, reached: &mut [Reach], start: usize) {
    let context = pass.context;
    let mut path = Vec::new();
    let mut position = start;
    loop {
        match reached.get(position) {
            Some(Reach::Unknown) => {}
            Some(Reach::Visiting) => {
                let inode = inode_at(pass, position);
                let detail = "the directory is within itself, and the root does not reach it";
                context.found_in(FindingKind::UnreachableDirectory, inode, detail);
                break;
            }
            _ => break,
        }
        if let Some(reach) = reached.get_mut(position) {
            *reach = Reach::Visiting;
        }
        path.push(position);
        let inode = inode_at(pass, position);
        if inode == ROOT {
            break;
        }
        match pass.position(parent_of(pass, position)) {
            Some(parent) => position = parent,
            None if context.orphans.contains(&inode) => break,
            None => {
                let detail = "no directory has an entry of the directory";
                context.found_in(FindingKind::UnreachableDirectory, inode, detail);
                break;
            }
        }
    }
    for position in path {
        if let Some(reach) = reached.get_mut(position) {
            *reach = Reach::Known;
        }
    }
}

fn check_dot_dot(context: &Context<'_>, pass: &DirectoryPass<'_>, position: usize, inode: u32) {
    let Some(parents) = pass.parents.get(position) else {
        return;
    };
    let dot_dot = parents.dot_dot.load(Ordering::Relaxed);
    let parent = if inode == ROOT {
        ROOT
    } else {
        parent_of(pass, position)
    };
    // A missing parent or `..` is reported elsewhere.
    if parent != 0 && dot_dot != 0 && dot_dot != parent {
        let detail = format!("`..` refers to inode {dot_dot}, expected {parent}");
        context.found_in(FindingKind::DirectoryParent, inode, detail);
    }
}

fn inode_at(pass: &DirectoryPass<'_>, position: usize) -> u32 {
    let directory = pass.directories.get(position);
    directory.map_or(0, |directory| directory.inode)
}

fn parent_of(pass: &DirectoryPass<'_>, position: usize) -> u32 {
    let parents = pass.parents.get(position);
    parents.map_or(0, |parents| parents.by_name.load(Ordering::Relaxed))
}
