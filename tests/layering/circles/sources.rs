//! The paths between the modules of a crate, read from its sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ImplItemFn, Item, ItemMod, ItemUse, Macro, Token, UseTree};

/// The path of a module in its crate, without the crate itself.
pub(super) type ModulePath = Vec<String>;

/// The modules of a library or a program.
#[derive(Default)]
pub(super) struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

/// The names in one module.
#[derive(Default)]
struct Module {
    /// The names that `use` defines, and the paths that they stand for.
    imports: BTreeMap<String, Vec<String>>,
    /// The paths to `crate`, `self` or `super`, and those of `use`, as written.
    paths: BTreeSet<Vec<String>>,
}

/// Returns the root source of each library and program of the workspace, with its package's name.
pub(super) fn roots(metadata: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("the value is a text").to_owned();
    let list = |value: &Value| value.as_array().expect("the value is a list").clone();
    let mut roots = Vec::new();
    for package in list(&metadata["packages"]) {
        for target in list(&package["targets"]) {
            if target["kind"][0] == "lib" || target["kind"][0] == "bin" {
                roots.push((text(&package["name"]), text(&target["src_path"])));
            }
        }
    }
    roots
}

impl Crate {
    /// Reads the sources of a crate, from its root source on.
    pub(super) fn read(root: &Path) -> Self {
        let mut all = Self::default();
        let parent = root.parent().expect("a source in a folder");
        all.add(Vec::new(), parent, &parsed(root).items);
        all
    }

    /// Parses a crate that has no further files.
    pub(super) fn parse(text: &str) -> Self {
        let mut all = Self::default();
        let file = syn::parse_file(text).expect("Rust");
        all.add(Vec::new(), Path::new(""), &file.items);
        all
    }

    /// Adds a module whose submodules have their files in `folder`.
    fn add(&mut self, path: ModulePath, folder: &Path, items: &[Item]) {
        let mut reader = Reader::default();
        for item in items {
            reader.visit_item(item);
        }
        for inner in reader.modules {
            let name = inner.ident.to_string();
            let path = [&path[..], std::slice::from_ref(&name)].concat();
            let folder = folder.join(name);
            if let Some((_, items)) = &inner.content {
                self.add(path, &folder, items);
            } else {
                let file = folder.with_extension("rs");
                self.add(path, &folder, &parsed(&file).items);
            }
        }
        self.modules.insert(path, reader.module);
    }

    /// Returns the uses of modules by each other: the user, the used module, and the path.
    pub(super) fn uses(&self) -> Vec<(&[String], ModulePath, String)> {
        let mut uses = Vec::new();
        for (user, module) in &self.modules {
            for path in &module.paths {
                let used = self.named_modules(user, path).into_iter();
                uses.extend(used.map(|used| (&user[..], used, path.join("::"))));
            }
        }
        uses
    }

    /// Returns the modules that a path in `module` leads to: those whose imports it uses, and the
    /// one that has the item.
    fn named_modules(&self, module: &[String], path: &[String]) -> Vec<ModulePath> {
        let mut found = Vec::new();
        let mut at = module.to_vec();
        let mut open: Vec<_> = path.iter().rev().cloned().collect();
        // Imports can name each other in a circle, so the number of steps is bounded.
        for _ in 0..100 {
            let Some(name) = open.pop() else { break };
            let inner = [&at[..], std::slice::from_ref(&name)].concat();
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => {
                    at.pop();
                }
                _ if self.modules.contains_key(&inner) => at = inner,
                _ => match self.modules[&at].imports.get(&name) {
                    // The target of an import is not that import again.
                    Some(import) if *import != [name] => {
                        found.push(at.clone());
                        open.extend(import.iter().rev().cloned());
                    }
                    _ => break,
                },
            }
        }
        found.push(at);
        found
    }
}

/// Collects the paths of one module; its submodules are set aside.
#[derive(Default)]
struct Reader<'ast> {
    module: Module,
    modules: Vec<&'ast ItemMod>,
}

impl Reader<'_> {
    /// Adds the names and the paths of a `use`, below `prefix`.
    fn import(&mut self, prefix: &[String], tree: &UseTree) {
        let below = |name: String| [prefix, &[name]].concat();
        let (name, path) = match tree {
            UseTree::Path(path) => return self.import(&below(path.ident.to_string()), &path.tree),
            UseTree::Group(group) => {
                return group
                    .items
                    .iter()
                    .for_each(|tree| self.import(prefix, tree));
            }
            // The names that a glob imports aren't known here; its module is.
            UseTree::Glob(_) => (None, prefix.to_vec()),
            UseTree::Name(name) if name.ident == "self" => {
                (prefix.last().cloned(), prefix.to_vec())
            }
            UseTree::Name(name) => (Some(name.ident.to_string()), below(name.ident.to_string())),
            UseTree::Rename(name) => (Some(name.rename.to_string()), below(name.ident.to_string())),
        };
        if let Some(name) = name {
            self.module.imports.insert(name, path.clone());
        }
        self.module.paths.insert(path);
    }
}

impl<'ast> Visit<'ast> for Reader<'ast> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.modules.push(module);
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.import(&[], &item.tree);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !function.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        // Other paths begin with an import, which is already counted, or with a submodule.
        if matches!(names[0].as_str(), "crate" | "super") {
            self.module.paths.insert(names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated;
        if let Ok(arguments) = invocation.parse_body_with(arguments) {
            arguments.iter().for_each(|expression| {
                // The visitor requires nodes that outlive it, but the arguments are parsed only for
                // this call.
                let mut inner = Reader::default();
                inner.visit_expr(expression);
                self.module.paths.extend(inner.module.paths);
            });
        }
    }

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}
}

fn parsed(file: &Path) -> syn::File {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the attributes of the kinds of items that tests define.
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns true for `#[cfg(test)]`.
fn is_for_tests(attribute: &Attribute) -> bool {
    let only = attribute.parse_args::<syn::Ident>();
    attribute.path().is_ident("cfg") && only.is_ok_and(|only| only == "test")
}
