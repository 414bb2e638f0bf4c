//! The files of a folder: one resource per file, and a template for the first lines of each.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::slice;

use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, PathTemplate,
    Provider, Result, Template, export, keyset, mime, needs, path,
};

// What it would like to be granted: `mcp-host inspect` shows it.
needs! {
    "dirs": [{ "guest": "/data", "why": "the files" }],
    "config": {
        "dir": { "type": "string", "default": "/data", "why": "the folder, at its guest path" },
        "lines": { "type": "integer", "default": 10, "why": "the number of lines of `first/FILE`" }
    }
}

const FIRST_LINES: &str = "first/{file}";

struct Files {
    folder: PathBuf,
    lines: usize,
    first_lines: PathTemplate,
}

impl Provider for Files {
    fn describe() -> Info {
        Info::new("{{name}}", env!("CARGO_PKG_VERSION"))
            .description("The files of a folder.")
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self {
            folder: config.get("dir").unwrap_or("/data").into(),
            lines: config.parse("lines")?.unwrap_or(10),
            first_lines: PathTemplate::parse(FIRST_LINES)?,
        })
    }

    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        if let Some(parent) = parent {
            self.stat(parent)?;
            return Err(Failure::invalid("a file has no children"));
        }
        keyset::page(self.names()?, cursor, limit, |name| name)?.try_map(|name| {
            match self.entry(&name) {
                // Deleted in the meantime.
                Err(Failure::NotFound) => Ok(None),
                entry => entry.map(Some),
            }
        })
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let Some(captures) = self.first_lines.matches(path) else {
            let name = path::decode_segment(path).map_err(|_| Failure::NotFound)?;
            return Ok(vec![Contents::bytes(
                self.entry(&name)?,
                fs::read(self.folder.join(&name))?,
            )]);
        };
        let name = captures.get("file").ok_or(Failure::NotFound)?;
        self.entry(name)?;
        let bytes = fs::read(self.folder.join(name))?;
        let text = str::from_utf8(&bytes)
            .map_err(|_| Failure::invalid(format!("a text file; {name} is not UTF-8")))?;
        let lines: String = text.split_inclusive('\n').take(self.lines).collect();
        let entry = Entry::new(path, format!("first lines of {name}"))
            .mime_type("text/plain")
            .subscribable();
        Ok(vec![Contents::text(entry, lines)])
    }

    fn templates(&self) -> Vec<Template> {
        vec![
            Template::new(FIRST_LINES, "first-lines")
                .title("First lines of a file")
                .mime_type("text/plain"),
        ]
    }

    fn complete(&self, _: &str, argument: &Argument, _: &[Argument]) -> Result<Completion> {
        Ok(Completion::matching(self.names()?, &argument.value))
    }

    /// The token has one line for the listing, and one for each watched path.
    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        let files: Vec<_> = self
            .names()?
            .into_iter()
            .map(|name| (self.state(&name), name))
            .collect();
        let listing = format!("{:x}", hash(&files));
        let lines: Vec<_> = watched
            .iter()
            .map(|path| format!("{:x} {:x}", hash(path), self.state_of_path(path)))
            .collect();
        let mut changes = Changes::none([slice::from_ref(&listing), &lines].concat().join("\n"));
        let Some(since) = since else {
            return Ok(changes);
        };
        let has = |line: &String| since.lines().any(|then| then == line);
        changes.listing_changed = !has(&listing);
        for (path, line) in watched.iter().zip(&lines) {
            if !has(line) {
                changes = changes.changed(path);
            }
        }
        Ok(changes)
    }
}

impl Files {
    /// Returns the names of the files; hidden ones are left out.
    fn names(&self) -> Result<Vec<String>> {
        let fault = |error| {
            let folder = self.folder.display();
            Failure::internal(format!(
                "cannot read the folder {folder}: {error}; does `grants.dirs` grant it?"
            ))
        };
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(fault)? {
            let Ok(name) = entry.map_err(fault)?.file_name().into_string() else {
                continue;
            };
            if self.find(&name).is_some() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Returns the metadata of a file, if there is one of that name.
    fn find(&self, name: &str) -> Option<fs::Metadata> {
        let is_name = !name.starts_with('.') && !name.contains('/');
        fs::metadata(self.folder.join(name))
            .ok()
            .filter(|found| is_name && found.is_file())
    }

    fn entry(&self, name: &str) -> Result<Entry> {
        let Some(found) = self.find(name) else {
            // A folder that is not there is a fault of the config, which no client can help.
            return self.names().and(Err(Failure::NotFound));
        };
        let entry = Entry::new(path::encode_segment(name), name)
            .size(found.len())
            .subscribable();
        Ok(match mime::from_name(name) {
            Some(kind) => entry.mime_type(kind),
            None => entry,
        })
    }

    /// Returns what changes when a file does.
    fn state(&self, name: &str) -> u64 {
        hash(
            &self
                .find(name)
                .map(|found| (found.len(), found.modified().ok())),
        )
    }

    fn state_of_path(&self, path: &str) -> u64 {
        let segment = path.strip_prefix("first/").unwrap_or(path);
        path::decode_segment(segment).map_or(0, |name| self.state(&name))
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

export!(Files);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_read_and_watched() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write("a.md", b"one\ntwo\nthree\n");
        write("b.bin", b"\xff\x00");
        let config = [("dir", folder.path().to_str().unwrap()), ("lines", "2")];
        let files = Files::open(&Config::from_pairs(config)).unwrap();

        let page = files.list(None, None, 10).unwrap();
        assert_eq!(
            page.entries
                .iter()
                .map(|entry| entry.name.as_str())
                .collect::<Vec<_>>(),
            ["a.md", "b.bin"]
        );
        assert_eq!(files.read("b.bin").unwrap()[0].as_bytes(), b"\xff\x00");
        assert_eq!(
            files.read("first/a.md").unwrap()[0].as_text(),
            Some("one\ntwo\n")
        );
        assert_eq!(files.read("c.md"), Err(Failure::NotFound));

        let missing = folder.path().join("missing");
        let config = [("dir", missing.to_str().unwrap())];
        let not_granted = Files::open(&Config::from_pairs(config)).unwrap();
        for path in ["a.md", "first/a.md"] {
            let failure = not_granted.read(path).unwrap_err();
            assert!(
                matches!(&failure, Failure::Internal(text) if text.contains("grants.dirs")),
                "{failure}"
            );
        }

        let completed = files
            .complete(FIRST_LINES, &Argument::new("file", "a"), &[])
            .unwrap();
        assert_eq!(completed.values, ["a.md"]);

        let watched = ["first/a.md".to_owned(), "b.bin".to_owned()];
        let start = files.changes(&watched, None).unwrap();
        assert_eq!(files.changes(&watched, Some(&start.token)).unwrap(), start);
        write("a.md", b"changed\n");
        let later = files.changes(&watched, Some(&start.token)).unwrap();
        assert_eq!(
            (later.changed, later.listing_changed),
            (vec!["first/a.md".to_owned()], true)
        );
    }
}
