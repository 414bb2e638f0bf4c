// Package sql queries SQL databases, which the host connects to, and the administrator grants by name
// (grants.sql = [{ name = "shop", … }]).
//
//	rows, err := sql.Database{Name: "shop", MaxRows: 100}.Query("SELECT name, price FROM items WHERE price < $1 ORDER BY price", 10)
//	if err != nil {
//		return nil, err
//	}
//	for _, row := range rows.Rows {
//		var name string
//		var price float64
//		if err := row.Scan(&name, &price); err != nil {
//			return nil, err
//		}
//	}
//
// The host has the address and the password, and enforces that a provider only reads. A statement is one query, in the dialect of the
// kind of database; $1 is the first parameter in both. Each query sees one state of the database, and two queries may see two.
//
// A database that is not granted, and a statement that it refuses ([Rejected]), are internal failures: the text goes to the log. A result
// that is too large fails with the error of provider.InvalidRequest; a database that cannot be reached, or takes too long, with the error
// of provider.Unavailable.
//
// In a native test a database answers by a function: see [Fake].
//
// A component imports mcp-host:sql if it uses this package.
package sql

import "fmt"

// Database is a granted database. Making one sends nothing.
type Database struct {
	// Name is the name of the grant.
	Name string
	// MaxRows is the maximum number of rows of a result: 0 is as many as the grant allows.
	MaxRows uint32
}

// Kind is the kind of a database, and so the dialect of its SQL.
type Kind string

// The kinds of databases.
const (
	PostgreSQL Kind = "postgresql"
	SQLite     Kind = "sqlite"
)

// Info is what a database is, and what a query may return.
type Info struct {
	Kind    Kind
	Version string
	// Schemas can be read, in the order in which names are looked up.
	Schemas []string
	// MaxRows and MaxBytes are the maximum of a result.
	MaxRows  uint32
	MaxBytes uint64
}

// Column is a column of a result.
type Column struct {
	// Name need not be unique.
	Name string
	// Type is the name of the type in the database, such as int4; empty if it has none.
	Type string
}

// Rows is the result of a query.
type Rows struct {
	Columns []Column
	Rows    []Row
	// HasMore says whether the query has more rows than it returned.
	HasMore bool
}

// Row has a value for each column: nil for NULL, bool, int64, float64, string, []byte, [Decimal], [Date], [TimeOfDay], [Timestamp], [UUID],
// json.RawMessage, time.Time for a point in time, or a []any of these for an array, nested by its dimensions.
type Row []any

// Rejected is the error for a statement that the database refused.
type Rejected struct {
	// SQLState is such as 42P01.
	SQLState string
	Message  string
	// Position is the position in the statement, in characters from 1; 0 if it is not known.
	Position int
}

// Error returns the message, with the SQLSTATE.
func (rejected *Rejected) Error() string {
	return fmt.Sprintf("the database refused the statement (%s): %s", rejected.SQLState, rejected.Message)
}

// Granted returns the names of the granted databases, sorted.
func Granted() []string { return granted() }

// Describe returns what the database is.
func (database Database) Describe() (Info, error) { return describe(database.Name) }

// Query runs one query and returns its first rows. A parameter may be a value as [Row] has it, any type of the same kind, a pointer
// to one, a slice for an array, and a struct or a map, which are JSON.
func (database Database) Query(statement string, parameters ...any) (*Rows, error) {
	values := make([]any, len(parameters))
	for index, parameter := range parameters {
		value, err := parameterOf(parameter)
		if err != nil {
			return nil, fmt.Errorf("parameter $%d: %w", index+1, err)
		}
		values[index] = value
	}
	return query(database, statement, values)
}

// Maps returns the rows as maps by the names of the columns, which are JSON; of two columns with the same name, the last one counts.
func (rows *Rows) Maps() []map[string]any {
	maps := make([]map[string]any, 0, len(rows.Rows))
	for _, row := range rows.Rows {
		values := make(map[string]any, len(row))
		for index, column := range rows.Columns {
			if index < len(row) {
				values[column.Name] = row[index]
			}
		}
		maps = append(maps, values)
	}
	return maps
}

func notGranted(name string) error {
	return fmt.Errorf("the database `%s` is not granted: add it to `grants.sql`", name)
}
