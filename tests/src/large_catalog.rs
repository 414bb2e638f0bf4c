//! A large catalog of real resources: 100,000 files and 200 plugins.
//!
//! | plugin | serves |
//! |---|---|
//! | `many` | the files `DIRECTORY/NUMBER.txt`, such as `199/99999.txt`, which share texts by hard links; only the directory `000` is indexed for search, and has texts of its own; one file has a zebra, and one is Markdown |
//! | `files` | `plan.md`, `other.md` and `edited.md` |
//! | `p0` to `p196` | the guest `sample` |
//! | one more | the plugin that the test adds |

use std::fs;
use std::path::PathBuf;

use toml::Table;

use crate::{ConfigFile, Folder, Plugin};

/// The number of files of `many`, and of the files in one directory.
const FILES: usize = 100_000;
const FILES_PER_DIRECTORY: usize = 500;
/// The glob of the indexed files.
const SEARCHED: &str = "files://many/000/**";
/// The file that is Markdown, to be edited: its number and its path.
const MARKDOWN: (usize, &str) = (499, "000/00499.md");
/// The content of the Markdown file, and of the files of `files`.
const BEFORE: &str = "# Before\n";
/// The number of plugins besides `many`, `files` and the test's plugin.
const SAMPLES: usize = 197;

/// Whether a file is not a link: all files of the first directory, the first of each directory, and the last of all.
/// File systems that discard the blocks of each removed file take minutes to remove 100,000 texts.
const fn has_own_text(number: usize) -> bool {
    number < FILES_PER_DIRECTORY || number.is_multiple_of(FILES_PER_DIRECTORY) || number == FILES - 1
}

/// The files; they are removed on drop.
#[derive(Debug)]
pub struct LargeCatalog {
    many: Folder,
    files: Folder,
}

impl LargeCatalog {
    /// Writes the files.
    pub fn write() -> Self {
        let many = Folder::with_files::<&str, &str>([]);
        for number in 0..FILES {
            let directory = many.path().join(format!("{:03}", number / FILES_PER_DIRECTORY));
            if number % FILES_PER_DIRECTORY == 0 {
                fs::create_dir(&directory).expect("a directory can be made");
            }
            let file = |number: usize| directory.join(format!("{number:05}.txt"));
            let written = match number {
                400 => fs::write(file(number), format!("The note {number}. A zebra.\n")),
                number if number == MARKDOWN.0 => fs::write(many.path().join(MARKDOWN.1), BEFORE),
                number if has_own_text(number) => fs::write(file(number), format!("The note {number}.\n")),
                number => fs::hard_link(file(number - number % FILES_PER_DIRECTORY), file(number)),
            };
            written.expect("a file can be written");
        }
        let files = Folder::with_files(["plan.md", "other.md", "edited.md"].map(|name| (name, BEFORE)));
        Self { many, files }
    }

    /// Returns a config with the 200 plugins, one of which is the given plugin.
    pub fn config(&self, another: Plugin) -> ConfigFile {
        let search = Table::from_iter([("include".to_owned(), vec![SEARCHED].into())]);
        let config = ConfigFile::new()
            .plugin(another)
            .plugin(Plugin::files("files", self.files.path()))
            .plugin(Plugin::files("many", self.many.path()).set("search", search));
        (0..SAMPLES).fold(config, |config, number| config.plugin(Plugin::sample(&format!("p{number}"))))
    }

    /// The file of `many` that is Markdown.
    pub fn file_of_many(&self) -> PathBuf {
        self.many.path().join(MARKDOWN.1)
    }

    /// The file `edited.md` of `files`.
    pub fn file_of_few(&self) -> PathBuf {
        self.files.path().join("edited.md")
    }
}
