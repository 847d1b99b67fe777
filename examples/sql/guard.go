package main

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"

	"github.com/fusebox-go/fusebox"
)

// Guard returns c with a breaker around the calls of its connections, for
// [sql.OpenDB]. database/sql finds in them just what the driver has: where an
// optional interface is claimed that the driver lacks, the answer is the one
// that stands for the lack.
//
// A call is a connect, a ping, a prepare, an execution, a begin, a commit, or a
// query up to the end of its rows. A rejection reaches the caller as an
// [*fusebox.OpenError]: were it [driver.ErrBadConn], database/sql would try
// again and throw connections away.
//
// What must happen whatever the state is never rejected: a commit, a rollback,
// and everything named Close. Nor can the breaker reject a call that waits for
// a connection because all [sql.DB.SetMaxOpenConns] are in use: give every call
// a deadline, and those that hang will let go of theirs.
func Guard(c driver.Connector, b *fusebox.Breaker) driver.Connector {
	return &connector{c, b}
}

// guarded makes a call. Who takes the permit in it finishes it later.
func guarded[T any](ctx context.Context, allow func(context.Context) (fusebox.Permit, error), call func(*fusebox.Permit) (T, error)) (v T, err error) {
	permit, err := allow(ctx)
	if err != nil {
		return v, err
	}
	defer permit.Record(fusebox.Failure) // a panic
	v, err = call(&permit)
	if err == driver.ErrSkip { //nolint:errorlint // as database/sql compares: no call was made
		permit.Cancel()
	}
	permit.Finish(ctx, err)
	return v, err
}

type connector struct {
	driver.Connector
	breaker *fusebox.Breaker
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	return guarded(ctx, c.breaker.Allow, func(*fusebox.Permit) (driver.Conn, error) {
		inner, err := c.Connector.Connect(ctx)
		if err != nil {
			return nil, err
		}
		return newConn(inner, c.breaker), nil
	})
}

// Close is called by [sql.DB.Close].
func (c *connector) Close() error {
	if x, ok := c.Connector.(io.Closer); ok {
		return x.Close()
	}
	return nil
}

// conn is a driver's connection. It is used by one goroutine at a time, as are
// its statements and rows. The methods without a context are the driver's own:
// database/sql does not call them where there are those with one.
type conn struct {
	driver.Conn
	breaker *fusebox.Breaker
	unreset bool // the breaker did not let the session be reset
}

// newConn claims [driver.SessionResetter] and [driver.Validator] where the
// driver does: to have both makes database/sql keep a connection whose
// transaction was cut short.
func newConn(inner driver.Conn, b *fusebox.Breaker) driver.Conn {
	c := &conn{Conn: inner, breaker: b}
	r, resets := inner.(driver.SessionResetter)
	v, validates := inner.(driver.Validator)
	switch {
	case resets && validates:
		return struct {
			*conn
			resetter
			driver.Validator
		}{c, resetter{c, r}, v}
	case resets:
		return struct {
			*conn
			resetter
		}{c, resetter{c, r}}
	case validates:
		return struct {
			*conn
			driver.Validator
		}{c, v}
	default:
		return c
	}
}

// Unwrap returns the driver's connection, for callers of [sql.Conn.Raw].
func (c *conn) Unwrap() driver.Conn { return c.Conn }

func (c *conn) allow(ctx context.Context) (fusebox.Permit, error) {
	permit, err := c.breaker.Allow(ctx)
	if err == nil && c.unreset { // it would be admitted by now: on another connection
		permit.Cancel()
		err = driver.ErrBadConn
	}
	return permit.Take(), err
}

type resetter struct {
	c     *conn
	inner driver.SessionResetter
}

// ResetSession is called before a connection from the pool is used again. Some
// drivers ask the server, others look at the connection only: so a success says
// nothing, nor does a connection that has died meanwhile. A server that lets
// the deadline pass is a failure. database/sql goes on after a rejection, and
// the call that follows is rejected too.
func (r resetter) ResetSession(ctx context.Context) error {
	permit, err := r.c.breaker.Allow(ctx)
	r.c.unreset = err != nil
	if err != nil {
		return err
	}
	defer permit.Cancel()
	err = r.inner.ResetSession(ctx)
	if err != nil && ctx.Err() != nil {
		permit.Finish(ctx, err)
	}
	return err
}

func (c *conn) Ping(ctx context.Context) error {
	x, ok := c.Conn.(driver.Pinger)
	if !ok {
		return nil
	}
	_, err := guarded(ctx, c.allow, func(*fusebox.Permit) (struct{}, error) { return struct{}{}, x.Ping(ctx) })
	return err
}

// CheckNamedValue is asked for the arguments of ExecContext and QueryContext.
// Where the driver has neither it accepts all: they will return ErrSkip, and
// the statement is asked.
func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	switch c.Conn.(type) {
	case driver.ExecerContext, driver.QueryerContext, oldExecer, oldQueryer:
		return check(v, c.Conn)
	default:
		return nil
	}
}

