//! The provider `files`, on generated directories and on the tree of this repository.

mod limits;
mod subscriptions;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use mcp_host_tests::{ConfigFile, Folder, Plugin, StdioServer};
use rmcp::model::{ErrorCode, ResourceContents};

/// A Japanese text, and its bytes in three encodings.
const JAPANESE: &str = "日本語の文書です。文字コードは自動で判定します。\n二行目。\n";
const EUC_JP: &[u8] = b"\xc6\xfc\xcb\xdc\xb8\xec\xa4\xce\xca\xb8\xbd\xf1\xa4\xc7\xa4\xb9\xa1\xa3\xca\xb8\xbb\xfa\xa5\xb3\xa1\xbc\xa5\xc9\xa4\xcf\xbc\xab\xc6\xb0\xa4\xc7\xc8\xbd\xc4\xea\xa4\xb7\xa4\xde\xa4\xb9\xa1\xa3\x0a\xc6\xf3\xb9\xd4\xcc\xdc\xa1\xa3\x0a";
const SHIFT_JIS: &[u8] = b"\x93\xfa\x96{\x8c\xea\x82\xcc\x95\xb6\x8f\x91\x82\xc5\x82\xb7\x81B\x95\xb6\x8e\x9a\x83R\x81[\x83h\x82\xcd\x8e\xa9\x93\xae\x82\xc5\x94\xbb\x92\xe8\x82\xb5\x82\xdc\x82\xb7\x81B\x0a\x93\xf1\x8ds\x96\xda\x81B\x0a";
const ISO_2022_JP: &[u8] =
    b"\x1b$BF|K\x5c8l$NJ8=q$G$9!#J8;z%3!<%I$O<+F0$GH=Dj$7$^$9!#\x1b(B\x0a\x1b$BFs9TL\x5c!#\x1b(B\x0a";

fn files_config(folder: &Path) -> ConfigFile {
    ConfigFile::new().plugin(Plugin::files("f", folder))
}

/// Returns a text in the metadata of a content.
fn meta(contents: &ResourceContents, name: &str) -> Option<String> {
    let (ResourceContents::TextResourceContents { meta, .. } | ResourceContents::BlobResourceContents { meta, .. }) =
        contents
    else {
        panic!("{contents:?}")
    };
    Some(meta.as_ref()?.get(name)?.as_str()?.to_owned())
}

#[tokio::test]
async fn text_in_its_own_encoding_is_served_as_utf_8() {
    let folder = Folder::with_files([
        ("euc.txt", EUC_JP),
        ("sjis.txt", SHIFT_JIS),
        ("iso-2022.txt", ISO_2022_JP),
        ("utf-8.txt", JAPANESE.as_bytes()),
    ]);
    let config = files_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    for (name, encoding) in [
        ("euc.txt", Some("EUC-JP")),
        ("sjis.txt", Some("Shift_JIS")),
        ("iso-2022.txt", Some("ISO-2022-JP")),
        ("utf-8.txt", None),
    ] {
        let uri = format!("files://f/{name}");
        assert_eq!(server.client().text(&uri).await, JAPANESE, "{name}");
        assert_eq!(server.client().text(&format!("{uri}?lines=2")).await, "二行目。\n", "{name}");
        let contents = server.client().read(&uri).await.unwrap();
        assert_eq!(meta(&contents[0], "files/encoding").as_deref(), encoding);
        let listed = resources.iter().find(|resource| resource.uri == uri).unwrap();
        assert_eq!(listed.size, u64::try_from(JAPANESE.len()).ok(), "the size is that of what is served");
    }
    server.end().await;
}

