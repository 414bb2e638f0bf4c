//! A folder of CSV files: one resource per file, and a template for rows and columns. The README of `examples/csv`
//! says exactly what it does.

mod csv;
mod folder;

use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, PathTemplate, Provider, Result,
    Template, export, keyset, needs, path,
};

use crate::folder::{Folder, hash};

needs! {
    "dirs": [{ "guest": "/csv", "why": "the folder of CSV files" }],
    "config": {
        "dir": { "type": "string", "default": "/csv", "why": "the folder, at its guest path" },
        "max-rows": { "type": "integer", "default": 1000, "why": "the maximum number of rows of one read" }
    }
}

const ROWS: &str = "{file}/rows{?from,to,columns}";

struct Csv {
    folder: Folder,
    max_rows: usize,
    rows: PathTemplate,
}

/// A parsed path.
enum Resource {
    File(String),
    Rows { file: String, from: usize, to: usize, columns: Option<String> },
}

impl Provider for Csv {
    fn describe() -> Info {
        Info::new("csv", env!("CARGO_PKG_VERSION"))
            .title("CSV files")
            .description("The CSV files of a folder, and rows of them.")
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self {
            folder: Folder::new(config.get("dir").unwrap_or("/csv")),
            max_rows: config.parse("max-rows")?.unwrap_or(1000),
            rows: PathTemplate::parse(ROWS)?,
        })
    }

    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        if let Some(parent) = parent {
            self.stat(parent)?;
            return Err(Failure::invalid("not a container"));
        }
        keyset::page(self.folder.names()?, cursor, limit, |name| name)?.try_map(|name| match self.folder.entry(&name) {
            // Deleted in the meantime.
            Err(Failure::NotFound) => Ok(None),
            entry => entry.map(Some),
        })
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![match self.resource(path)? {
            Resource::File(file) => Contents::bytes(self.folder.entry(&file)?, self.folder.read(&file)?),
            Resource::Rows { file, from, to, columns } => {
                let entry = Entry::new(path, format!("rows of {file}")).mime_type("text/csv").subscribable();
                Contents::text(entry, self.rows(&file, from, to, columns.as_deref())?)
            }
        }])
    }

    fn templates(&self) -> Vec<Template> {
        vec![
            Template::new(ROWS, "rows")
                .title("Rows of a CSV file")
                .description(
                    "Rows from..=to, counted from 1, and columns, separated by commas. By default all columns, and as \
                     many rows as one read returns.",
                )
                .mime_type("text/csv"),
        ]
    }

    fn complete(&self, _: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        Ok(match argument.name.as_str() {
            "file" => Completion::matching(self.folder.names()?, &argument.value),
            "columns" => match known.iter().find(|known| known.name == "file" && self.folder.has(&known.value)) {
                Some(file) => self.complete_columns(&file.value, &argument.value)?,
                None => Completion::default(),
            },
            _ => Completion::default(),
        })
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        let names = self.folder.names()?;
        let listing = hash(&names.iter().map(|name| (name, self.folder.fingerprint(name))).collect::<Vec<_>>());
        let watched: Vec<_> = watched.iter().map(|path| (path, self.fingerprint(path))).collect();
        // One line for the listing, and one for each watched path.
        let lines = watched.iter().map(|(path, state)| format!("{:x} {state:x}", hash(path)));
        let token = std::iter::once(format!("{listing:x}")).chain(lines).collect::<Vec<_>>().join("\n");

        let mut changes = Changes::none(token);
        let Some(since) = since else { return Ok(changes) };
        let then: Vec<_> = since.lines().collect();
        let now: Vec<_> = changes.token.lines().map(str::to_owned).collect();
        changes.listing_changed = then.first().copied() != now.first().map(String::as_str);
        for ((path, _), line) in watched.iter().zip(now.iter().skip(1)) {
            if !then.contains(&line.as_str()) {
                changes = changes.changed(*path);
            }
        }
        Ok(changes)
    }
}

impl Csv {
    fn resource(&self, path: &str) -> Result<Resource> {
        let Some(captures) = self.rows.matches(path) else {
            return Ok(Resource::File(path::decode_segment(path).map_err(|_| Failure::NotFound)?));
        };
        let file = captures.get("file").filter(|file| self.folder.has(file)).ok_or(Failure::NotFound)?.to_owned();
        let value = |name| captures.get(name).filter(|value| !value.is_empty());
        let number = |name| value(name).map(|text| row_number(name, text)).transpose();
        let (from, to) = (number("from")?.unwrap_or(1), number("to")?.unwrap_or(usize::MAX));
        if from > to {
            return Err(Failure::invalid(format!("`from` must not be greater than `to`, found {from} and {to}")));
        }
        Ok(Resource::Rows { file, from, to, columns: value("columns").map(str::to_owned) })
    }

