//! The metadata contexts that a client asks for.

use super::export::Export;

/// The metadata contexts that a client selected for an export.
#[derive(Debug)]
pub(super) struct Selection {
    export: String,
    numbers: Vec<u32>,
}

impl Selection {
    pub(super) const fn new(export: String, numbers: Vec<u32>) -> Self {
        Self { export, numbers }
    }

    /// Returns the numbers of the contexts, if they were selected for this export.
    pub(super) fn of(&self, export: &str) -> &[u32] {
        if self.export == export {
            &self.numbers
        } else {
            &[]
        }
    }
}

/// Returns the contexts that match the queries of `NBD_OPT_LIST_META_CONTEXT`, each with its
/// number: all without queries, and all of a namespace for a query that ends with a colon.
pub(super) fn listed(export: &Export, queries: &[String]) -> Vec<(u32, String)> {
    let matches = |name: &str, query: &String| {
        name == query || (query.ends_with(':') && name.starts_with(query.as_str()))
    };
    contexts(export)
        .filter(|(_, name)| queries.is_empty() || queries.iter().any(|it| matches(name, it)))
        .collect()
}

/// Returns the contexts that `NBD_OPT_SET_META_CONTEXT` names, each with its number.
pub(super) fn selected(export: &Export, queries: &[String]) -> Vec<(u32, String)> {
    contexts(export)
        .filter(|(_, name)| queries.contains(name))
        .collect()
}

fn contexts(export: &Export) -> impl Iterator<Item = (u32, String)> {
    let names = export.contexts.iter().map(|it| it.name().to_owned());
    (0..).zip(names)
}
