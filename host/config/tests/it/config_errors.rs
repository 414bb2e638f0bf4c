//! Error messages of the config, word for word.
//!
//! `ui/invalid/NAME.err` is the message for `ui/invalid/NAME.toml`. After an intended change,
//! `SNAPSHOTS=overwrite cargo test --workspace --test it config_errors` rewrites the files for review.

use std::fs;
use std::path::{Path, PathBuf};

use mcp_host_config::diagnostics::{Position, RenderStyle};
use mcp_host_config::{Config, ConfigError, Environment};
use snapbox::assert::{Assert, DEFAULT_ACTION_ENV};
use snapbox::data::DataFormat;
use snapbox::{Data, IntoData};

/// Returns the files with this extension in the folder of invalid configs, sorted by name.
fn invalid_files(ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir("tests/ui/invalid").unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == ending)).collect();
    files.sort();
    files
}

/// Returns the error of this file.
fn load_error(file: impl AsRef<Path>) -> ConfigError {
    let environment = Environment::empty().variable("SET", "hunter2").home("tests/ui/home");
    match Config::load_in(file.as_ref(), &environment) {
        Err(error) => error,
        Ok(config) => panic!("{} has no mistake: {config:#?}", file.as_ref().display()),
    }
}

#[test]
fn every_mistake_has_its_message() {
    let assert = Assert::new().action_env(DEFAULT_ACTION_ENV);
    let mut differences = String::new();
    for file in invalid_files("toml") {
        let golden = Data::read_from(&file.with_extension("err"), Some(DataFormat::Text)).raw();
        let message = format!("{}\n", load_error(&file));
        if let Err(difference) = assert.try_eq(None, message.into_data(), golden) {
            differences += &format!("case {}\n{difference}\n", file.display());
        }
    }
    assert!(differences.is_empty(), "messages changed:\n{differences}");
}

#[test]
fn every_message_has_its_mistake() {
    assert!(invalid_files("err").iter().all(|golden| golden.with_extension("toml").is_file()));
}

#[test]
fn every_problem_says_what_to_write_instead() {
    for file in invalid_files("toml") {
        assert!(load_error(&file).diagnostics().iter().all(|problem| !problem.help().is_empty()), "{}", file.display());
    }
}

#[test]
fn problems_come_in_the_order_of_the_file() {
    let error = load_error("tests/ui/invalid/many_at_once.toml");
    assert!(error.diagnostics().len() >= 10);
    assert!(error.diagnostics().is_sorted_by_key(|problem| problem.position().unwrap()));
    assert_eq!(error.diagnostics()[0].position(), Some(Position { line: 3, column: 8 }));
}

/// Returns the code blocks in this language in the documentation, in their order.
fn documented_blocks(language: &str) -> Vec<String> {
    let documentation = fs::read_to_string("../../docs/config.md").unwrap();
    let beginning = format!("```{language}\n");
    let blocks = documentation.split(&beginning).skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_example_in_the_documentation_is_right() {
    Config::parse(&documented_blocks("toml")[0], Path::new("tests/ui/valid/mcp-host.toml")).unwrap();
}

#[test]
fn the_mistakes_in_the_documentation_are_answered_as_it_says() {
    let error = Config::parse(&documented_blocks("toml")[1], Path::new("tests/ui/valid/mcp-host.toml")).unwrap_err();
    let shown = error.to_string().replace("tests/ui/valid/", "");
    assert_eq!(format!("{shown}\n"), documented_blocks("text")[0]);
}

#[test]
fn a_file_that_is_not_there_is_said_to_be_missing() {
    assert_eq!(
        load_error("tests/ui/absent.toml").to_string(),
        "error: there is no such file\n\
         --> tests/ui/absent.toml\n \
         = help: write it, as `mcp-host init` does, or name another file; `mcp-host serve PATH` and `mcp-host connect CLIENT PATH` need none"
    );
}

#[test]
fn a_directory_is_no_config() {
    assert_eq!(
        load_error("tests/ui/invalid").to_string(),
        "error: this is a directory\n\
         --> tests/ui/invalid\n \
         = help: name the file in it: `mcp-host.toml`"
    );
}

#[test]
fn a_file_that_is_far_too_large_is_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mcp-host.toml");
    for character in ["#", "é"] {
        fs::write(&file, character.repeat((1 << 20) + 1)).unwrap();
        assert_eq!(load_error(&file).diagnostics()[0].message(), "the file has more than 1048576 bytes");
    }
    fs::write(&file, "#".repeat(1 << 20)).unwrap();
    assert_eq!(load_error(&file).diagnostics()[0].message(), "there are no plugins, so there is nothing to serve");
}

#[test]
fn colors_change_the_look_and_not_the_text() {
    let error = load_error("tests/ui/invalid/overlapping_mounts.toml");
    let coloured = error.render(RenderStyle::Ansi);
    let plain: String = coloured.split('\u{1b}').enumerate().map(|(place, text)| strip_ansi(place, text)).collect();
    assert_ne!(coloured, plain);
    assert_eq!(plain, error.render(RenderStyle::Plain));
}

