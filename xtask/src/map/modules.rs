//! The modules of the host's crates, and which file uses which.
//!
//! An arrow is a path in production code that begins with `crate`, `self`, `super` or the name of another crate of `host/`,
//! resolved to the file that declares the item: re-exports (`pub use`) are followed, and are no arrows themselves. Neither is
//! what a module and the modules inside of it use of each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::Visit;

use super::lines::{self, Lines};
use crate::cargo;
use crate::workspace::Workspace;

/// The number of re-exports that are followed for one path.
const MAX_REEXPORTS: usize = 8;

/// A source file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Its path below the repository.
    pub(crate) path: String,
    /// The crate, or the top-level module of a crate with many, that it is in.
    pub(crate) room: String,
    pub(crate) lines: Lines,
    /// The number of `cfg`s that name a feature, in attributes and in `cfg!`.
    pub(crate) feature_cfgs: usize,
    /// The other files that its production code uses, and the number of sites.
    pub(crate) uses: BTreeMap<String, usize>,
}

/// All source files of the crates in `host/`.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) crates: BTreeSet<String>,
    pub(crate) files: Vec<SourceFile>,
}

impl Sources {
    /// Reads and parses them.
    ///
    /// # Errors
    ///
    /// `cargo metadata` fails, or a file cannot be read or parsed.
    pub(crate) fn read(workspace: &Workspace) -> Result<Self> {
        let metadata = cargo::metadata(workspace.cargo(workspace.root()))?;
        let mut modules = Modules::default();
        for package in &metadata.packages {
            let folder = package.manifest_path.parent().map(|path| path.as_std_path().to_owned()).unwrap_or_default();
            if folder.starts_with(workspace.root().join("host")) {
                modules.add_crate(&package.name.replace('-', "_"), &folder.join("src"))?;
            }
        }
        modules.into_sources(workspace)
    }

    /// Returns the names of the rooms.
    pub(crate) fn rooms(&self) -> BTreeSet<&str> {
        self.files.iter().map(|file| file.room.as_str()).collect()
    }

    /// Returns which room uses which, with the number of sites.
    pub(crate) fn room_arrows(&self) -> BTreeMap<(String, String), usize> {
        let rooms: BTreeMap<&str, &str> =
            self.files.iter().map(|file| (file.path.as_str(), file.room.as_str())).collect();
        let mut arrows = BTreeMap::new();
        for file in &self.files {
            for (used, sites) in &file.uses {
                if let Some(room) = rooms.get(used.as_str()).filter(|room| **room != file.room) {
                    *arrows.entry((file.room.clone(), (*room).to_owned())).or_insert(0) += sites;
                }
            }
        }
        arrows
    }
}

/// A module that is a file. Its name begins with its crate's.
struct Module {
    file: PathBuf,
    syntax: syn::File,
    text: String,
    is_test: bool,
    /// The paths that names of this module are re-exported from.
    reexports: BTreeMap<String, Vec<String>>,
}

#[derive(Default)]
struct Modules {
    crates: BTreeSet<String>,
    modules: BTreeMap<Vec<String>, Module>,
}

impl Modules {
    fn add_crate(&mut self, name: &str, src: &Path) -> Result<()> {
        self.crates.insert(name.to_owned());
        for root in ["lib", "main"] {
            let file = src.join(format!("{root}.rs"));
            if file.is_file() {
                // A program beside a library is one of its rooms.
                let module = if root == "main" && src.join("lib.rs").is_file() {
                    vec![name.to_owned(), "main".to_owned()]
                } else {
                    vec![name.to_owned()]
                };
                self.add_module(module, &file, src, false)?;
            }
        }
        Ok(())
    }

    /// Adds the module in `file`, and the modules that it declares, whose files are in `folder`.
    fn add_module(&mut self, name: Vec<String>, file: &Path, folder: &Path, is_test: bool) -> Result<()> {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let syntax = syn::parse_file(&text).with_context(|| format!("cannot parse {}", file.display()))?;
        let mut children = Vec::new();
        for item in &syntax.items {
            if let syn::Item::Mod(declared) = item
                && declared.content.is_none()
            {
                let is_test = is_test || lines::is_test_only(&declared.attrs);
                children.push((declared.ident.to_string(), path_attribute(&declared.attrs), is_test));
            }
        }
        let reexports = reexports(&name, &syntax);
        self.modules.insert(name.clone(), Module { file: file.to_owned(), syntax, text, is_test, reexports });
        for (child, path, is_test) in children {
            let beside = file.parent().unwrap_or(folder);
            let candidates = [
                path.map(|path| beside.join(path)).unwrap_or_default(),
                folder.join(format!("{child}.rs")),
                folder.join(&child).join("mod.rs"),
            ];
            // A module for another system may have no file of this name.
            let Some(found) = candidates.into_iter().find(|file| file.is_file()) else { continue };
            let name = [name.clone(), vec![child.clone()]].concat();
            self.add_module(name, &found, &folder.join(&child), is_test)?;
        }
        Ok(())
    }

