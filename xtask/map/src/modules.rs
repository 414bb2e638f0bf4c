//! The modules of the host's crates, and the dependencies between their files.
//!
//! An arrow is a path in production code that begins with `crate`, `self`, `super` or the name of another crate of
//! `host/`. It is resolved to the file that declares the item. Re-exports (`pub use`) are followed and are not arrows
//! themselves. Uses between a module and the modules inside of it are not arrows either. Paths in the arguments of
//! macros are not detected.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use syn::visit::Visit;

use crate::lines::{self, Lines};

/// The maximum number of re-exports that are followed for one path.
const MAX_REEXPORTS: usize = 8;

/// A source file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// The path below the root of the repository.
    pub(crate) path: String,
    /// The folder of the file's crate.
    pub(crate) krate: String,
    /// The top-level module of the file, after the folder of its crate.
    pub(crate) module: String,
    pub(crate) lines: Lines,
    /// The number of `cfg`s that name a feature, in attributes and in `cfg!`.
    pub(crate) feature_cfgs: usize,
    /// The other files that the production code of the file uses, with the number of sites.
    pub(crate) uses: BTreeMap<String, usize>,
}

/// All source files of the crates in `host/`.
#[derive(Debug)]
pub(crate) struct Sources {
    /// The number of crates.
    pub(crate) crates: usize,
    pub(crate) files: Vec<SourceFile>,
}

impl Sources {
    /// Reads and parses the crates in `host/`.
    ///
    /// # Errors
    ///
    /// When there is no crate, or a file cannot be read or parsed.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let host = root.join("host");
        let entries = fs::read_dir(&host).with_context(|| format!("cannot read {}", host.display()))?;
        let inside = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut modules = Modules::default();
        for folder in inside {
            let manifest = folder.join("Cargo.toml");
            if folder.join("src").is_dir() && manifest.is_file() {
                modules.add_crate(&package_name(&manifest)?, &folder)?;
            }
        }
        ensure!(!modules.crates.is_empty(), "there is no crate in {}", host.display());
        modules.into_sources(root)
    }

    /// Returns the dependencies between groups of files, with the number of sites.
    pub(crate) fn arrows(&self, group: fn(&SourceFile) -> &str) -> BTreeMap<(&str, &str), usize> {
        let groups: BTreeMap<&str, &str> = self.files.iter().map(|file| (file.path.as_str(), group(file))).collect();
        let mut arrows = BTreeMap::new();
        for file in &self.files {
            for (used, sites) in &file.uses {
                if let Some(used) = groups.get(used.as_str()).filter(|used| **used != group(file)) {
                    *arrows.entry((group(file), *used)).or_insert(0) += sites;
                }
            }
        }
        arrows
    }
}

