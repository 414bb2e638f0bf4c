//! `new`: writes a project for a provider, and prints the next steps; or updates the SDK of one.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use mcp_host_devkit::language::Language;
use mcp_host_devkit::scaffold::{self, PackageName, Project, Update};
use mcp_host_devkit::toolchain;

use super::context::Context;
use super::doctor;
use super::error::CliError;
use super::escape;

const EXAMPLES: &str = "\
The project contains the SDK and the contract. As a start, it serves the files of a directory, with text and binary \
resources, a template with completion, changes, config, and a unit test. Existing files are never overwritten.

With --update, only the SDK in the project's directory sdk/ is replaced, by that of this version of mcp-host.

Examples:
  mcp-host new notes --lang python        write ./notes
  mcp-host new providers/notes --lang go  the last segment is the name
  mcp-host new . --lang rust              write into the current directory
  mcp-host new --update                   update the SDK of the project here";

const USAGE: &str = "mcp-host new [OPTIONS] --lang <LANG> <NAME>
       mcp-host new --update [--force] [NAME]";

/// The number of files that an update prints.
const MAX_FILES: usize = 20;
/// The width of a usual terminal, in characters.
const MAX_WIDTH: usize = 80;
/// The name of the value, for the message about a missing option.
const LANGUAGES: &str = "rust|python|typescript|javascript|c|go";

/// Write a project for a provider: sources, SDK, unit test and config
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
pub(super) struct Args {
    /// The directory of the project, which is created if it is missing; its last segment is the project's name
    #[arg(value_name = "NAME", required_unless_present = "update")]
    dir: Option<PathBuf>,

    /// The language
    #[arg(long, value_name = LANGUAGES, required_unless_present = "update", conflicts_with = "update")]
    lang: Option<Language>,

    /// Replace the SDK of a project with the SDK of this program; NAME is the current directory by default
    #[arg(long)]
    update: bool,

    /// With --update, also replace files of the SDK that were edited
    #[arg(long, requires = "update")]
    force: bool,
}

impl Args {
    pub(super) async fn run(self, context: &Context) -> Result<(), CliError> {
        let dir = self.dir.unwrap_or_else(|| ".".into());
        let Some(language) = self.lang.filter(|_| !self.update) else {
            let update = scaffold::update(&dir, self.force)?;
            return print(context, &updated(&update, &dir));
        };
        let name = directory_name(&dir).ok_or_else(|| CliError::NoProjectName { dir: dir.clone() })?;
        let project = Project { language, name: PackageName::new(&name)? };
        scaffold::write(&project.files()?, &dir)?;
        print(context, &next_steps(&project, &dir))?;
        for tool in toolchain::examine(language).await.tools.iter().filter(|tool| !tool.is_ok()) {
            context.messages.warning(&doctor::describe(tool));
        }
        Ok(())
    }
}

fn print(context: &Context, lines: &[String]) -> Result<(), CliError> {
    let mut output = context.output();
    for line in lines {
        output.line(&escape::line(line))?;
    }
    output.flush()?;
    Ok(())
}

/// The printed lines of an update: what was replaced, and the commands that build and test the project.
fn updated(update: &Update, dir: &Path) -> Vec<String> {
    let sdk = if dir == Path::new(".") { "sdk".into() } else { dir.join("sdk") };
    let version = env!("CARGO_PKG_VERSION");
    if update.is_empty() {
        return vec![format!(
            "{} is the SDK for {} of mcp-host {version} already",
            sdk.display(),
            update.language.title()
        )];
    }
    let counts = [(&update.changed, "changed"), (&update.added, "added"), (&update.removed, "removed")];
    let count = counts.map(|(files, done)| format!("{} {done}", files.len())).join(", ");
    let title =
        format!("{}: the SDK for {} of mcp-host {version}; files: {count}", sdk.display(), update.language.title());
    let files: Vec<_> = counts
        .iter()
        .flat_map(|(files, done)| files.iter().map(move |file| format!("  {done:7}  {}", file.display())))
        .collect();
    let more = files.len().saturating_sub(MAX_FILES);
    let more = (more > 0).then(|| format!("  and {more} more"));
    let (build, test) = (scaffold::build_command(update.language), scaffold::test_command(update.language));
    let next = format!("Then build and test it: `{build}`, `{test}`.");
    [title].into_iter().chain(files.into_iter().take(MAX_FILES)).chain(more).chain([String::new(), next]).collect()
}