#[test]
fn on_a_narrow_terminal_a_correction_is_wrapped_and_the_lines_to_copy_are_not() {
    let error = Config::parse("", Path::new("mcp-host.toml")).unwrap_err();
    assert_eq!(
        error.render_within(RenderStyle::Plain, Some(40)),
        "error: there are no plugins, so there is nothing to serve\n\
         --> mcp-host.toml\n \
         = help: `mcp-host init` writes a\n         \
         config for a directory; or\n         \
         add one:\n         \
         [[plugin]]\n         \
         name = \"notes\"\n         \
         component = \"notes\"\n         \
         mount = \"notes:///\"\n         \
         grants.dirs = [{ host = \".\", guest = \"/notes\" }]"
    );
}

/// Returns the text after an escape character, without the rest of its escape sequence.
fn strip_ansi(place: usize, text: &str) -> &str {
    if place == 0 { text } else { text.split_once('m').unwrap().1 }
}

#[test]
fn values_from_elsewhere_are_never_shown() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mcp-host.toml");
    fs::write(directory.path().join("key.txt"), "hunter2 and more").unwrap();
    let plugin =
        "[[plugin]]\nname = 'a'\nmount = 'a://b/'\ngrants.env = { A = { env = 'SET' }, B = { file = 'key.txt' } }\n";
    for key in ["{ env = 'SET' }", "{ file = 'key.txt' }", "'hunter2'"] {
        fs::write(&file, format!("[server]\ncursor-key = {key}\n{plugin}")).unwrap();
        let error = load_error(&file);
        assert_eq!(error.diagnostics().len(), 2, "the key, and the component that is missing: {error}");
        assert!(!format!("{error} {error:?} {}", error.render(RenderStyle::Ansi)).contains("hunter2"), "{error}");
    }
}

#[test]
fn the_file_of_a_value_holds_one_small_text() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mcp-host.toml");
    fs::write(directory.path().join("a.wasm"), "").unwrap();
    let plugin = "name = 'a'\ncomponent = 'a.wasm'\nmount = 'a://b/'\ngrants.env.A = { file = 'value' }\n";
    fs::write(&file, format!("[[plugin]]\n{plugin}")).unwrap();
    for (value, message) in [
        (vec![b'x'; 65537], "the file has more than 65536 bytes"),
        (vec![0xff], "the file cannot be read: it is not UTF-8"),
        (vec![b'x', 0], "the value of a variable cannot hold a NUL"),
    ] {
        fs::write(directory.path().join("value"), value).unwrap();
        assert_eq!(load_error(&file).diagnostics()[0].message(), message);
    }
    fs::write(directory.path().join("value"), vec![b'x'; 65536]).unwrap();
    assert!(Config::load(&file).is_ok());
}

#[test]
fn without_a_home_there_is_no_path_below_it() {
    let text = "[[plugin]]\nname = 'a'\ncomponent = '~/a.wasm'\nmount = 'a://b/'\n";
    let error = Config::parse_in(text, Path::new("mcp-host.toml"), &Environment::empty()).unwrap_err();
    assert_eq!(error.diagnostics()[0].message(), "`~` stands for the home directory, and there is none");
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_text_is_a_mistake() {
    use std::os::unix::ffi::OsStrExt;

    let environment = Environment::empty().variable("A", std::ffi::OsStr::from_bytes(b"\xff"));
    let text = "[server]\ncursor-key = { env = 'A' }\n";
    let error = Config::parse_in(text, Path::new("mcp-host.toml"), &environment).unwrap_err();
    assert_eq!(error.diagnostics()[0].message(), "the variable `A` is not UTF-8");
}

#[test]
fn lines_with_values_that_may_be_private_are_not_quoted_for_others() {
    let shown = |text: &str| {
        let error = Config::parse(text, Path::new("tests/ui/valid/mcp-host.toml")).unwrap_err();
        assert!(error.to_string().contains("hunter2"), "whoever may read the file sees the line: {error}");
        error.without_private_lines().to_string()
    };
    let upstream = "[[upstream]]\nname = 'up'\nmount = 'up+'\n";
    for mistake in [
        "url = 'https://a.example/'\ngrants.env = { DATABASE = 'hunter2', MODE = [] }",
        "command = ['/bin/sh', 'hunter2', 5]",
        "command = [\n  '/bin/sh',\n  5, 'hunter2',\n]",
        "url = 'https://a.example/?key=hunter2#a'",
        "url = 'http://a.example/?key=hunter2'",
    ] {
        let shown = shown(&format!("{upstream}{mistake}\n"));
        assert!(!shown.contains("hunter2") && shown.contains("mcp-host.toml:"), "{shown}");
    }
    let table = format!("{upstream}url = 'https://a.example/'\n[upstream.grants.env]\nDATABASE = ['hunter2']\n");
    assert!(!shown(&table).contains("hunter2"));
    let no_toml = "[[upstream]]\nname = 'up' hunter2\n";
    assert!(!shown(no_toml).contains("hunter2"), "nothing tells what is where");
    assert!(shown("server = { name = 'hunter2', x = 1 }\n").contains("hunter2"), "another line is quoted");
}