    fn into_sources(self, workspace: &Workspace) -> Result<Sources> {
        let display = |file: &Path| workspace.display(file).to_string();
        let mut files = Vec::new();
        for (name, module) in &self.modules {
            let mut found = Paths { modules: &self, module: name.clone(), uses: BTreeMap::new() };
            if !module.is_test {
                found.visit_file(&module.syntax);
            }
            let uses = found.uses.into_iter().filter_map(|(used, sites)| Some((self.modules.get(&used)?, sites)));
            let uses = uses.filter(|(used, _)| used.file != module.file && !used.is_test);
            let context = || format!("cannot parse {}", module.file.display());
            files.push(SourceFile {
                path: display(&module.file),
                room: self.room(name),
                lines: lines::count(&module.text, module.is_test).with_context(context)?,
                feature_cfgs: feature_cfgs(&module.text),
                uses: uses.map(|(used, sites)| (display(&used.file), sites)).collect(),
            });
        }
        Ok(Sources { crates: self.crates, files })
    }

    /// A crate alone has its top-level modules as rooms, crates beside others are rooms.
    fn room(&self, module: &[String]) -> String {
        let name = if self.crates.len() > 1 { module.first() } else { module.get(1).or(module.first()) };
        name.cloned().unwrap_or_default()
    }

    /// Returns the module with the item that an absolute path names.
    fn resolve(&self, path: &[String]) -> Option<Vec<String>> {
        let mut path = path.to_vec();
        for _ in 0..MAX_REEXPORTS {
            let length =
                (1..=path.len()).rev().find(|length| self.modules.contains_key(path.get(..*length).unwrap_or(&[])))?;
            let (module, rest) = path.split_at(length);
            let target = rest.first().and_then(|name| self.modules.get(module)?.reexports.get(name));
            match target {
                Some(target) => path = [target.as_slice(), rest.get(1..).unwrap_or(&[])].concat(),
                None => return Some(module.to_vec()),
            }
        }
        None
    }

    /// Makes a path in `module` absolute. Paths into other packages have none.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let base = match first.as_str() {
            "crate" => module.first().cloned().into_iter().collect(),
            "self" => module.to_vec(),
            "super" => {
                let ups = path.iter().take_while(|segment| *segment == "super").count();
                let base = module.get(..module.len().checked_sub(ups)?)?;
                return Some([base, path.get(ups..)?].concat());
            }
            name if self.crates.contains(name) => vec![name.to_owned()],
            // A module that this one declares.
            name => {
                let child = [module, &[name.to_owned()]].concat();
                self.modules.contains_key(&child).then_some(child)?
            }
        };
        Some([base.as_slice(), rest].concat())
    }
}

/// Collects the modules that the production code of one module uses.
struct Paths<'a> {
    modules: &'a Modules,
    module: Vec<String>,
    uses: BTreeMap<Vec<String>, usize>,
}

impl Paths<'_> {
    fn add(&mut self, path: &[String]) {
        let used = self.modules.absolute(&self.module, path).and_then(|path| self.modules.resolve(&path));
        let is_of_one_tree = |used: &Vec<String>| used.starts_with(&self.module) || self.module.starts_with(used);
        if let Some(used) = used.filter(|used| !is_of_one_tree(used)) {
            *self.uses.entry(used).or_insert(0) += 1;
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !lines::is_test_only(lines::attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if matches!(item.vis, syn::Visibility::Inherited) {
            for (path, _) in flatten(&item.tree) {
                self.add(&path);
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let path: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.add(&path);
        }
        syn::visit::visit_path(self, path);
    }
}

/// Returns the names that a module re-exports, and the absolute paths that they stand for.
fn reexports(module: &[String], syntax: &syn::File) -> BTreeMap<String, Vec<String>> {
    let mut names = BTreeMap::new();
    for item in &syntax.items {
        let syn::Item::Use(item) = item else { continue };
        if matches!(item.vis, syn::Visibility::Inherited) {
            continue;
        }
        for (path, name) in flatten(&item.tree) {
            let absolute = match path.split_first() {
                Some((first, rest)) if first == "crate" => [module.get(..1).unwrap_or(&[]), rest].concat(),
                Some((first, rest)) if first == "self" => [module, rest].concat(),
                Some((first, rest)) if first == "super" => {
                    [module.get(..module.len().saturating_sub(1)).unwrap_or(&[]), rest].concat()
                }
                _ => [module, path.as_slice()].concat(),
            };
            names.insert(name, absolute);
        }
    }
    names
}

/// Returns the paths of a `use`, each with the name that it introduces.
fn flatten(tree: &syn::UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        syn::UseTree::Path(path) => flatten(&path.tree)
            .into_iter()
            .map(|(rest, name)| ([vec![path.ident.to_string()], rest].concat(), name))
            .collect(),
        syn::UseTree::Name(name) if name.ident == "self" => vec![(Vec::new(), String::new())],
        syn::UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        syn::UseTree::Rename(rename) => vec![(vec![rename.ident.to_string()], rename.rename.to_string())],
        syn::UseTree::Glob(_) => vec![(Vec::new(), "*".to_owned())],
        syn::UseTree::Group(group) => group.items.iter().flat_map(flatten).collect(),
    }
}

/// Returns the value of `#[path = "…"]`.
fn path_attribute(attributes: &[syn::Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
        _ => None,
    }
}

/// Counts the `cfg`s that name a feature: lines with `cfg` and `feature =`, as rustfmt writes them.
fn feature_cfgs(text: &str) -> usize {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    lines.filter(|line| line.contains("cfg") && line.contains("feature = ")).count()
}
