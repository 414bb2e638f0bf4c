//! What the role of a connection may do: a role that can write is refused, because functions of PostgreSQL and its
//! extensions reach beyond a transaction.
//!
//! The role that connected counts, with all roles that it is a member of: a statement can switch to those.

/// Returns the gravest reason why the role can write, or no row.
pub(super) const WRITE_ACCESS: &str = r"
WITH member AS (
    SELECT * FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
), reason (rank, text) AS (
    SELECT 1, pg_catalog.format('%I is a superuser', rolname) FROM member WHERE rolsuper
    UNION ALL
    SELECT 2, pg_catalog.format('%I may create roles or databases, or replicate', rolname)
    FROM member WHERE rolcreaterole OR rolcreatedb OR rolreplication
    UNION ALL
    SELECT 3, pg_catalog.format('it is a member of %I', rolname)
    FROM member WHERE rolname IN (
        'pg_checkpoint', 'pg_create_subscription', 'pg_execute_server_program', 'pg_maintain', 'pg_read_server_files',
        'pg_signal_backend', 'pg_write_all_data', 'pg_write_server_files'
    )
    UNION ALL
    SELECT 4, pg_catalog.format('%I may create schemas in the database', rolname)
    FROM member WHERE pg_catalog.has_database_privilege(oid, pg_catalog.current_database(), 'CREATE')
    UNION ALL
    SELECT 5, pg_catalog.format('%I may create objects in the schema %I', rolname, nspname)
    FROM member, pg_catalog.pg_namespace
    WHERE nspname !~ '^pg_' AND pg_catalog.has_schema_privilege(member.oid, pg_namespace.oid, 'CREATE')
    UNION ALL
    SELECT 6, pg_catalog.format('%I may write to %I.%I', rolname, nspname, relname)
    FROM member, pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND nspname !~ '^pg_' AND nspname <> 'information_schema'
    AND (
        pg_catalog.has_table_privilege(member.oid, pg_class.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
        OR pg_catalog.has_any_column_privilege(member.oid, pg_class.oid, 'INSERT, UPDATE')
    )
)
SELECT text FROM reason ORDER BY rank, text LIMIT 1";
