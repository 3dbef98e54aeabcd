//! Modules use each other in one direction: this finds circles between sibling modules in the
//! sources.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sources::Crate;

/// An accepted circle: its crate, the module that contains it (empty: the crate itself), its
/// modules, and the reason.
type Allowed<'a> = (&'a str, &'a str, &'a [&'a str], &'a str);

/// The accepted circles, each with the reason.
const ALLOWED: &[Allowed] = &[
    (
        "diskfs-clusters",
        "",
        &["format", "volume"],
        "a format reads its label from the open volume",
    ),
    (
        "diskfs-disk",
        "stack",
        &["luks", "lvm", "md", "place", "volume"],
        "a volume is stored in others, which its public types name",
    ),
    (
        "diskfs-volume",
        "",
        &["map", "persistent", "thin"],
        "the metadata of a thin volume is in a part of a mapped volume",
    ),
    (
        "diskfs-benches",
        "",
        &["rig", "visit"],
        "a visit measures on the rig that runs it",
    ),
];

/// The modules whose submodules are checked, too, besides the top-level modules of each crate.
const NESTED: &[(&str, &str)] = &[("diskfs-disk", "stack"), ("diskfs-ext4", "writer")];

/// The siblings that each module uses, with the paths of the uses.
type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Returns how the direct submodules of `parent` use each other.
fn graph(source: &Crate, parent: &[String]) -> Graph {
    let mut graph = Graph::new();
    let child = |path: &[String]| path.strip_prefix(parent)?.first().cloned();
    for (user, used, path) in source.uses() {
        if let (Some(user), Some(used)) = (child(user), child(&used))
            && user != used
        {
            let used = graph.entry(user).or_default().entry(used);
            used.or_default().insert(path);
        }
    }
    graph
}

/// Returns the modules that `start` uses, directly or through others.
fn reachable(graph: &Graph, start: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![start.to_owned()];
    while let Some(module) = open.pop() {
        for used in graph.get(&module).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(used.clone()) {
                open.push(used.clone());
            }
        }
    }
    found
}

/// Returns the largest sets of modules in which each one uses every other, directly or through others.
fn circles(graph: &Graph) -> BTreeSet<Vec<String>> {
    let reachable: BTreeMap<_, _> = graph
        .keys()
        .map(|module| (module, reachable(graph, module)))
        .collect();
    let uses =
        |user: &String, used: &String| reachable.get(user).is_some_and(|all| all.contains(used));
    let circle = |module: &String| {
        let used = reachable[module].iter();
        let circle = used.filter(|other| uses(other, module));
        circle.cloned().collect::<Vec<_>>()
    };
    let all = graph.keys().map(circle);
    all.filter(|circle| !circle.is_empty()).collect()
}

/// Returns the uses between the modules of a circle, one line for each.
fn edges(graph: &Graph, circle: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    for user in circle {
        for (used, paths) in &graph[user] {
            if circle.contains(used) {
                let paths: Vec<_> = paths.iter().map(String::as_str).collect();
                lines.push(format!("    {user} -> {used}: {}", paths.join(", ")));
            }
        }
    }
    lines
}

/// Returns the circles between the submodules of `parent` that aren't accepted, with their uses,
/// and marks the accepted ones as found.
fn violations<'a>(
    (name, parent): (&str, &str),
    graph: &Graph,
    allowed: &[Allowed<'a>],
    found: &mut BTreeSet<Allowed<'a>>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for circle in circles(graph) {
        let is_this =
            |allowed: &&Allowed| (allowed.0, allowed.1) == (name, parent) && circle == allowed.2;
        if let Some(allowed) = allowed.iter().find(is_this) {
            found.insert(*allowed);
        } else {
            lines.push(format!("{name} {parent}: {}", circle.join(", ")));
            lines.extend(edges(graph, &circle));
        }
    }
    lines
}

/// Returns a line for each accepted circle that no longer exists.
fn gone(allowed: &[Allowed], found: &BTreeSet<Allowed>) -> Vec<String> {
    let gone = allowed.iter().filter(|allowed| !found.contains(allowed));
    gone.map(|(name, parent, modules, _)| {
        format!("{name} {parent}: no circle between {}", modules.join(", "))
    })
    .collect()
}

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut lines = Vec::new();
    let mut found = BTreeSet::new();
    for (name, root) in sources::roots(&crate::metadata()) {
        let source = Crate::read(Path::new(&root));
        let nested = NESTED.iter().filter(|(member, _)| *member == name);
        for parent in nested.map(|(_, parent)| *parent).chain([""]) {
            let path: Vec<_> = parent.split_terminator("::").map(str::to_owned).collect();
            let graph = graph(&source, &path);
            lines.extend(violations((&name, parent), &graph, ALLOWED, &mut found));
        }
    }
    lines.extend(gone(ALLOWED, &found));
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}

/// Makes a graph of the named edges.
fn example(edges: &[(&str, &str)]) -> Graph {
    let mut graph = Graph::new();
    for (user, used) in edges {
        let used_by = graph.entry((*user).to_owned()).or_default();
        used_by.insert((*used).to_owned(), [format!("{used}::X")].into());
    }
    graph
}

#[test]
fn the_check_finds_circles_in_a_graph() {
    let graph = example(&[
        ("a", "b"),
        ("b", "c"),
        ("c", "a"),
        ("c", "leaf"),
        ("d", "e"),
        ("e", "d"),
        ("f", "a"),
    ]);
    let allowed: &[Allowed] = &[
        ("disk", "", &["d", "e"], "a reason"),
        ("disk", "", &["f", "g"], "broken long ago"),
        ("disk", "stack", &["a", "b", "c"], "of another module"),
    ];
    let mut found = BTreeSet::new();
    assert_eq!(
        violations(("disk", ""), &graph, allowed, &mut found),
        [
            "disk : a, b, c",
            "    a -> b: b::X",
            "    b -> c: c::X",
            "    c -> a: a::X"
        ]
    );
    assert_eq!(
        gone(allowed, &found),
        [
            "disk : no circle between f, g",
            "disk stack: no circle between a, b, c"
        ]
    );
}

#[test]
fn the_check_reads_paths_and_not_tests() {
    let source = Crate::parse(
        "mod lower { pub(crate) struct Low; }
         mod upper {
             pub(super) use super::lower::Low as Renamed;
             mod deep { fn f() { assert!(super::super::third::f()); } }
             #[cfg(test)] mod tests { use crate::tested::X; }
         }
         mod third { fn f() { crate::Low } }
         mod tested { use super::upper::Renamed; }
         pub use lower::Low;",
    );
    let expected = example(&[
        ("tested", "lower"),
        ("tested", "upper"),
        ("third", "lower"),
        ("upper", "lower"),
        ("upper", "third"),
    ]);
    let pairs = |graph: Graph| -> Vec<_> {
        let all = graph.into_iter();
        all.map(|(user, used)| (user, used.into_keys().collect::<Vec<_>>()))
            .collect()
    };
    assert_eq!(pairs(graph(&source, &[])), pairs(expected));
}