/// Returns the last segment of a directory's path. A path such as `.` is resolved.
fn directory_name(dir: &Path) -> Option<String> {
    let looked_up = || dir.canonicalize().ok()?.file_name().map(ToOwned::to_owned);
    let name = dir.file_name().map(ToOwned::to_owned).or_else(looked_up)?;
    Some(name.to_string_lossy().into_owned())
}

/// The printed lines: commands are indented, and their purpose follows a `#`. If a command and its purpose together are
/// wider than [`MAX_WIDTH`], the purposes have separate lines.
fn next_steps(project: &Project, dir: &Path) -> Vec<String> {
    let name = project.name.as_str();
    let cd = (dir != Path::new(".")).then(|| format!("  cd {}", shell_quoted(&dir.to_string_lossy())));
    let steps = [
        (project.build_command().to_owned(), "builds the component"),
        ("mcp-host list".to_owned(), "shows what clients see"),
        (format!("mcp-host read {name}:///welcome.md"), "reads a resource"),
        (project.test_command().to_owned(), "runs the unit test"),
        (format!("mcp-host test {} --plugin {name}", project.component()), "tests whether it keeps the contract"),
    ];
    let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let title = format!("wrote {name}, a provider in {}, to {}", project.language.title(), dir.display());
    let beside = |(command, purpose): &(String, &str)| format!("  {command:width$}  # {purpose}");
    let are_wide = steps.iter().any(|step| beside(step).chars().count() > MAX_WIDTH);
    let above = |(command, purpose): &(String, &str)| format!("# {purpose}:\n  {command}");
    let steps = steps.iter().map(|step| if are_wide { above(step) } else { beside(step) });
    let steps = steps.flat_map(|step| step.lines().map(ToOwned::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>();
    let end = format!("Then edit {}: `mcp-host dev` builds and reloads it on save.", project.source());
    let more = "README.md has more.".to_owned();
    [title, String::new()].into_iter().chain(cd).chain(steps).chain([String::new(), end, more]).collect()
}

/// Quotes a path for a shell, if necessary.
fn shell_quoted(path: &str) -> String {
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    shlex::try_quote(&path).map_or_else(|_| path.clone(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_named_by_the_last_segment_of_its_directory() {
        assert_eq!(directory_name(Path::new("a/My Notes/")).as_deref(), Some("My Notes"));
        assert_eq!(directory_name(Path::new("/")), None);
        let here = std::env::current_dir().unwrap();
        assert_eq!(directory_name(Path::new(".")).as_deref(), here.file_name().unwrap().to_str());
    }

    #[test]
    fn a_missing_language_is_answered_with_all() {
        assert_eq!(LANGUAGES.split('|').collect::<Vec<_>>(), Language::ALL.map(Language::as_str));
    }

    #[test]
    fn the_directory_is_one_word_of_the_printed_command() {
        assert_eq!(shell_quoted("a/my-notes"), "a/my-notes");
        assert_eq!(shell_quoted("it's here"), "\"it's here\"");
        assert_eq!(shell_quoted("-rf"), "./-rf");
    }

    #[test]
    fn a_project_in_the_current_directory_needs_no_cd() {
        let project = Project { language: Language::Go, name: PackageName::new("notes").unwrap() };
        assert!(!next_steps(&project, Path::new(".")).iter().any(|line| line.contains("cd ")));
        assert_eq!(next_steps(&project, Path::new("a/notes"))[2], "  cd a/notes");
    }
}
