//! MIME types of files, guessed from their names.
//!
//! The crate `mime_guess` contains the registered types. The tables here override answers that are wrong in practice
//! (TypeScript source as video, `go.mod` too), and add file names without an extension. Source code and configuration
//! files have a type `text/*`, because clients show such types as lines: the registered type if it is `text/*`, else
//! the common one, else `text/plain`.

/// Overrides by extension, where the registered type is misleading.
const BY_EXTENSION: &[(&str, &str)] = &[
    ("ac", "text/plain"),
    ("bat", "text/plain"),
    ("c", "text/x-c"),
    ("cjs", "text/javascript"),
    ("cpp", "text/x-c++"),
    ("csh", "text/x-csh"),
    ("cts", "text/typescript"),
    ("cu", "text/x-cuda"),
    ("dart", "text/x-dart"),
    ("dot", "text/vnd.graphviz"),
    ("dts", "text/plain"),
    ("ex", "text/x-elixir"),
    ("exs", "text/x-elixir"),
    ("fsscript", "text/x-fsharp"),
    ("fsx", "text/x-fsharp"),
    ("go", "text/x-go"),
    ("h", "text/x-c"),
    ("hpp", "text/x-c++"),
    ("hs", "text/x-haskell"),
    ("inf", "text/plain"),
    ("ipynb", "application/x-ipynb+json"),
    ("java", "text/x-java"),
    ("jsx", "text/jsx"),
    ("kt", "text/x-kotlin"),
    ("lock", "text/plain"),
    ("lua", "text/x-lua"),
    ("man", "text/troff"),
    ("me", "text/troff"),
    ("mjs", "text/javascript"),
    ("mod", "text/plain"),
    ("ms", "text/troff"),
    ("mts", "text/typescript"),
    ("org", "text/org"),
    ("php", "text/x-php"),
    ("pl", "text/x-perl"),
    ("pm", "text/x-perl"),
    ("pot", "text/plain"),
    ("proto", "text/x-protobuf"),
    ("pub", "text/plain"),
    ("py", "text/x-python"),
    ("pyi", "text/x-python"),
    ("rb", "text/x-ruby"),
    ("roff", "text/troff"),
    ("sc", "text/plain"),
    ("scala", "text/x-scala"),
    ("scm", "text/x-scheme"),
    ("sh", "text/x-shellscript"),
    ("sql", "text/x-sql"),
    ("st", "text/plain"),
    ("swift", "text/x-swift"),
    ("t", "text/plain"),
    ("tcl", "text/x-tcl"),
    ("tk", "text/x-tcl"),
    ("toml", "application/toml"),
    ("tpl", "text/plain"),
    ("ts", "text/typescript"),
    ("tsx", "text/tsx"),
    ("vue", "text/x-vue"),
    ("wit", "text/x-wit"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zig", "text/x-zig"),
];

/// Types by complete file name, for names without an extension.
const BY_NAME: &[(&str, &str)] = &[
    (".editorconfig", "text/plain"),
    (".gitattributes", "text/plain"),
    (".gitignore", "text/plain"),
    (".gitmodules", "text/plain"),
    ("authors", "text/plain"),
    ("changelog", "text/plain"),
    ("codeowners", "text/plain"),
    ("copying", "text/plain"),
    ("dockerfile", "text/x-dockerfile"),
    ("license", "text/plain"),
    ("makefile", "text/x-makefile"),
    ("notice", "text/plain"),
    ("readme", "text/plain"),
];

/// Returns the MIME type for a file name, if known. Case is ignored, and so are parent directories in the name.
///
/// ```
/// use mcp_provider::mime;
///
/// assert_eq!(mime::from_name("docs/index.md"), Some("text/markdown"));
/// assert_eq!(mime::from_name("main.ts"), Some("text/typescript"));
/// assert_eq!(mime::from_name("data.unheard-of"), None);
/// ```
pub fn from_name(name: &str) -> Option<&'static str> {
    let name = name.rsplit('/').next()?.to_ascii_lowercase();
    if let Some(found) = look_up(BY_NAME, &name) {
        return Some(found);
    }
    let (stem, extension) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    look_up(BY_EXTENSION, extension).or_else(|| mime_guess::from_ext(extension).first_raw())
}

