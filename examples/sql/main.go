// Command sql shows database/sql guarded by a breaker, with the standard
// library alone: Guard, in guard.go, is there to be copied; Classify says what
// is a failure, and is there to be adapted. It needs nothing from outside: the
// database is a map, behind a driver of its own.
//
// With a real one the first lines are, for PostgreSQL by pgx and for MySQL:
//
//	db := sql.OpenDB(Guard(stdlib.GetConnector(*config), breaker))
//
//	connector, err := mysql.NewConnector(config)
//	db := sql.OpenDB(Guard(connector, breaker))
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

// Classify takes what a server has said for an answer, whatever it said: a
// constraint that is violated, a statement it cannot read. An SQLSTATE of class
// 53 (out of resources), 57 (an operator, a shutdown) or 58 (an error of the
// system) says that it is unwell. All else is left to the default: a network
// error, a deadline, driver.ErrBadConn are failures, and a caller that cancels
// is ignored.
//
// Errors of pgx and lib/pq have the method asked for here; with other drivers
// ask for the type of theirs, as in errors.As(err, &mysqlError). There is no
// sql.ErrNoRows at this level: database/sql makes it from a query that succeeded.
func Classify(ctx context.Context, err error) fusebox.Outcome {
	unwell := []string{
		"08", // connection exception: a pooler says so too
		"53", // insufficient resources
		"57", // operator intervention: shutting down
		"58", // system error
		"F0", // configuration file error
		"XX", // internal error, data corrupted
	}
	var answer interface{ SQLState() string }
	if errors.As(err, &answer) {
		switch state := answer.SQLState(); {
		case slices.Contains(unwell, state[:min(len(state), 2)]):
		default:
			return fusebox.Success
		}
	}
	return fusebox.DefaultClassify(ctx, err)
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	var clock fuseboxtest.Clock // so that the show takes no time
	breaker := fusebox.New("orders", fusebox.Config{
		Classify: Classify, Consecutive: 5,
		Now: clock.Now, OpenJitter: -1,
	})
	var server server
	db := sql.OpenDB(Guard(&server, breaker))
	defer db.Close() //nolint:errcheck // nothing is lost
	ctx := context.Background()

	insert := func(key, value string) {
		_, err := db.ExecContext(ctx, "INSERT", key, value)
		fmt.Fprintf(w, "insert %s: %v\n", key, err)
	}
	get := func(key string) {
		var value string
		err := db.QueryRowContext(ctx, "SELECT", key).Scan(&value)
		fmt.Fprintf(w, "select %s: %q, %v\n", key, value, err)
	}

	insert("a", "apples")
	insert("a", "pears")
	get("a")
	get("b")
	t := breaker.Snapshot().Totals
	fmt.Fprintf(w, "The breaker is %v: %d failures.\n", breaker.State(), t.Failures)

	fmt.Fprintln(w, "\nThe server goes away.")
	server.down.Store(true)
	for breaker.State() == fusebox.Closed {
		get("a")
	}
	reached := server.calls.Load()
	get("a")
	fmt.Fprintf(w, "The breaker is %v: that one reached the server %d times.\n", breaker.State(), server.calls.Load()-reached)

	fmt.Fprintln(w, "\nIt comes back, and a second passes.")
	server.down.Store(false)
	clock.Advance(time.Second)
	for breaker.State() != fusebox.Closed {
		get("a")
	}
	fmt.Fprintf(w, "The breaker is %v.\n", breaker.State())
}
