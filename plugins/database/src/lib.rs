//! A provider of the tables and saved queries of an SQL database.
//!
//! The `README.md` of this crate is for users; for the code, see `route` for paths, `catalog` and `dialect` for the
//! descriptions of tables, `page` for keyset pagination, `render` for the formats. The host connects to the database
//! and rejects every write, whatever SQL this provider sends: see `docs/grants.md`.

mod catalog;
mod changes;
mod dialect;
mod dictionary;
mod page;
mod render;
mod results;
mod route;
mod settings;
#[cfg(test)]
mod tests;

use catalog::{Catalog, Table};
use mcp_provider::sql::Database;
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Notice, Page, Provider, Result, Template,
    export, path,
};
use results::Results;
use route::{ROWS_TEMPLATE, Route, SCHEMA_TEMPLATE, SQL_TEMPLATE, TableName, query_template, template_query};
use settings::{SavedQuery, Settings};

// The administrator chooses the name of the database, so no database is declared here.
mcp_provider::needs! {
    "config": {
        "database": { "type": "string", "why": "the granted database, if several are granted" },
        "queries": { "type": "table", "why": "saved queries: { NAME = { sql, title, description, parameters, version } }" },
        "formats": { "type": "array", "default": ["markdown", "json", "csv"], "why": "the formats of rows" },
        "page-size": { "type": "integer", "default": 50, "why": "the rows of a page" },
        "free-sql": { "type": "boolean", "default": false, "why": "whether clients may send queries of their own" }
    }
}

/// The maximum number of tables of one page of a schema or of the dictionary.
const MAX_LISTED: u32 = 500;

/// The maximum number of tables of a schema that are considered for a completion.
const MAX_COMPLETED: usize = 2000;

/// The prefix of a cursor, before the name of the last table of a page.
const CURSOR: &str = "behind:";

/// A provider of a database and its saved queries.
pub struct DatabaseProvider {
    settings: Settings,
}

impl Provider for DatabaseProvider {
    fn describe() -> Info {
        Info::new("database", env!("CARGO_PKG_VERSION"))
            .title("An SQL database")
            .description(
                "Tables and saved queries. `dictionary` describes all tables; `{schema}` lists those of a schema, \
                 `{schema}/{table}/schema` describes one, `{schema}/{table}/rows` has its rows in pages; `query/{name}` \
                 runs a saved query.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        Ok(Self { settings: Settings::parse(config)? })
    }

    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        match parent.map(Route::parse).transpose()? {
            None if cursor.is_some() => Err(invalid_cursor()),
            None => self.list_root(),
            Some(Route::Schema(schema)) => self.list_schema(&schema, cursor, limit),
            Some(Route::Dictionary) => self.list_dictionary(cursor, limit),
            Some(_) => Err(Failure::invalid(
                "expected `{mount}dictionary` or a schema, such as `{mount}public`, as the parent",
            )),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        match Route::parse(path)? {
            Route::Dictionary => self.read_dictionary(),
            Route::Schema(schema) if self.catalog()?.info.schemas.contains(&schema) => {
                Ok(vec![Contents::directory(schema_entry(&schema))])
            }
            Route::Schema(_) => Err(Failure::NotFound),
            Route::Table(name) => Ok(table_contents(&self.catalog()?.table(&name)?).into()),
            Route::Rows(name, options) => {
                let catalog = self.catalog()?;
                let table = catalog.table(&name)?;
                self.results(&catalog).rows(path, &table, &options)
            }
            Route::Query(name, values, options) => {
                let query = self.saved(&name)?;
                self.results(&self.catalog()?).saved(path, &name, query, &values, &options)
            }
            Route::Sql(statement, options) => {
                self.check_free_sql()?;
                self.results(&self.catalog()?).free(path, &statement, &options)
            }
        }
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        match Route::parse(path)? {
            Route::Dictionary => Ok(dictionary_entry()),
            Route::Schema(schema) if self.catalog()?.info.schemas.contains(&schema) => Ok(schema_entry(&schema)),
            Route::Schema(_) => Err(Failure::NotFound),
            Route::Table(name) => Ok(table_entry(&self.catalog()?.table(&name)?)),
            Route::Rows(name, _) => Ok(rows_entry(path, &self.catalog()?.table(&name)?)),
            Route::Query(name, ..) => Ok(query_entry(path, &name, self.saved(&name)?)),
            Route::Sql(..) => {
                self.check_free_sql()?;
                Ok(Entry::new(path, "sql").mime_type("text/markdown"))
            }
        }
    }

    fn templates(&self) -> Vec<Template> {
        let mut templates = vec![
            Template::new(ROWS_TEMPLATE, "rows").title("Rows of a table").description(
                "`limit` is the number of rows, `after` where a page begins as the one before told it, `columns` \
                     names separated by commas, `order` a column, with `-` in front for the descending order, `format` \
                     one of markdown, json, csv.",
            ),
            Template::new(SCHEMA_TEMPLATE, "schema")
                .title("The description of a table")
                .description("Columns with types and comments, keys and indexes."),
        ];
        templates.extend(self.settings.queries.iter().filter(|(_, query)| !query.parameters.is_empty()).map(
            |(name, query)| {
                let parameters = query.parameters.iter().map(|parameter| parameter.name.as_str());
                let template = Template::new(query_template(name, parameters), name);
                let template = query.title.iter().fold(template, |template, title| template.title(title));
                query.description.iter().fold(template, |template, text| template.description(text))
            },
        ));
        if self.settings.free_sql {
            let template = Template::new(SQL_TEMPLATE, "sql").title("A query");
            templates.push(template.description("`q` is one SELECT statement in the dialect of the database."));
        }
        templates
    }

    fn complete(&self, template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        if let Some(name) = template_query(template) {
            let parameters = &self.saved(name)?.parameters;
            let parameter = parameters.iter().find(|parameter| parameter.name == argument.name);
            let Some(statement) = parameter.and_then(|parameter| parameter.complete.as_ref()) else {
                return Ok(Completion::default());
            };
            return self.results(&self.catalog()?).values(statement, &argument.value);
        }
        let catalog = self.catalog()?;
        match argument.name.as_str() {
            "schema" => Ok(Completion::matching(catalog.info.schemas, &argument.value)),
            "table" => {
                let schema = known.iter().find(|argument| argument.name == "schema");
                let Some(schema) = schema else { return Ok(Completion::default()) };
                complete_table(&catalog, &schema.value, &argument.value)
            }
            "format" => Ok(Completion::matching(["markdown", "json", "csv"], &argument.value)),
            _ => Ok(Completion::default()),
        }
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        changes::changes(watched, since, |path| self.shown(path))
    }
}

impl DatabaseProvider {
    /// Opens the database, and reads its description.
    fn catalog(&self) -> Result<Catalog> {
        let database = match &self.settings.database {
            Some(name) => Database::open(name),
            None => match &Database::granted()[..] {
                [name] => Database::open(name),
                [] => return Err(Failure::internal("no database is granted: add one to `grants.sql`")),
                names => {
                    let names = names.join("`, `");
                    return Err(Failure::internal(format!(
                        "several databases are granted: set `database` to one of `{names}`"
                    )));
                }
            },
        };
        let info = database.describe()?;
        Ok(Catalog { database, info })
    }