#[tokio::test]
async fn what_is_ignored_or_hidden_is_neither_listed_nor_read() {
    let folder = Folder::with_files([
        (".gitignore", "*.log\n/build/\n"),
        ("keep/.gitignore", "!wanted.log\n"),
        ("keep/wanted.log", "kept"),
        ("keep/other.log", "ignored"),
        ("build/out.txt", "ignored"),
        (".env", "SECRET"),
        ("prod.env", "SECRET"),
        (".git/config", "SECRET"),
        ("a.md", "# A"),
    ]);
    folder.symlink("link.md", "build/out.txt");
    let config = files_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().uris().await, ["files://f/a.md", "files://f/keep/wanted.log"]);
    for path in ["keep/other.log", "build/out.txt", "build", ".env", "%2eenv", "prod.env", ".git/config", "link.md"] {
        for query in ["", "?lines=1-9", "?bytes=0-9"] {
            let error = server.client().read_error(&format!("files://f/{path}{query}")).await;
            assert_eq!(error.code, ErrorCode(-32002), "{path}{query}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn names_in_both_normalization_forms_and_names_that_are_no_text() {
    let folder =
        Folder::with_files([("か\u{3099}.md", "decomposed"), ("ぱ.md", "composed"), ("secret/か\u{3099}.md", "S")]);
    std::fs::write(folder.path().join(OsStr::from_bytes(b"\xff\xfe.md")), "").unwrap();
    let config = files_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().uris().await.len(), 3, "a name that is not UTF-8 is left out");
    for (uri, text) in [
        ("files://f/%E3%81%8C.md", "decomposed"),
        ("files://f/%E3%81%8B%E3%82%99.md", "decomposed"),
        ("files://f/%E3%81%B1.md", "composed"),
        ("files://f/%E3%81%AF%E3%82%9A.md", "composed"),
    ] {
        assert_eq!(server.client().text(uri).await, text, "{uri}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_rule_for_the_name_on_disk_holds_however_it_is_typed() {
    let folder = Folder::with_files([("か\u{3099}.md", "secret"), ("a.md", "A")]);
    let rule = "[[rule]]\nprincipals = [\"local\"]\nallow = [\"**\"]\ndeny = [\"files://f/か\u{3099}.md\"]\n";
    let config = files_config(folder.path()).append(rule).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().uris().await, ["files://f/a.md"]);
    for name in ["%E3%81%8C.md", "%E3%81%8B%E3%82%99.md", "%E3%81%8C.md?lines=1-2"] {
        let error = server.client().read_error(&format!("files://f/{name}")).await;
        assert_eq!(error.code, ErrorCode(-32002), "{name}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_large_file_is_its_beginning_and_says_how_to_go_on() {
    let text: String = (1..=200_000).map(|n| format!("line {n}\n")).collect();
    let folder = Folder::with_files([("big.log", &text)]);
    let config = files_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let (mut whole, mut uri) = (String::new(), "files://f/big.log".to_owned());
    loop {
        let contents = server.client().read(&uri).await.unwrap();
        let ResourceContents::TextResourceContents { text, .. } = &contents[0] else { panic!("{contents:?}") };
        whole.push_str(text);
        match meta(&contents[0], "files/next-range") {
            Some(next) => uri = format!("files://f/big.log?{next}"),
            None => break,
        }
    }
    assert!(whole == text, "the parts are the file");
    assert_eq!(server.client().text("files://f/big.log?lines=-1").await, "line 200000\n");
    assert_eq!(server.client().text("files://f/big.log?lines=777-778").await, "line 777\nline 778\n");
    let error = server.client().read_error("files://f/big.log?lines=200001").await;
    assert!(error.message.contains("200000 lines"), "{error:?}");
    server.end().await;
}

#[tokio::test]
async fn documents_are_text_in_a_component_too() {
    let pdf = include_bytes!("../../../../plugins/files/tests/files/hello.pdf");
    let notebook = r##"{"nbformat":4,"cells":[{"cell_type":"markdown","source":["# 解析"]}]}"##;
    let folder = Folder::with_files([("a.pdf", pdf.as_slice()), ("b.ipynb", notebook.as_bytes())]);
    let config = files_config(folder.path()).write();
    let server = StdioServer::start(&config).await;
    let contents = server.client().read("files://f/a.pdf").await.unwrap();
    assert_eq!(contents.len(), 2, "the text, and the original beside it");
    assert_eq!(server.client().text("files://f/a.pdf?as=text").await, "--- page 1 ---\nHello world\n");
    assert_eq!(server.client().bytes("files://f/a.pdf?bytes=0-").await, pdf);
    assert_eq!(server.client().text("files://f/b.ipynb").await, "# 解析\n");
    server.end().await;
}

/// The tree of this repository: thousands of ignored files in `target`, and all other files as in git.
#[tokio::test]
async fn the_tree_of_this_repository_is_served_as_git_sees_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let listed = Command::new("git")
        .args(["-c", "core.excludesFile=/dev/null", "ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(&root)
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let is_served = |file: &&str| {
        let is_there = root.join(file).symlink_metadata().is_ok_and(|file| file.is_file());
        is_there && !file.split('/').any(|name| name.starts_with('.') || name.ends_with(".env"))
    };
    let expected: BTreeSet<String> = listed.split_terminator('\0').filter(is_served).map(str::to_owned).collect();
    let config = files_config(&root).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    let served: BTreeSet<String> = resources
        .iter()
        .filter_map(|resource| resource.uri.strip_prefix("files://f/"))
        .map(|path| percent_encoding::percent_decode_str(path).decode_utf8().unwrap().into_owned())
        // Git lists links as files; the provider serves their targets.
        .filter(|path| root.join(path).symlink_metadata().is_ok_and(|file| file.is_file()))
        .collect();
    assert!(expected.len() > 500, "{}", expected.len());
    let differing: Vec<_> = expected.symmetric_difference(&served).take(10).collect();
    assert!(differing.is_empty(), "{differing:?}");
    for resource in resources.iter().step_by(resources.len() / 40) {
        let path = resource.uri.strip_prefix("files://f/").unwrap();
        let path = percent_encoding::percent_decode_str(path).decode_utf8().unwrap().into_owned();
        let on_disk = std::fs::read(root.join(&path)).unwrap();
        // Text in another encoding is served in UTF-8.
        let is_converted = std::str::from_utf8(&on_disk).is_err() && !on_disk.contains(&0);
        if on_disk.len() <= 1 << 20 && !is_converted {
            // Text is served without its byte order mark.
            let expected = on_disk.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&on_disk);
            assert!(server.client().bytes(&resource.uri).await == expected, "{path}");
        }
    }
    server.end().await;
}

/// The documentation of Debian packages, if present: links, manuals in many encodings and compressed files.
#[tokio::test]
async fn each_file_of_the_system_documentation_is_what_it_is_on_disk() {
    let root = Path::new("/usr/share/doc");
    if !root.is_dir() {
        return;
    }
    let config = files_config(root).write();
    let server = StdioServer::start(&config).await;
    let resources = server.client().resources().await;
    for resource in resources.iter().step_by((resources.len() / 100).max(1)) {
        let path = resource.uri.strip_prefix("files://f/").unwrap();
        let path = percent_encoding::percent_decode_str(path).decode_utf8().unwrap().into_owned();
        let on_disk = std::fs::read(root.join(&path)).unwrap();
        let contents = server.client().read(&resource.uri).await.unwrap();
        if let [one] = contents.as_slice()
            && meta(one, "files/encoding").is_none()
            && meta(one, "files/range").is_none()
        {
            assert!(server.client().bytes(&resource.uri).await == on_disk, "{path}");
            assert!(resource.size.is_none_or(|size| size == on_disk.len() as u64), "{path}");
        }
    }
    server.end().await;
}
