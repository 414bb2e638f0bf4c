//go:build wasip1

package sql

import (
	"encoding/json"
	"errors"
	"math"
	"time"

	"mcp-host.example/provider"
	wit "mcp-host.example/provider/internal/bindings/imports/mcp_host_sql_databases"
	types "mcp-host.example/provider/internal/wit/types"
)

func granted() []string { return wit.Granted() }

func describe(name string) (Info, error) {
	info, err := result(name, wit.Describe(name))
	kind := PostgreSQL
	if info.Kind == wit.DatabaseKind_Sqlite {
		kind = SQLite
	}
	return Info{kind, info.Version, info.Schemas, info.MaxRows, info.MaxBytes}, err
}

func query(database Database, statement string, parameters []any) (*Rows, error) {
	lowered := make([]wit.Value, len(parameters))
	for index, parameter := range parameters {
		lowered[index] = lower(parameter)
	}
	maxRows := types.None[uint32]()
	if database.MaxRows > 0 {
		maxRows = types.Some(database.MaxRows)
	}
	found, err := result(database.Name, wit.Query(database.Name, statement, lowered, maxRows))
	if err != nil {
		return nil, err
	}
	rows := &Rows{HasMore: found.HasMore, Rows: make([]Row, len(found.Rows))}
	for _, column := range found.Columns {
		rows.Columns = append(rows.Columns, Column{column.Name, column.TypeName})
	}
	for index, row := range found.Rows {
		values := make(Row, len(row.Values))
		for at, value := range row.Values {
			values[at] = lift(value)
		}
		rows.Rows[index] = values
	}
	return rows, nil
}

func lower(value any) wit.Value {
	list, isList := value.([]any)
	if !isList {
		return wit.MakeValueScalar(lowerScalar(value))
	}
	// It was checked before.
	dimensions, elements, _ := flat(list)
	scalars := make([]wit.Scalar, len(elements))
	for index, element := range elements {
		scalars[index] = lowerScalar(element)
	}
	return wit.MakeValueSqlArray(wit.SqlArray{Dimensions: dimensions, Elements: scalars})
}

func lowerScalar(value any) wit.Scalar {
	switch value := value.(type) {
	case bool:
		return wit.MakeScalarBoolean(value)
	case int64:
		return wit.MakeScalarInteger(value)
	case float64:
		return wit.MakeScalarFloat(value)
	case Decimal:
		return wit.MakeScalarDecimal(string(value))
	case string:
		return wit.MakeScalarText(value)
	case []byte:
		return wit.MakeScalarBytes(value)
	case Date:
		return wit.MakeScalarDate(string(value))
	case TimeOfDay:
		return wit.MakeScalarTime(string(value))
	case Timestamp:
		return wit.MakeScalarTimestamp(string(value))
	case time.Time:
		return wit.MakeScalarInstant(value.UTC().Format(time.RFC3339Nano))
	case UUID:
		return wit.MakeScalarUuid(string(value))
	case json.RawMessage:
		return wit.MakeScalarJson(string(value))
	default:
		return wit.MakeScalarNull()
	}
}

func lift(value wit.Value) any {
	if value.Tag() == wit.Value_Scalar {
		return liftScalar(value.Scalar())
	}
	array := value.SqlArray()
	elements := make([]any, len(array.Elements))
	for index, element := range array.Elements {
		elements[index] = liftScalar(element)
	}
	return nested(array.Dimensions, elements)
}

func liftScalar(scalar wit.Scalar) any {
	switch scalar.Tag() {
	case wit.Scalar_Null:
		return nil
	case wit.Scalar_Boolean:
		return scalar.Boolean()
	case wit.Scalar_Integer:
		return scalar.Integer()
	case wit.Scalar_Float:
		return scalar.Float()
	case wit.Scalar_Decimal:
		return Decimal(scalar.Decimal())
	case wit.Scalar_Text:
		return scalar.Text()
	case wit.Scalar_Bytes:
		return append([]byte{}, scalar.Bytes()...)
	case wit.Scalar_Date:
		return Date(scalar.Date())
	case wit.Scalar_Time:
		return TimeOfDay(scalar.Time())
	case wit.Scalar_Timestamp:
		return Timestamp(scalar.Timestamp())
	case wit.Scalar_Instant:
		point, err := time.Parse(time.RFC3339Nano, scalar.Instant())
		if err != nil {
			return scalar.Instant()
		}
		return point
	case wit.Scalar_Uuid:
		return UUID(scalar.Uuid())
	case wit.Scalar_Json:
		return json.RawMessage(scalar.Json())
	default:
		return scalar.Other()
	}
}

func result[T any](name string, of types.Result[T, wit.QueryFailure]) (T, error) {
	if of.IsErr() {
		var none T
		return none, failure(name, of.Err())
	}
	return of.Ok(), nil
}

func failure(name string, of wit.QueryFailure) error {
	switch of.Tag() {
	case wit.QueryFailure_NotGranted:
		return notGranted(name)
	case wit.QueryFailure_Rejected:
		rejected := of.Rejected()
		position := min(rejected.Position.SomeOr(0), math.MaxInt32)
		return &Rejected{rejected.Sqlstate, rejected.Message, int(position)}
	case wit.QueryFailure_TooLarge:
		return provider.InvalidRequest("%s", of.TooLarge())
	case wit.QueryFailure_Unavailable:
		return provider.Unavailable(0, "%s", of.Unavailable())
	case wit.QueryFailure_Timeout:
		return provider.Unavailable(0, "the query took too long")
	default:
		return errors.New("the query failed")
	}
}

func fake(string, Info, func(string, []any) (*Rows, error)) {}