    fn results<'a>(&'a self, catalog: &'a Catalog) -> Results<'a> {
        Results { catalog, settings: &self.settings }
    }

    fn saved(&self, name: &str) -> Result<&SavedQuery> {
        self.settings.queries.get(name).ok_or(Failure::NotFound)
    }

    fn check_free_sql(&self) -> Result<()> {
        if self.settings.free_sql { Ok(()) } else { Err(Failure::NotFound) }
    }

    /// Lists the dictionary, the schemas, and the queries without required parameters.
    fn list_root(&self) -> Result<Page> {
        let catalog = self.catalog()?;
        let schemas = catalog.info.schemas.iter().map(|schema| schema_entry(schema));
        let queries = self
            .settings
            .queries
            .iter()
            .filter(|(_, query)| query.parameters.iter().all(|parameter| parameter.default.is_some()));
        let queries = queries.map(|(name, query)| query_entry(&format!("query/{name}"), name, query));
        Ok(Page::last([dictionary_entry()].into_iter().chain(schemas).chain(queries)))
    }

    fn list_schema(&self, schema: &str, cursor: Option<&str>, limit: usize) -> Result<Page> {
        // A table has two entries.
        let limit = u32::try_from(limit.div_ceil(2)).unwrap_or(MAX_LISTED).clamp(1, MAX_LISTED);
        let behind = cursor.map(|cursor| cursor.strip_prefix(CURSOR).ok_or_else(invalid_cursor)).transpose()?;
        let (tables, has_more) = self.catalog()?.tables_of(schema, behind.unwrap_or_default(), limit)?;
        let next_cursor = tables.last().filter(|_| has_more).map(|table| format!("{CURSOR}{}", table.name.table));
        let entries = tables.iter().flat_map(|table| [table_entry(table), rows_entry(&table.name.rows_path(), table)]);
        Ok(Page { entries: entries.collect(), next_cursor })
    }

