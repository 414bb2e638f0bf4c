//! The contract's exports, implemented for any provider.

use super::bindings::exports::mcp_host::provider::resource_provider as wit;
use super::prepare_bindings::exports::mcp_host::provider::prepare;
use crate::{Argument, Config, Failure, PathTemplate, Prepare, Provider, Result, Template};
use std::cell::OnceCell;

/// The number of templates per page.
const TEMPLATES_PER_PAGE: usize = 100;

/// The storage for the provider in a component instance. `export!` implements it with a thread-local, since a static
/// cannot be generic.
pub trait Instance {
    /// The provider's type.
    type Provider: Provider;

    /// Calls `answer` with the provider, which is opened first if needed.
    ///
    /// # Errors
    ///
    /// The errors of `open` and `answer`.
    fn with<T>(answer: impl FnOnce(&Self::Provider) -> Result<T>) -> Result<T>;
}

/// Calls `answer` with the provider in `opened`. If the cell is empty, the provider is first opened with the config,
/// which is fetched only then. A failure leaves the cell empty, so that the next call retries.
///
/// # Errors
///
/// The errors of `config`, `open` and `answer`.
pub fn with<P: Provider, T>(
    opened: &OnceCell<P>,
    config: impl FnOnce() -> Result<Config>,
    answer: impl FnOnce(&P) -> Result<T>,
) -> Result<T> {
    if let Some(provider) = opened.get() {
        return answer(provider);
    }
    #[cfg(target_family = "wasm")]
    crate::log::install();
    let provider = P::open(&config()?)?;
    answer(opened.get_or_init(|| provider))
}

impl<I: Instance> wit::Guest for I {
    fn describe() -> wit::ProviderInfo {
        I::Provider::describe().into()
    }

    fn list_entries(
        parent: Option<String>,
        cursor: Option<String>,
        limit: u32,
    ) -> std::result::Result<wit::Page, wit::Failure> {
        let limit = usize::try_from(limit.max(1)).unwrap_or(usize::MAX);
        lower_result(I::with(|provider| provider.list(parent.as_deref(), cursor.as_deref(), limit)))
    }

    fn list_templates(cursor: Option<String>) -> std::result::Result<wit::TemplatePage, wit::Failure> {
        lower_result(I::with(|provider| template_page(provider.templates(), cursor.as_deref())))
    }

    fn read(path: String) -> std::result::Result<Vec<wit::Contents>, wit::Failure> {
        let contents = I::with(|provider| provider.read(&path)).map_err(wit::Failure::from)?;
        Ok(contents.into_iter().map(Into::into).collect())
    }

    fn stat(path: String) -> std::result::Result<wit::Entry, wit::Failure> {
        lower_result(I::with(|provider| provider.stat(&path)))
    }

    fn complete(
        template: String,
        argument: wit::Argument,
        known: Vec<wit::Argument>,
    ) -> std::result::Result<wit::Completion, wit::Failure> {
        let argument = Argument::from(argument);
        let known: Vec<Argument> = known.into_iter().map(Into::into).collect();
        lower_result(I::with(|provider| {
            check_variable(&provider.templates(), &template, &argument.name)?;
            provider.complete(&template, &argument, &known)
        }))
    }

    fn changes(watched: Vec<String>, since: Option<String>) -> std::result::Result<wit::ChangeSet, wit::Failure> {
        lower_result(I::with(|provider| provider.changes(&watched, since.as_deref())))
    }
}

impl<I: Instance> prepare::Guest for I
where
    I::Provider: Prepare,
{
    fn prepare(token: Option<String>) -> std::result::Result<prepare::Progress, prepare::Failure> {
        let progress = I::with(|provider| provider.prepare(token.as_deref()));
        progress.map(prepare::Progress::from).map_err(prepare::Failure::from)
    }
}

fn lower_result<T, W: From<T>>(result: Result<T>) -> std::result::Result<W, wit::Failure> {
    result.map(W::from).map_err(wit::Failure::from)
}

/// Returns one page of templates. The cursor is an offset: templates are few and fixed by the provider.
fn template_page(templates: Vec<Template>, cursor: Option<&str>) -> Result<wit::TemplatePage> {
    let count = templates.len();
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .ok()
            .filter(|start| (1..=count).contains(start))
            .ok_or_else(|| Failure::invalid("expected a cursor that this provider returned"))?,
    };
    let end = start.saturating_add(TEMPLATES_PER_PAGE).min(count);
    Ok(wit::TemplatePage {
        templates: templates.into_iter().skip(start).take(TEMPLATES_PER_PAGE).map(Into::into).collect(),
        next_cursor: (end < count).then(|| end.to_string()),
    })
}