    /// Returns rows of a file as CSV.
    fn rows(&self, file: &str, from: usize, to: usize, columns: Option<&str>) -> Result<String> {
        let text = self.text(file)?;
        let mut records = csv::records(&text);
        let Some(header) = records.next() else { return Ok(String::new()) };
        let selected = match columns.and_then(|columns| csv::records(columns).next()) {
            Some(columns) => columns.iter().map(|column| position(file, &header, column)).collect::<Result<_>>()?,
            None => (0..header.len()).collect::<Vec<_>>(),
        };
        let count = to.saturating_sub(from).saturating_add(1).min(self.max_rows);
        let mut result = String::new();
        for record in std::iter::once(header).chain(records.skip(from.saturating_sub(1)).take(count)) {
            csv::write(&mut result, selected.iter().map(|index| record.get(*index).map_or("", String::as_str)));
        }
        Ok(result)
    }

    fn text(&self, file: &str) -> Result<String> {
        String::from_utf8(self.folder.read(file)?).map_err(|_| Failure::internal(format!("{file} is not UTF-8")))
    }

    fn complete_columns(&self, file: &str, typed: &str) -> Result<Completion> {
        let (before, prefix) = typed.rsplit_once(',').map_or(("", typed), |(before, prefix)| (before, prefix));
        let taken = csv::records(before).next().unwrap_or_default();
        let Some(columns) = csv::records(&self.text(file)?).next() else { return Ok(Completion::default()) };
        let kept = if typed.contains(',') { format!("{before},") } else { String::new() };
        let fitting = columns.iter().filter(|column| column.starts_with(prefix) && !taken.contains(column));
        Ok(Completion::matching(fitting.map(|column| format!("{kept}{}", csv::quote(column))), ""))
    }

    /// Returns a hash of the state of the file behind a path.
    fn fingerprint(&self, path: &str) -> u64 {
        let segment = path::split_query(path).0.split('/').next().unwrap_or_default();
        path::decode_segment(segment).map_or(0, |name| self.folder.fingerprint(&name))
    }
}

fn row_number(name: &str, text: &str) -> Result<usize> {
    let is_number = text.len() <= 9 && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| Failure::invalid(format!("`{name}` must be a row number from 1 on, found \"{text}\"")))
}

fn position(file: &str, header: &[String], column: &str) -> Result<usize> {
    header.iter().position(|name| name == column).ok_or_else(|| {
        Failure::invalid(format!("no column \"{column}\" in {file}; its columns are {}", header.join(", ")))
    })
}

export!(Csv);

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(files: &[(&str, &str)]) -> (tempfile::TempDir, Csv) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let config = Config::from_pairs([("dir", folder.path().to_str().unwrap()), ("max-rows", "2")]);
        (folder, Csv::open(&config).unwrap())
    }

    #[test]
    fn rows_and_columns_of_a_file_are_read() {
        let (_folder, csv) = csv(&[("a.csv", "x,y\n1,2\n3,4\n5,6\n")]);
        let rows = csv.read("a.csv/rows?from=2&columns=y,x").unwrap();
        assert_eq!(rows[0].as_text(), Some("y,x\n4,3\n6,5\n"));
        let all = csv.read("a.csv/rows").unwrap();
        assert_eq!(all[0].as_text(), Some("x,y\n1,2\n3,4\n"), "as many as one read returns");
    }

    #[test]
    fn a_file_that_is_written_is_reported() {
        let (folder, csv) = csv(&[("a.csv", "x\n"), ("b.csv", "x\n")]);
        let watched = ["a.csv".to_owned(), "b.csv/rows".to_owned()];
        let start = csv.changes(&watched, None).unwrap();
        assert_eq!(csv.changes(&watched, Some(&start.token)).unwrap(), start);
        std::fs::write(folder.path().join("b.csv"), "x\n1\n").unwrap();
        let later = csv.changes(&watched, Some(&start.token)).unwrap();
        assert_eq!((later.changed, later.listing_changed), (vec!["b.csv/rows".to_owned()], true));
    }
}