/// Returns the name of a package as it appears in paths.
fn package_name(manifest: &Path) -> Result<String> {
    let text = fs::read_to_string(manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let table: toml::Table = text.parse().with_context(|| format!("cannot parse {}", manifest.display()))?;
    let name = table.get("package").and_then(|package| package.get("name")?.as_str());
    Ok(name.with_context(|| format!("{} has no name of a package", manifest.display()))?.replace('-', "_"))
}

/// A module in a separate file. Its name begins with the name of its crate.
struct Module {
    file: PathBuf,
    syntax: syn::File,
    text: String,
    is_test: bool,
    /// The re-exported names of this module, each with its unresolved path.
    reexports: BTreeMap<String, Vec<String>>,
}

#[derive(Default)]
struct Modules {
    /// The folder of each crate, by the name of its package.
    crates: BTreeMap<String, PathBuf>,
    modules: BTreeMap<Vec<String>, Module>,
}

impl Modules {
    fn add_crate(&mut self, name: &str, folder: &Path) -> Result<()> {
        let src = &folder.join("src");
        self.crates.insert(name.to_owned(), folder.to_owned());
        for root in ["lib", "main"] {
            let file = src.join(format!("{root}.rs"));
            if file.is_file() {
                // In a package that also has a library, the program is a module.
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

    /// Adds the module in `file` and the modules that it declares, whose files are in `folder`.
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
        let reexports = reexports(&syntax);
        self.modules.insert(name.clone(), Module { file: file.to_owned(), syntax, text, is_test, reexports });
        for (child, path, is_test) in children {
            let beside = file.parent().unwrap_or(folder);
            let candidates = [
                path.map(|path| beside.join(path)).unwrap_or_default(),
                folder.join(format!("{child}.rs")),
                folder.join(&child).join("mod.rs"),
            ];
            // A module for another operating system may have no file with this name.
            let Some(found) = candidates.into_iter().find(|file| file.is_file()) else { continue };
            let name = [name.clone(), vec![child.clone()]].concat();
            self.add_module(name, &found, &folder.join(&child), is_test)?;
        }
        Ok(())
    }

    fn into_sources(self, root: &Path) -> Result<Sources> {
        let display = |file: &Path| file.strip_prefix(root).unwrap_or(file).display().to_string();
        let mut files = Vec::new();
        for (name, module) in &self.modules {
            let mut found = Paths { modules: &self, module: name.clone(), uses: BTreeMap::new() };
            if !module.is_test {
                found.visit_file(&module.syntax);
            }
            let uses = found.uses.into_iter().filter_map(|(used, sites)| Some((self.modules.get(&used)?, sites)));
            let uses = uses.filter(|(used, _)| used.file != module.file && !used.is_test);
            let context = || format!("cannot parse {}", module.file.display());
            let (krate, top_module) = self.groups(name);
            files.push(SourceFile {
                path: display(&module.file),
                krate,
                module: top_module,
                lines: lines::count(&module.text, module.is_test).with_context(context)?,
                feature_cfgs: lines::feature_cfgs(module.text.parse().map_err(syn::Error::from).with_context(context)?),
                uses: uses.map(|(used, sites)| (display(&used.file), sites)).collect(),
            });
        }
        Ok(Sources { crates: self.crates.len(), files })
    }

    /// Returns the folder of a module's crate, and the name of the module's top-level module.
    fn groups(&self, module: &[String]) -> (String, String) {
        let folder = module.first().and_then(|name| self.crates.get(name)?.file_name());
        let krate = folder.unwrap_or_default().to_string_lossy().into_owned();
        let module = module.get(1).map_or_else(|| krate.clone(), |name| format!("{krate}::{name}"));
        (krate, module)
    }

    /// Returns the module that declares the item at an absolute path.
    fn resolve(&self, path: &[String]) -> Option<Vec<String>> {
        let mut path = path.to_vec();
        for _ in 0..MAX_REEXPORTS {
            let length =
                (1..=path.len()).rev().find(|length| self.modules.contains_key(path.get(..*length).unwrap_or(&[])))?;
            let (module, rest) = path.split_at(length);
            let reexported = rest.first().and_then(|name| self.modules.get(module)?.reexports.get(name));
            match reexported.and_then(|target| self.absolute(module, target)) {
                Some(target) => path = [target.as_slice(), rest.get(1..).unwrap_or(&[])].concat(),
                None => return Some(module.to_vec()),
            }
        }
        None
    }

    /// Makes a path in `module` absolute. Returns `None` for a path into another package.
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
            name if self.crates.contains_key(name) => vec![name.to_owned()],
            // A child module of this module.
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

/// Returns the names that a module re-exports, with their paths.
fn reexports(syntax: &syn::File) -> BTreeMap<String, Vec<String>> {
    let mut names = BTreeMap::new();
    for item in &syntax.items {
        if let syn::Item::Use(item) = item
            && !matches!(item.vis, syn::Visibility::Inherited)
        {
            names.extend(flatten(&item.tree).into_iter().map(|(path, name)| (name, path)));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sources of a repository with these files.
    fn sources(files: &[(&str, &str)]) -> Sources {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Sources::read(root.path()).unwrap()
    }

    #[test]
    fn a_crate_is_divided_into_its_modules() {
        let sources = sources(&[
            ("host/core/Cargo.toml", "package.name = 'mcp-resource-host'"),
            ("host/core/src/lib.rs", "mod a;\nmod b;\npub use a::A;\n"),
            ("host/core/src/main.rs", "use mcp_resource_host::A;\n"),
            ("host/core/src/a.rs", "use super::b;\npub struct A;\n#[cfg(test)]\nmod tests;\n"),
            ("host/core/src/a/tests.rs", "use crate::a::A;\n"),
            ("host/core/src/b.rs", "fn f() -> crate::A {}\nmod inner;\n"),
            ("host/core/src/b/inner.rs", "use crate::b::f;\n"),
        ]);
        let arrows = sources.arrows(|file| &file.module);
        let [a, b, main] = ["core::a", "core::b", "core::main"];
        assert_eq!(arrows.into_iter().collect::<Vec<_>>(), [((a, b), 1), ((b, a), 1), ((main, a), 1)]);
        let tests = sources.files.iter().find(|file| file.path == "host/core/src/a/tests.rs").unwrap();
        assert_eq!((tests.lines.test, tests.lines.production, tests.module.as_str()), (1, 0, a));
    }

    #[test]
    fn crates_have_the_names_of_their_folders_and_reexports_lead_into_other_crates() {
        let sources = sources(&[
            ("host/core/Cargo.toml", "package.name = 'mcp-resource-host'"),
            ("host/core/src/lib.rs", "pub use mcp_host_config as config;\npub use serde;\nmod catalog;\n"),
            ("host/core/src/catalog.rs", "use crate::config::Size;\n"),
            ("host/config/Cargo.toml", "package.name = 'mcp-host-config'"),
            ("host/config/src/lib.rs", "mod size;\npub use size::Size;\n"),
            ("host/config/src/size.rs", "pub struct Size;\n"),
            ("host/server/tests/it/main.rs", "use mcp_resource_host::config;\n"),
        ]);
        assert_eq!((sources.crates, sources.files.len()), (2, 4));
        let arrows = |group| sources.arrows(group).into_iter().collect::<Vec<_>>();
        assert_eq!(arrows(|file| &file.krate), [(("core", "config"), 1)]);
        assert_eq!(arrows(|file| &file.module), [(("core::catalog", "config::size"), 1)]);
    }
}