fn check_variable(templates: &[Template], template: &str, variable: &str) -> Result<()> {
    if !templates.iter().any(|known| known.path_template == template) {
        return Err(Failure::invalid(format!(
            "expected a template as `resources/templates/list` has it, found {template:?}"
        )));
    }
    // The SDK may be unable to match a valid template; then the provider must validate the variable itself.
    match PathTemplate::parse(template) {
        Ok(parsed) if parsed.variables().all(|known| known != variable) => {
            let known: Vec<&str> = parsed.variables().collect();
            Err(Failure::invalid(format!(
                "expected a variable of {template:?} ({}), found {variable:?}",
                known.join(", ")
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::wit::Guest;
    use super::*;
    use crate::{Completion, Contents, Entry, Info, Page};
    use std::cell::Cell;

    thread_local! {
        static OPENED: Cell<u32> = const { Cell::new(0) };
    }

    struct Sample;

    impl Provider for Sample {
        fn describe() -> Info {
            Info::new("sample", "1.0.0")
        }

        fn open(_: &Config) -> Result<Self> {
            OPENED.set(OPENED.get().saturating_add(1));
            if OPENED.get() == 1 { Err(Failure::unavailable("not yet")) } else { Ok(Self) }
        }

        fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
            assert_eq!((parent, cursor), (None, Some("c")));
            Ok(Page::last((0..limit).map(|n| Entry::new(n.to_string(), "n"))))
        }

        fn read(&self, path: &str) -> Result<Vec<Contents>> {
            if path == "odd" {
                return Ok(vec![Contents::text(Entry::new("other", "other"), "")]);
            }
            Ok(vec![Contents::text(Entry::new(path, path), "text")])
        }

        fn templates(&self) -> Vec<Template> {
            (0..150).map(|n| Template::new(format!("{n}/{{var}}"), "t")).collect()
        }

        fn complete(&self, _: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
            assert_eq!(known, [Argument::new("other", "x")]);
            Ok(Completion::matching(["value"], &argument.value))
        }
    }

    // Exports nothing on native targets, but must compile.
    crate::export!(Sample);

    struct TestInstance;
    crate::__instance!(TestInstance, Sample, || Ok(Config::default()));

    fn ensure_open() {
        while TestInstance::stat("x".to_owned()).is_err() {}
    }

    fn argument(name: &str, value: &str) -> wit::Argument {
        wit::Argument { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn a_failed_open_fails_its_call_only_and_is_tried_again_and_a_good_one_is_kept() {
        OPENED.set(0);
        assert!(matches!(TestInstance::read("a".to_owned()), Err(wit::Failure::Unavailable(_))));
        assert!(TestInstance::read("a".to_owned()).is_ok());
        assert!(TestInstance::read("a".to_owned()).is_ok());
        assert_eq!(OPENED.get(), 2);
    }

    #[test]
    fn a_limit_of_zero_is_taken_for_one() {
        ensure_open();
        assert_eq!(TestInstance::list_entries(None, Some("c".to_owned()), 0).unwrap().entries.len(), 1);
        assert_eq!(TestInstance::list_entries(None, Some("c".to_owned()), 3).unwrap().entries.len(), 3);
    }

    #[test]
    fn stat_is_the_entry_that_reading_gives_for_that_path() {
        ensure_open();
        assert_eq!(TestInstance::stat("a".to_owned()).unwrap().size, Some(4));
        assert!(matches!(TestInstance::stat("odd".to_owned()), Err(wit::Failure::Internal(_))));
    }

    #[test]
    fn templates_come_in_pages() {
        ensure_open();
        let first = TestInstance::list_templates(None).unwrap();
        assert_eq!((first.templates.len(), first.next_cursor.as_deref()), (100, Some("100")));
        let last = TestInstance::list_templates(first.next_cursor).unwrap();
        assert_eq!((last.templates.len(), last.next_cursor), (50, None));
        for cursor in ["", "x", "0", "-1", "151"] {
            let page = TestInstance::list_templates(Some(cursor.to_owned()));
            assert!(matches!(page, Err(wit::Failure::InvalidRequest(_))), "{cursor}");
        }
    }

    #[test]
    fn completing_an_unknown_template_or_variable_is_an_invalid_request() {
        ensure_open();
        let complete = |template: &str, name: &str| {
            TestInstance::complete(template.to_owned(), argument(name, "va"), vec![argument("other", "x")])
        };
        assert_eq!(complete("1/{var}", "var").unwrap().values, ["value"]);
        assert!(matches!(complete("none/{var}", "var"), Err(wit::Failure::InvalidRequest(_))));
        assert!(matches!(complete("1/{var}", "none"), Err(wit::Failure::InvalidRequest(_))));
    }

    #[test]
    fn a_provider_that_watches_nothing_says_that_nothing_changes() {
        ensure_open();
        let changes = TestInstance::changes(vec!["a".to_owned()], None).unwrap();
        assert!(changes.changed.is_empty() && !changes.listing_changed);
    }
}
