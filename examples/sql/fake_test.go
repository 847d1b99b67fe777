package main

import (
	"context"
	"database/sql/driver"
	"io"
	"reflect"
)

// fake is a driver that does as told: it writes down what it is asked, and
// fails where it has an error.
type fake struct {
	open func(*fake) driver.Conn
	fail map[string]error
	do   func(ctx context.Context, what string) error // if not nil, instead of fail
	log  []string
}

func (f *fake) at(ctx context.Context, what string) error {
	f.log = append(f.log, what)
	if f.do != nil {
		return f.do(ctx, what)
	}
	return f.fail[what]
}

func (f *fake) saw(what string) error { return f.at(context.Background(), what) }

func (f *fake) Driver() driver.Driver { return nil }
func (f *fake) Close() error          { return f.saw("close connector") }

func (f *fake) Connect(ctx context.Context) (driver.Conn, error) {
	if err := f.at(ctx, "connect"); err != nil {
		return nil, err
	}
	return f.open(f), nil
}

// bare is a connection without anything optional; old has what came before
// contexts, full has all there is now.
type (
	bare struct{ *fake }
	old  struct{ bare }
	full struct {
		bare
		resets
		valid
	}
	resets struct{ f *fake }
	valid  struct{ f *fake }
)

func bareConn(f *fake) driver.Conn { return bare{f} }
func oldConn(f *fake) driver.Conn  { return old{bare{f}} }
func fullConn(f *fake) driver.Conn { return full{bare{f}, resets{f}, valid{f}} }

func (c bare) Close() error { return c.saw("close") }
func (c bare) Begin() (driver.Tx, error) {
	return fakeTx{c.fake}, c.saw("begin")
}

func (c bare) Prepare(string) (driver.Stmt, error) {
	return bareStmt{c.fake}, c.saw("prepare")
}

func (c old) Exec(string, []driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), c.saw("exec")
}

func (c old) Query(string, []driver.Value) (driver.Rows, error) {
	return &bareRows{f: c.fake}, c.saw("query")
}

func (c full) Ping(ctx context.Context) error { return c.at(ctx, "ping") }
func (c full) BeginTx(ctx context.Context, _ driver.TxOptions) (driver.Tx, error) {
	return fakeTx{c.fake}, c.at(ctx, "begin tx")
}

func (c full) PrepareContext(ctx context.Context, _ string) (driver.Stmt, error) {
	return fullStmt{bareStmt{c.fake}}, c.at(ctx, "prepare context")
}

func (c full) ExecContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), c.at(ctx, "exec context")
}

func (c full) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	return &fullRows{bareRows{f: c.fake}}, c.at(ctx, "query context")
}

func (c full) CheckNamedValue(v *driver.NamedValue) error {
	if _, ok := v.Value.(special); ok {
		v.Value = "special"
		return c.saw("check")
	}
	return driver.ErrSkip
}

func (c resets) ResetSession(ctx context.Context) error { return c.f.at(ctx, "reset") }
func (c valid) IsValid() bool                           { return c.f.saw("valid") == nil }

// special is a type only the checkers of this driver know.
type special struct{}

type fakeTx struct{ f *fake }

func (t fakeTx) Commit() error   { return t.f.saw("commit") }
func (t fakeTx) Rollback() error { return t.f.saw("rollback") }

type (
	bareStmt struct{ f *fake }
	fullStmt struct{ bareStmt }
)

func (s bareStmt) Close() error  { return s.f.saw("close statement") }
func (s bareStmt) NumInput() int { return -1 }

func (s bareStmt) Exec([]driver.Value) (driver.Result, error) {
	return driver.RowsAffected(1), s.f.saw("statement exec")
}

func (s bareStmt) Query([]driver.Value) (driver.Rows, error) {
	return &bareRows{f: s.f}, s.f.saw("statement query")
}

func (s fullStmt) ExecContext(ctx context.Context, _ []driver.NamedValue) (driver.Result, error) {
	return driver.RowsAffected(1), s.f.at(ctx, "statement exec context")
}

func (s fullStmt) QueryContext(ctx context.Context, _ []driver.NamedValue) (driver.Rows, error) {
	return &fullRows{bareRows{f: s.f}}, s.f.at(ctx, "statement query context")
}

// checkingStmt and convertingStmt are of connections that do not check.
type (
	checkingStmt   struct{ bareStmt }
	convertingStmt struct{ bareStmt }
	checkingConn   struct{ bare }
	convertingConn struct{ bare }
)

func (c checkingConn) Prepare(string) (driver.Stmt, error) {
	return checkingStmt{bareStmt{c.fake}}, nil
}

func (c convertingConn) Prepare(string) (driver.Stmt, error) {
	return convertingStmt{bareStmt{c.fake}}, nil
}

func (s checkingStmt) CheckNamedValue(v *driver.NamedValue) error {
	v.Value = "special"
	return s.f.saw("statement check")
}

func (s convertingStmt) ColumnConverter(int) driver.ValueConverter { return converter(s) }

type converter struct{ bareStmt }

func (c converter) ConvertValue(any) (driver.Value, error) {
	return "special", c.f.saw("statement convert")
}

// bareRows are two sets of two rows, of which a bare one shows the first.
type (
	bareRows struct {
		f         *fake
		row, sets int
	}
	fullRows struct{ bareRows }
)

func (r *bareRows) Columns() []string { return []string{"column"} }
func (r *bareRows) Close() error      { return r.f.saw("close rows") }

func (r *bareRows) Next(dest []driver.Value) error {
	if err := r.f.saw("next"); err != nil {
		return err
	}
	if r.row == 2 {
		return io.EOF
	}
	r.row++
	dest[0] = int64(r.row)
	return nil
}

func (r *fullRows) HasNextResultSet() bool { return r.sets == 0 }

func (r *fullRows) NextResultSet() error {
	if err := r.f.saw("next set"); err != nil {
		return err
	}
	if r.sets == 1 {
		return io.EOF
	}
	r.row, r.sets = 0, 1
	return nil
}

func (r *fullRows) ColumnTypeScanType(int) reflect.Type        { return reflect.TypeFor[int64]() }
func (r *fullRows) ColumnTypeDatabaseTypeName(int) string      { return "NUMBER" }
func (r *fullRows) ColumnTypeLength(int) (int64, bool)         { return 7, true }
func (r *fullRows) ColumnTypeNullable(int) (nullable, ok bool) { return true, true }
func (r *fullRows) ColumnTypePrecisionScale(int) (precision, scale int64, ok bool) {
	return 9, 2, true
}
