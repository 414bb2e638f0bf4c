use std::fs;
use std::path::{Path, PathBuf};

use super::{Args, Content, Functions, Item, Memo, Resource, files};
use crate::{Argument, Config, Contents, Entry, Failure, Info, Provider, Result};

struct Folder {
    dir: PathBuf,
}

impl Functions for Folder {
    fn info() -> Info {
        Info::new("folder", "1.0.0")
    }

    fn new(config: &Config) -> Result<Self> {
        Ok(Self { dir: config.get("dir").unwrap_or("/not-granted/data").into() })
    }

    fn resources() -> Vec<Resource<Self>> {
        vec![
            Resource::new("{name}", Self::file).list(|folder| files(&folder.dir)),
            Resource::new("size/{name}", |folder: &Self, of| {
                let bytes = fs::read(folder.file(of)?)?;
                Content::json(&serde_json::json!({ "bytes": bytes.len() }))
            }),
        ]
    }
}

impl Folder {
    fn file(&self, of: &Args) -> Result<PathBuf> {
        of.file_in("name", &self.dir)
    }
}

fn folder(dir: &Path) -> Folder {
    Folder::open(&Config::from_pairs([("dir", dir.to_str().unwrap())])).unwrap()
}

/// The paths of all pages, each by another instance.
fn paths<F: Functions>(open: impl Fn() -> F, limit: usize) -> Vec<String> {
    let (mut paths, mut cursor) = (Vec::new(), None);
    loop {
        let page = open().list(None, cursor.as_deref(), limit).unwrap();
        paths.extend(page.entries.into_iter().map(|entry| entry.path));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return paths;
        }
    }
}

fn completed<F: Functions>(provider: &F, template: &str, name: &str, typed: &str, known: &[Argument]) -> Vec<String> {
    provider.complete(template, &Argument::new(name, typed), known).unwrap().values
}

#[test]
fn a_folder_has_pages_contents_completion_and_changes() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    for (name, text) in [("b.md", "b"), ("a list.txt", "a"), (".hidden", "")] {
        write(name, text.as_bytes());
    }
    write("c.png", b"\xff");
    fs::create_dir(dir.path().join("d")).unwrap();
    for limit in [1, 2, 10] {
        assert_eq!(paths(|| folder(dir.path()), limit), ["a%20list.txt", "b.md", "c.png"], "{limit}");
    }
    let made = folder(dir.path());
    let read = &made.read("b.md").unwrap()[0];
    assert_eq!((read.as_text(), read.entry.name.as_str()), (Some("b"), "b.md"));
    assert_eq!(read.entry.mime_type.as_deref(), Some("text/markdown"));
    assert_eq!(made.read("c.png").unwrap()[0].as_bytes(), b"\xff");
    assert_eq!(made.read("size/b.md").unwrap()[0].as_text(), Some("{\n  \"bytes\": 1\n}"));
    for path in ["d", "e", ".hidden", "..", "..%2Fb.md", "size/e", "x/y/z"] {
        assert_eq!(made.read(path), Err(Failure::NotFound), "{path}");
    }
    let entry = made.stat("b.md").unwrap();
    assert_eq!((entry.size, entry.subscribable, entry.last_modified.is_some()), (Some(1), true, true));
    assert!(matches!(made.list(Some("b.md"), None, 1), Err(Failure::InvalidRequest(_))));
    for template in ["{name}", "size/{name}"] {
        assert_eq!(completed(&made, template, "name", "b", &[]), ["b.md"]);
    }

    let watched = ["b.md", "size/b.md", "new", "a%20list.txt"].map(str::to_owned);
    let start = made.changes(&watched, None).unwrap();
    assert_eq!(folder(dir.path()).changes(&watched, Some(&start.token)).unwrap(), start);
    write("b.md", b"bb");
    write("new", b"");
    let later = folder(dir.path()).changes(&watched, Some(&start.token)).unwrap();
    assert_eq!((later.changed.as_slice(), later.listing_changed), (&watched[..3], true));

    let gone = Folder::open(&Config::default()).unwrap();
    for failure in [gone.read("a").err(), gone.list(None, None, 1).err()] {
        assert!(matches!(failure, Some(Failure::Internal(text)) if text.contains("grants.dirs")));
    }
}

