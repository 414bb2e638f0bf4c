//! The queries of `check` about the schemas of a grant: whether they exist, and which functions bypass them.
//!
//! The host compares the locks of a transaction with the granted schemas. Two kinds of functions bypass this check. A function
//! with `SECURITY DEFINER` reads, with the rights of its owner, data that the role may not read itself, which counts as
//! allowed. A procedural function whose block with `EXCEPTION` ends with an error releases the locks of this block, but keeps
//! the data that it has read in its variables. In a granted schema this is the purpose of such a function. In any other schema
//! it is an oversight, if the role may call it.

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

/// Finds the first six functions outside of the granted schemas that the role may call, and that bypass the check of schemas.
pub(crate) fn find_functions(schemas: &[String]) -> String {
    format!(
        "SELECT pg_catalog.format('%I.%I', nspname, proname) FROM pg_catalog.pg_proc \
         JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pronamespace \
         JOIN pg_catalog.pg_language ON pg_language.oid = prolang \
         WHERE nspname NOT IN ({}) AND nspname !~ '^pg_' AND nspname <> 'information_schema' AND prokind IN ('f', 'w') \
         AND (prosecdef OR lanname NOT IN ('internal', 'c', 'sql') AND prosrc ~* '\\mexception\\M') AND {} \
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
