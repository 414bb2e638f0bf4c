//! The queries of `check` about the schemas of a grant: whether they exist, and which functions bypass them.
//!
//! The host compares the locks of a transaction with the granted schemas. Three kinds of functions bypass this check. A
//! function with `SECURITY DEFINER` reads, with the rights of its owner, data that the role may not read itself, which
//! counts as allowed. A procedural function whose block with `EXCEPTION` ends with an error releases the locks of this
//! block, but keeps the data that it has read in its variables. A function that is `PARALLEL SAFE` can be run by a
//! parallel worker, another process with its own locks. Transactions begin with parallel workers turned off, but a
//! statement can turn them on with `set_config`, and off again before the check. Scalar functions in SQL without
//! settings of their own are not of this kind: the planner locks their relations when it tries to inline them. In a
//! granted schema this is the purpose of such a function. In any other schema it is an oversight, if the role may call
//! it.
//!
//! `xpath_table` of the extension `xml2` is `PARALLEL SAFE` and runs any SQL, so it is an oversight in every schema.

/// Finds the granted schemas that do not exist.
pub(crate) fn find_missing(schemas: &[String]) -> String {
    let values: Vec<_> = schemas.iter().map(|schema| format!("({}::text)", literal(schema))).collect();
    format!(
        "SELECT wanted.name FROM (VALUES {}) AS wanted (name) \
         WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = wanted.name)",
        values.join(", ")
    )
}

/// Finds the granted schemas that the role may not use.
pub(crate) fn find_unusable(schemas: &[String]) -> String {
    format!(
        "SELECT nspname::text FROM pg_catalog.pg_namespace WHERE nspname IN ({}) AND NOT {}",
        literals(schemas),
        any_member("pg_catalog.has_schema_privilege(member.oid, pg_namespace.oid, 'USAGE')")
    )
}

/// Finds the first six functions that the role may call, and that bypass the check of schemas: those outside of the
/// granted schemas, and functions of extensions that run any SQL.
pub(crate) fn find_functions(schemas: &[String]) -> String {
    format!(
        "SELECT pg_catalog.format('%I.%I', nspname, proname) FROM pg_catalog.pg_proc \
         JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace \
         JOIN pg_catalog.pg_language ON pg_language.oid = prolang \
         WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' AND prokind IN ('f', 'w') \
         AND (nspname NOT IN ({}) AND (prosecdef \
         OR lanname NOT IN ('internal', 'c', 'sql') AND (proparallel = 's' OR prosrc ~* '\\mexception\\M') \
         OR lanname = 'sql' AND proparallel = 's' \
         AND (proretset OR proconfig IS NOT NULL OR prorettype = 'pg_catalog.record'::pg_catalog.regtype)) \
         OR lanname = 'c' AND proparallel = 's' AND prosrc = 'xpath_table') AND {} \
         GROUP BY 1 ORDER BY 1 LIMIT 6",
        literals(schemas),
        any_member(
            "pg_catalog.has_schema_privilege(member.oid, pg_namespace.oid, 'USAGE') \
             AND pg_catalog.has_function_privilege(member.oid, pg_proc.oid, 'EXECUTE')"
        )
    )
}

/// Whether the role of the connection, or one that it can switch to, has this privilege.
fn any_member(privilege: &str) -> String {
    format!(
        "EXISTS (SELECT FROM pg_catalog.pg_roles AS member \
         WHERE pg_catalog.pg_has_role(session_user, member.oid, 'MEMBER') AND {privilege})"
    )
}

fn literals(texts: &[String]) -> String {
    texts.iter().map(|text| literal(text)).collect::<Vec<_>>().join(", ")
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