/// Returns whether content of a MIME type is text, by its type and subtype: `text/*`, and formats such as JSON and XML.
///
/// ```
/// use mcp_provider::mime;
///
/// assert!(mime::is_text("text/markdown") && mime::is_text("application/json") && mime::is_text("image/svg+xml"));
/// assert!(!mime::is_text("image/png"));
/// ```
pub fn is_text(mime_type: &str) -> bool {
    const APPLICATIONS: [&str; 13] = [
        "ecmascript",
        "javascript",
        "json",
        "sql",
        "toml",
        "x-javascript",
        "x-ndjson",
        "x-sh",
        "x-tex",
        "x-www-form-urlencoded",
        "xml",
        "x-yaml",
        "yaml",
    ];
    let (kind, subtype) = mime_type.split_once('/').unwrap_or_default();
    kind == "text"
        || kind == "application" && APPLICATIONS.contains(&subtype)
        || ["+json", "+xml", "+yaml"].iter().any(|suffix| subtype.ends_with(suffix))
}

fn look_up(table: &[(&str, &'static str)], key: &str) -> Option<&'static str> {
    let index = table.binary_search_by_key(&key, |(name, _)| name).ok()?;
    table.get(index).map(|(_, mime)| *mime)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_so_that_all_of_them_is_found() {
        for table in [BY_EXTENSION, BY_NAME] {
            assert!(table.is_sorted_by(|a, b| a.0 < b.0));
        }
    }

    #[test]
    fn the_files_that_providers_meet_most_have_the_type_that_one_expects() {
        for (name, expected) in [
            ("a.md", "text/markdown"),
            ("a.rs", "text/x-rust"),
            ("a.ts", "text/typescript"),
            ("a.tsx", "text/tsx"),
            ("a.js", "text/javascript"),
            ("a.json", "application/json"),
            ("a.toml", "application/toml"),
            ("a.yaml", "application/yaml"),
            ("a.yml", "application/yaml"),
            ("a.py", "text/x-python"),
            ("a.txt", "text/plain"),
            ("a.html", "text/html"),
            ("a.css", "text/css"),
            ("a.csv", "text/csv"),
            ("a.svg", "image/svg+xml"),
            ("a.png", "image/png"),
            ("a.pdf", "application/pdf"),
            ("a.tar.gz", "application/gzip"),
            ("Cargo.lock", "text/plain"),
            ("Makefile", "text/x-makefile"),
            ("dir/LICENSE", "text/plain"),
        ] {
            assert_eq!(from_name(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn source_code_is_text_although_its_extension_is_registered_for_something_else() {
        for (name, expected) in [
            ("a.bat", "text/plain"),
            ("a.cu", "text/x-cuda"),
            ("a.dot", "text/vnd.graphviz"),
            ("a.dts", "text/plain"),
            ("a.fsx", "text/x-fsharp"),
            ("a.ms", "text/troff"),
            ("a.org", "text/org"),
            ("a.pm", "text/x-perl"),
            ("a.scm", "text/x-scheme"),
            ("a.sql", "text/x-sql"),
            ("a.tcl", "text/x-tcl"),
            ("configure.ac", "text/plain"),
            ("go.mod", "text/plain"),
            ("id_ed25519.pub", "text/plain"),
            ("messages.pot", "text/plain"),
        ] {
            assert_eq!(from_name(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn the_case_of_a_name_does_not_matter() {
        assert_eq!(from_name("README.MD"), Some("text/markdown"));
    }

    #[test]
    fn a_hidden_file_is_not_taken_for_its_extension() {
        assert_eq!(from_name(".md"), None);
        assert_eq!(from_name(".gitignore"), Some("text/plain"));
    }

    #[test]
    fn a_name_that_says_nothing_has_no_type() {
        for name in ["", "file", "file.", "dir.md/file", "a.unheard-of"] {
            assert_eq!(from_name(name), None, "{name}");
        }
    }
}