struct Typed;

impl Functions for Typed {
    fn info() -> Info {
        Info::new("typed", "1.0.0")
    }

    fn new(_: &Config) -> Result<Self> {
        Ok(Self)
    }

    fn resources() -> Vec<Resource<Self>> {
        let typed = Resource::new("typed/{number}{?ratio,flag,level,q}", |_: &Self, of: &Args| {
            let number: i64 = of.parse("number")?.ok_or(Failure::NotFound)?;
            let (ratio, flag) = (of.or("ratio", 0.5)?, of.or("flag", false)?);
            let level = if of.get("level").is_some() { of.text("level")? } else { "low" };
            Ok(format!("{number} {ratio} {flag} {level} {}", of.get("q").unwrap_or("none")))
        });
        vec![
            typed.one_of("level", ["low", "high"]),
            Resource::new("wanted{?q}", |_: &Self, of: &Args| Ok(of.text("q")?.to_owned())),
        ]
    }
}

#[test]
fn arguments_are_converted() {
    for (path, expected) in [
        ("typed/7", "7 0.5 false low none"),
        ("typed/-7?ratio=2.50&level=high", "-7 2.5 false high none"),
        ("typed/0?flag=true&q=a%20b&ratio=", "0 0.5 true low a b"),
        ("wanted?q=x", "x"),
    ] {
        let read = Typed.read(path).unwrap();
        assert_eq!(read[0].as_text(), Some(expected), "{path}");
        assert_eq!(read[0].entry.mime_type.as_deref(), Some("text/plain"));
    }
    for (path, expected) in [
        ("typed/x", "`number` must be an integer, such as 7, found \"x\""),
        ("typed/07", "`number` must be an integer"),
        ("typed/9223372036854775808", "`number` must be an integer"),
        ("typed/1?ratio=1e5", "`ratio` must be a number"),
        ("typed/1?ratio=NaN", "`ratio` must be a number"),
        ("typed/1?flag=1", "`flag` must be true or false"),
        ("typed/1?level=mid", "`level` must be low or high"),
        ("wanted", "expected a value of `q`: `?q=…`"),
    ] {
        let Err(Failure::InvalidRequest(text)) = Typed.read(path) else { panic!("{path}") };
        assert!(text.contains(expected), "{path}: {text}");
    }
    assert_eq!(completed(&Typed, "typed/{number}{?ratio,flag,level,q}", "level", "h", &[]), ["high"]);
}

struct Listed(Vec<i32>);

impl Functions for Listed {
    fn info() -> Info {
        Info::new("listed", "1.0.0")
    }

    fn new(_: &Config) -> Result<Self> {
        Ok(Self(Vec::new()))
    }

    fn resources() -> Vec<Resource<Self>> {
        let kinds = || {
            Ok([
                Item::of([("kind", "a"), ("number", "1")]).with(|entry| entry.title("One")),
                Item::of([("kind", ".."), ("number", "2")]),
                Item::of([("kind", "a/b"), ("number", "3")]),
                Item::of([("kind", ""), ("number", "4")]),
                Item::new("one of two"),
            ])
        };
        vec![
            Resource::new("n/{number}", |_: &Self, _: &Args| Ok(None::<String>)).list(|listed| Ok(listed.0.clone())),
            Resource::new("about", |_: &Self, _: &Args| Ok(vec![Contents::text(Entry::new("about", "it"), "text")]))
                .title("About")
                .description("What it is."),
            Resource::new("k/{kind}/{number}", |_: &Self, of: &Args| Ok(of.text("kind")?.to_owned()))
                .list(move |_| kinds())
                .fingerprint(|listed, _| Ok(listed.0.len()))
                .complete("kind", |_, _| Ok(vec!["one".to_owned(), "two".to_owned()])),
        ]
    }
}

