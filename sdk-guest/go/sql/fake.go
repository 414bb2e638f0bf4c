package sql

// Fake makes a function answer the queries of a database in native tests. The function gets the parameters of the query as [Row] has
// them. A result with more than MaxRows rows is cut, as by the host. In a component, Fake has no effect.
//
//	sql.Fake("shop", sql.Info{Kind: sql.SQLite}, func(statement string, parameters []any) (*sql.Rows, error) {
//		return &sql.Rows{Columns: []sql.Column{{Name: "name"}}, Rows: []sql.Row{{"fig"}}}, nil
//	})
func Fake(name string, info Info, answer func(statement string, parameters []any) (*Rows, error)) {
	fake(name, info, answer)
}
