package main

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// server is a database in memory, and the connector of its driver. It knows the
// statements INSERT key, value and SELECT key.
type server struct {
	down  atomic.Bool
	calls atomic.Int64 // that reached it, or would have

	mu   sync.Mutex
	rows map[string]string
}

// serverError is what the server says to a statement it does not like.
type serverError struct{ state, text string }

func (e *serverError) Error() string    { return e.text }
func (e *serverError) SQLState() string { return e.state }

// Connect fails while the server is down, as a dial does.
func (s *server) Connect(context.Context) (driver.Conn, error) {
	if s.reach() != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return session{s}, nil
}

// Driver and Open are asked by nobody here.
func (s *server) Driver() driver.Driver            { return s }
func (s *server) Open(string) (driver.Conn, error) { return s.Connect(context.Background()) }

func (s *server) reach() error {
	s.calls.Add(1)
	if s.down.Load() {
		return driver.ErrBadConn
	}
	return nil
}

func (s *server) do(query string, args []driver.NamedValue) (found []string, err error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := func() string { return fmt.Sprint(args[0].Value) }
	switch {
	case query == "INSERT" && len(args) == 2:
		if _, has := s.rows[key()]; has {
			return nil, &serverError{"23505", "duplicate key: " + key()}
		}
		if s.rows == nil {
			s.rows = map[string]string{}
		}
		s.rows[key()] = fmt.Sprint(args[1].Value)
	case query == "SELECT" && len(args) == 1:
		if value, has := s.rows[key()]; has {
			found = append(found, value)
		}
	default:
		return nil, &serverError{"42601", "syntax error at " + query}
	}
	return found, nil
}

// session is a connection. It has what this show needs of what drivers have.
type session struct{ server *server }

func (c session) Close() error                        { return nil }
func (c session) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c session) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }

func (c session) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	_, err := c.server.do(query, args)
	return driver.RowsAffected(1), err
}

func (c session) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	found, err := c.server.do(query, args)
	return &result{found}, err
}

type result struct{ values []string }

func (r *result) Columns() []string { return []string{"value"} }
func (r *result) Close() error      { return nil }

func (r *result) Next(dest []driver.Value) error {
	if len(r.values) == 0 {
		return io.EOF
	}
	dest[0], r.values = r.values[0], r.values[1:]
	return nil
}