#[test]
fn a_listing_in_any_order_is_continued_after_changes() {
    let values = vec![5, 3, 9, 1, 7, 2, 8];
    // `..` is a dot segment in Rust's expansion, which no path has.
    let expected = ["n/5", "n/3", "n/9", "n/1", "n/7", "n/2", "n/8", "about", "k/a/1", "k/a%2Fb/3"];
    for limit in [1, 3, 20] {
        assert_eq!(paths(|| Listed(values.clone()), limit), expected, "{limit}");
    }
    let page = Listed(values).list(None, None, 3).unwrap();
    for changed in [vec![4, 5, 3, 9, 1], vec![5, 3, 1], vec![5, 1]] {
        let next = Listed(changed).list(None, page.next_cursor.as_deref(), 1).unwrap();
        assert_eq!(next.entries[0].path, "n/1");
    }
    for cursor in ["", "x", "9:0:", "0:-1:", "0:0:zz", "0:0:", "00:0:"] {
        let page = Listed(Vec::new()).list(None, Some(cursor), 1);
        assert!(cursor == "0:0:" || matches!(page, Err(Failure::InvalidRequest(_))), "{cursor}: {page:?}");
    }
    let listed = Listed(vec![1]);
    assert_eq!(listed.stat("about").unwrap().name, "it");
    assert_eq!(listed.read("n/1"), Err(Failure::NotFound));
    let known = [Argument::new("kind", "a")];
    assert_eq!(completed(&listed, "k/{kind}/{number}", "number", "", &known), ["1"]);
    assert_eq!(completed(&listed, "k/{kind}/{number}", "kind", "t", &[]), ["two"]);
    let watched = ["k/a/1".to_owned()];
    let start = listed.changes(&watched, None).unwrap();
    assert_eq!(Listed(vec![1, 2]).changes(&watched, Some(&start.token)).unwrap().changed, watched);
    assert_eq!(listed.templates().len(), 2);
}

/// A provider with those resources.
macro_rules! fault_of {
    ($($resource:expr),*) => {{
        struct Faulty;
        impl Functions for Faulty {
            fn info() -> Info {
                Info::new("faulty", "1.0.0")
            }
            fn new(_: &Config) -> Result<Self> {
                Ok(Self)
            }
            fn resources() -> Vec<Resource<Self>> {
                vec![$($resource),*]
            }
        }
        match Faulty::open(&Config::default()) {
            Err(Failure::Internal(text)) => text,
            _ => String::new(),
        }
    }};
}

#[test]
fn what_cannot_be_served_is_a_fault_that_says_what_to_write() {
    fn text<F>(_: &F, _: &Args) -> Result<String> {
        Ok(String::new())
    }
    for (fault, expected) in [
        (fault_of!(Resource::new("/a", text)), "begins with a slash; write \"a\""),
        (fault_of!(Resource::new("a b", text)), "is not a URI template"),
        (fault_of!(Resource::new("a%2db", text)), "paths have \"a-b\""),
        (fault_of!(Resource::new("../{a}", text)), "has \"..\", which no path has"),
        (fault_of!(Resource::new("{a}", text).one_of("b", ["x"])), "has no variable \"b\""),
        (fault_of!(Resource::new("a", text).list(|_| Ok(["x"]))), "remove the listing"),
        (fault_of!(Resource::new("a/{b}", text), Resource::new("a/{c}{?d}", text)), "are those of \"a/{b}\""),
        (fault_of!(Resource::new("{a}/x", text), Resource::new("x", text)), "a resource named \"x\" already"),
    ] {
        assert!(fault.contains(expected), "{expected}: {fault}");
    }
}

#[test]
fn what_was_made_of_a_file_is_kept_until_it_changes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    fs::write(&file, "1").unwrap();
    let (memo, mut calls) = (Memo::default(), 0);
    for (text, expected) in [(None, 1), (None, 1), (Some("22"), 2)] {
        if let Some(text) = text {
            fs::write(&file, text).unwrap();
        }
        let value = memo.get(&file, |bytes| {
            calls += 1;
            Ok(bytes.len())
        });
        assert_eq!((*value.unwrap(), calls), (expected, expected));
    }
    assert_eq!(memo.get(dir.path().join("b"), |_| Ok(0)).err(), Some(Failure::NotFound));
}