// check asks the first that can be asked.
func check(v *driver.NamedValue, checkers ...any) error {
	for _, c := range checkers {
		if x, ok := c.(driver.NamedValueChecker); ok {
			return x.CheckNamedValue(v)
		}
	}
	return driver.ErrSkip
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return guarded(ctx, c.allow, func(*fusebox.Permit) (driver.Result, error) {
		switch x := c.Conn.(type) {
		case driver.ExecerContext:
			return x.ExecContext(ctx, query, args)
		case oldExecer:
			v, err := values(args)
			if err != nil {
				return nil, err
			}
			return x.Exec(query, v)
		default:
			return nil, driver.ErrSkip
		}
	})
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return guarded(ctx, c.allow, func(p *fusebox.Permit) (driver.Rows, error) {
		switch x := c.Conn.(type) {
		case driver.QueryerContext:
			r, err := x.QueryContext(ctx, query, args)
			return newRows(ctx, p, r, err)
		case oldQueryer:
			v, err := values(args)
			if err != nil {
				return nil, err
			}
			r, err := x.Query(query, v)
			return newRows(ctx, p, r, err)
		default:
			return nil, driver.ErrSkip
		}
	})
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return guarded(ctx, c.allow, func(*fusebox.Permit) (s driver.Stmt, err error) {
		if x, ok := c.Conn.(driver.ConnPrepareContext); ok {
			s, err = x.PrepareContext(ctx, query)
		} else {
			s, err = c.Prepare(query)
		}
		if err != nil {
			return nil, err
		}
		return &stmt{s, c}, nil
	})
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	x, ok := c.Conn.(driver.ConnBeginTx)
	if !ok && opts != (driver.TxOptions{}) {
		return nil, errors.New("driver knows neither isolation levels nor read-only transactions")
	}
	return guarded(ctx, c.allow, func(*fusebox.Permit) (t driver.Tx, err error) {
		if ok {
			t, err = x.BeginTx(ctx, opts)
		} else {
			t, err = oldBeginner(c.Conn).Begin()
		}
		if err != nil {
			return nil, err
		}
		return &tx{t, ctx, c.breaker}, nil
	})
}

// tx is a transaction. Its end is never rejected: database/sql would put the
// connection back into the pool with the transaction still open.
type tx struct {
	driver.Tx
	ctx     context.Context
	breaker *fusebox.Breaker
}

// Commit is judged if the breaker admits it, and done in any case. A permit
// that was not given is a finished one.
func (t *tx) Commit() error {
	permit, _ := t.breaker.Allow(t.ctx)
	defer permit.Record(fusebox.Failure)
	err := t.Tx.Commit()
	permit.Finish(t.ctx, err)
	return err
}

type stmt struct {
	driver.Stmt
	c *conn
}

func (s *stmt) CheckNamedValue(v *driver.NamedValue) error { return check(v, s.Stmt, s.c.Conn) }

// ColumnConverter is an older form of CheckNamedValue, asked after it.
func (s *stmt) ColumnConverter(i int) driver.ValueConverter {
	if x, ok := s.Stmt.(interface {
		ColumnConverter(i int) driver.ValueConverter
	}); ok {
		return x.ColumnConverter(i)
	}
	return driver.DefaultParameterConverter
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return guarded(ctx, s.c.allow, func(*fusebox.Permit) (driver.Result, error) {
		if x, ok := s.Stmt.(driver.StmtExecContext); ok {
			return x.ExecContext(ctx, args)
		}
		v, err := values(args)
		if err != nil {
			return nil, err
		}
		return oldStmt(s.Stmt).Exec(v)
	})
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return guarded(ctx, s.c.allow, func(p *fusebox.Permit) (driver.Rows, error) {
		if x, ok := s.Stmt.(driver.StmtQueryContext); ok {
			r, err := x.QueryContext(ctx, args)
			return newRows(ctx, p, r, err)
		}
		v, err := values(args)
		if err != nil {
			return nil, err
		}
		r, err := oldStmt(s.Stmt).Query(v)
		return newRows(ctx, p, r, err)
	})
}

// rows hold their query's permit up to their end: a query that breaks off in
// the middle is a failure. (So with Config.SlowAfter the time the caller takes
// over them counts.)
type rows struct {
	driver.Rows
	ctx    context.Context
	permit fusebox.Permit
}

func newRows(ctx context.Context, p *fusebox.Permit, r driver.Rows, err error) (driver.Rows, error) {
	if err != nil {
		return nil, err
	}
	return &rows{r, ctx, p.Take()}, nil
}

func (r *rows) Next(dest []driver.Value) error { return r.seen(r.Rows.Next(dest)) }

func (r *rows) seen(err error) error {
	if err == nil {
		r.permit.Renew()
	} else if err != io.EOF { //nolint:errorlint // as database/sql compares
		r.permit.Finish(r.ctx, err)
	}
	return err
}

// Close is called at the end of the rows, when the caller has seen enough of
// them, and when the context is done.
func (r *rows) Close() error {
	err := r.Rows.Close()
	r.permit.Finish(r.ctx, cmp.Or(err, r.ctx.Err()))
	return err
}

func (r *rows) HasNextResultSet() bool {
	x, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && x.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if x, ok := r.Rows.(driver.RowsNextResultSet); ok {
		return r.seen(x.NextResultSet())
	}
	return io.EOF
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if x, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return x.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if x, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return x.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (length int64, ok bool) {
	if x, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return x.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if x, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return x.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if x, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return x.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}

// What drivers had before contexts came to database/sql, and some have still.
type (
	oldExecer interface {
		Exec(query string, args []driver.Value) (driver.Result, error)
	}
	oldQueryer interface {
		Query(query string, args []driver.Value) (driver.Rows, error)
	}
	oldBeginner interface{ Begin() (driver.Tx, error) }
	oldStmt     interface {
		Exec(args []driver.Value) (driver.Result, error)
		Query(args []driver.Value) (driver.Rows, error)
	}
)

func values(named []driver.NamedValue) ([]driver.Value, error) {
	v := make([]driver.Value, len(named))
	for i, n := range named {
		if n.Name != "" {
			return nil, fusebox.Ignore(errors.New("driver does not know named parameters"))
		}
		v[i] = n.Value
	}
	return v, nil
}