    /// Lists the descriptions of the tables of all schemas.
    fn list_dictionary(&self, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let limit = u32::try_from(limit).unwrap_or(MAX_LISTED).clamp(1, MAX_LISTED);
        let behind = cursor.map(|cursor| cursor.strip_prefix(CURSOR).ok_or_else(invalid_cursor)).transpose()?;
        // The cursor is the path of the last table.
        let behind = behind.map(|path| match Route::parse(path) {
            Ok(Route::Table(name)) => Ok(name),
            _ => Err(invalid_cursor()),
        });
        let behind = behind.transpose()?;
        let (tables, has_more) = self.catalog()?.all_behind(behind.as_ref(), limit)?;
        let next_cursor =
            tables.last().filter(|_| has_more).map(|table| format!("{CURSOR}{}", table.name.schema_path()));
        Ok(Page { entries: tables.iter().map(table_entry).collect(), next_cursor })
    }

    /// Reads the index of all tables, the description of the database, and the description of each table. Each table
    /// has its own path, so the host can omit the ones that the client may not read.
    fn read_dictionary(&self) -> Result<Vec<Contents>> {
        let catalog = self.catalog()?;
        let ((tables, has_more), enums) = (catalog.all()?, catalog.enums()?);
        let json = Entry::new("dictionary", "dictionary").mime_type("application/json");
        let cut = has_more.then(|| {
            let text = format!("{} tables, and there are more, each with a description of its own", tables.len());
            Notice::cut(text)
        });
        let json = cut.into_iter().fold(json, Entry::notice);
        let json = Contents::text(json, dictionary::to_json(&catalog.info, &enums, has_more).to_string());
        Ok([Contents::directory(dictionary_entry()), json]
            .into_iter()
            .chain(tables.iter().flat_map(table_contents))
            .collect())
    }

    /// Returns the content of a path, or a cheaper text that changes with it.
    fn shown(&self, path: &str) -> Result<String> {
        if let Route::Query(name, ..) = Route::parse(path)?
            && let Some(version) = &self.saved(&name)?.version
        {
            return self.results(&self.catalog()?).version(version);
        }
        if let Route::Schema(schema) = Route::parse(path)? {
            let (tables, has_more) = self.catalog()?.tables_of(&schema, "", MAX_LISTED)?;
            let lines = tables.iter().map(|table| (&table.name, table.kind, &table.comment)).collect::<Vec<_>>();
            return Ok(format!("{lines:?}{has_more}"));
        }
        let contents = self.read(path)?;
        Ok(contents.iter().map(|contents| contents.as_text().unwrap_or_default()).collect())
    }
}

fn invalid_cursor() -> Failure {
    Failure::invalid("expected a cursor of this listing")
}

fn dictionary_entry() -> Entry {
    Entry::directory("dictionary", "dictionary")
        .title("Dictionary")
        .description("All tables with their columns, comments, keys and indexes.")
        .subscribable()
}

/// Completes the name of a table of a schema.
fn complete_table(catalog: &Catalog, schema: &str, typed: &str) -> Result<Completion> {
    let (mut names, mut has_more) = (Vec::<String>::new(), true);
    while has_more && names.len() < MAX_COMPLETED {
        let behind = names.last().map_or("", String::as_str);
        let (tables, more) = catalog.tables_of(schema, behind, MAX_LISTED)?;
        has_more = more && !tables.is_empty();
        names.extend(tables.into_iter().map(|table| table.name.table));
    }
    let mut completion = Completion::matching(names, typed);
    if has_more {
        (completion.total, completion.has_more) = (None, true);
    }
    Ok(completion)
}

fn schema_entry(schema: &str) -> Entry {
    Entry::directory(path::encode_segment(schema), schema).title(format!("Schema {schema}")).subscribable()
}

fn table_entry(table: &Table) -> Entry {
    let TableName { schema, table: name } = &table.name;
    let entry = Entry::new(table.name.schema_path(), format!("{schema}.{name} schema"))
        .title(format!("{schema}.{name}: columns"))
        .mime_type("text/markdown")
        .subscribable();
    table.comment.iter().fold(entry, |entry, comment| entry.description(comment))
}

/// Returns the description of a table, in Markdown and JSON.
fn table_contents(table: &Table) -> [Contents; 2] {
    let json = Entry::new(table.name.schema_path(), "schema").mime_type("application/json");
    [
        Contents::text(table_entry(table), dictionary::table_markdown(table)),
        Contents::text(json, dictionary::table_json(table).to_string()),
    ]
}

fn rows_entry(path: &str, table: &Table) -> Entry {
    let TableName { schema, table: name } = &table.name;
    let entry = Entry::new(path, format!("{schema}.{name} rows"))
        .title(format!("{schema}.{name}: rows"))
        .mime_type("text/markdown")
        .subscribable();
    table.comment.iter().fold(entry, |entry, comment| entry.description(comment))
}

fn query_entry(path: &str, name: &str, query: &SavedQuery) -> Entry {
    let entry = Entry::new(path, name).mime_type("text/markdown").subscribable();
    let entry = query.title.iter().fold(entry, |entry, title| entry.title(title));
    query.description.iter().fold(entry, |entry, text| entry.description(text))
}

export!(DatabaseProvider);
