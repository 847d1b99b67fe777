package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/fuseboxtest"
)

func TestTheExample(t *testing.T) {
	var out strings.Builder
	run(&out)
	for _, want := range []string{
		"insert a: duplicate key: a\n", `select b: "", sql: no rows in result set` + "\n",
		"The breaker is closed: 0 failures.\n", `select a: "", dial tcp: connection refused` + "\n",
		`fusebox: "orders" is open (5 failures in a row >= 5), retry in 1s`,
		"The breaker is open: that one reached the server 0 times.\n", "The breaker is closed.\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestClassify(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want fusebox.Outcome
	}{
		{t.Context(), nil, fusebox.Success},
		{t.Context(), &serverError{"23505", "constraint"}, fusebox.Success},
		{t.Context(), fmt.Errorf("in a transaction: %w", &serverError{"42601", "syntax"}), fusebox.Success},
		{t.Context(), &serverError{"53300", "too many connections"}, fusebox.Failure},
		{t.Context(), &serverError{"57P01", "shutdown"}, fusebox.Failure},
		{t.Context(), &serverError{"58030", "disk"}, fusebox.Failure},
		{t.Context(), &serverError{"08006", "connection failure"}, fusebox.Failure},
		{t.Context(), &serverError{"XX001", "data corrupted"}, fusebox.Failure},
		{t.Context(), &serverError{"F0000", "configuration file"}, fusebox.Failure},
		{t.Context(), &serverError{"", "no state"}, fusebox.Success},
		{t.Context(), driver.ErrBadConn, fusebox.Failure},
		{t.Context(), &net.OpError{Op: "read", Err: syscall.ECONNRESET}, fusebox.Failure},
		{t.Context(), os.ErrDeadlineExceeded, fusebox.Failure},
		{late, context.DeadlineExceeded, fusebox.Failure},
		{cancelled, errors.New("canceled, in the words of a driver"), fusebox.Ignored},
		{cancelled, &serverError{"57014", "query canceled"}, fusebox.Ignored},
		{t.Context(), &serverError{"57014", "statement timeout"}, fusebox.Failure},
	} {
		if got := Classify(c.ctx, c.err); got != c.want {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
	}
}

// world is a guarded database with one connection.
type world struct {
	*sql.DB
	*fake
	breaker *fusebox.Breaker
	clock   fuseboxtest.Clock
}

func newWorld(t *testing.T, open func(*fake) driver.Conn) *world {
	t.Helper()
	w := &world{fake: &fake{open: open, fail: map[string]error{}}}
	w.breaker = fusebox.New("db", fusebox.Config{
		Classify: Classify, Consecutive: 3, OpenJitter: -1, Now: w.clock.Now,
	})
	w.DB = sql.OpenDB(Guard(w.fake, w.breaker))
	t.Cleanup(func() { w.DB.Close() })
	return w
}

// use does all there is to do with a database and returns what can be seen of it.
func use(ctx context.Context, db *sql.DB) (seen []any) {
	see := func(v ...any) { seen = append(seen, v...) }
	read := func(r *sql.Rows, err error) {
		see(err)
		if err != nil {
			return
		}
		defer r.Close()
		types, err := r.ColumnTypes()
		see(err)
		for _, c := range types {
			length, hasLength := c.Length()
			nullable, hasNullable := c.Nullable()
			precision, scale, hasScale := c.DecimalSize()
			see(c.ScanType(), c.DatabaseTypeName(), length, hasLength, nullable, hasNullable, precision, scale, hasScale)
		}
		for more := true; more; more = r.NextResultSet() {
			for r.Next() {
				var n int
				see(r.Scan(&n), n)
			}
		}
		see(r.Err(), r.Close())
	}
	see(db.PingContext(ctx))
	for _, arg := range []any{1, special{}, sql.Named("n", 1)} {
		_, err := db.ExecContext(ctx, "exec", arg)
		see(err)
		read(db.QueryContext(ctx, "query", arg))
		stmt, err := db.PrepareContext(ctx, "prepare")
		see(err)
		if err == nil {
			_, err = stmt.ExecContext(ctx, arg)
			see(err)
			read(stmt.QueryContext(ctx, arg))
			see(stmt.Close())
		}
	}
	for _, opts := range []*sql.TxOptions{nil, {ReadOnly: true}} {
		tx, err := db.BeginTx(ctx, opts)
		see(err)
		if err == nil {
			_, err = tx.ExecContext(ctx, "exec")
			see(err, tx.Commit())
		}
	}
	tx, err := db.BeginTx(ctx, nil)
	see(err)
	if err == nil {
		see(tx.Rollback())
	}
	return seen
}

// TestNothingOfTheDriverIsHiddenOrAdded compares, for drivers that have more
// or less, what a program and what the driver see with the guard and without.
func TestNothingOfTheDriverIsHiddenOrAdded(t *testing.T) {
	for name, open := range map[string]func(*fake) driver.Conn{
		"bare":       bareConn,
		"old":        oldConn,
		"full":       fullConn,
		"checking":   func(f *fake) driver.Conn { return checkingConn{bare{f}} },
		"converting": func(f *fake) driver.Conn { return convertingConn{bare{f}} },
		"resets": func(f *fake) driver.Conn {
			return struct {
				bare
				resets
			}{bare{f}, resets{f}}
		},
		"valid": func(f *fake) driver.Conn {
			return struct {
				bare
				valid
			}{bare{f}, valid{f}}
		},
	} {
		for _, skip := range []bool{false, true} {
			if skip {
				name += ", skipping"
			}
			t.Run(name, func(t *testing.T) {
				var seen [2][]string
				var logs [2][]string
				for i := range 2 {
					f := &fake{open: open, fail: map[string]error{}}
					if skip {
						for _, what := range []string{"exec", "query", "exec context", "query context"} {
							f.fail[what] = driver.ErrSkip
						}
					}
					b := fusebox.New("db", fusebox.Config{Consecutive: 1}) // the last, as the driver says
					connector := []driver.Connector{f, Guard(f, b)}[i]
					db := sql.OpenDB(connector)
					for _, v := range use(t.Context(), db) {
						text := fmt.Sprint(v)
						// Where the guard answers for the driver, it is in its own words.
						text = strings.ReplaceAll(text, "sql: driver does not support the use of Named Parameters", "driver does not know named parameters")
						text = strings.ReplaceAll(text, "sql: driver does not support read-only transactions", "driver knows neither isolation levels nor read-only transactions")
						seen[i] = append(seen[i], text)
					}
					db.Close()
					logs[i] = f.log
					if totals := b.Snapshot().Totals; totals.Failures != 0 {
						t.Errorf("%+v", totals)
					}
				}
				if !slices.Equal(seen[0], seen[1]) {
					t.Errorf("the program saw\n%q, guarded\n%q", seen[0], seen[1])
				}
				if !slices.Equal(logs[0], logs[1]) {
					t.Errorf("the driver saw\n%q, guarded\n%q", logs[0], logs[1])
				}
			})
		}
	}
}

// TestEveryCallIsJudged fails each call of a driver in turn.
func TestEveryCallIsJudged(t *testing.T) {
	reset := &net.OpError{Op: "read", Err: syscall.ECONNRESET}
	type opener = func(*fake) driver.Conn
	for what, kinds := range map[string][]opener{
		"connect": {bareConn, oldConn, fullConn}, "commit": {bareConn, fullConn},
		"ping": {fullConn}, "begin": {bareConn}, "begin tx": {fullConn}, "prepare": {bareConn}, "prepare context": {fullConn},
		"exec": {oldConn}, "query": {oldConn}, "exec context": {fullConn}, "query context": {fullConn},
		"statement exec": {bareConn}, "statement query": {bareConn},
		"statement exec context": {fullConn}, "statement query context": {fullConn},
		"next": {bareConn, fullConn}, "next set": {fullConn}, "close rows": {bareConn, fullConn},
	} {
		for _, kind := range kinds {
			w := newWorld(t, kind)
			w.fail[what] = reset
			passed := false
			for _, v := range use(t.Context(), w.DB) {
				passed = passed || v == error(reset) //nolint:errorlint // the very same
			}
			if n := w.breaker.Snapshot().Totals.Failures; n == 0 || !passed {
				t.Errorf("%s: %d failures; the error reached the program unchanged: %t", what, n, passed)
			}
		}
	}
}

func forceOpen(t *testing.T, w *world) {
	t.Helper()
	w.breaker.Override(fusebox.ForceOpen, fusebox.Note{})
	w.log = nil
}

func TestWhileOpenEverythingIsRejectedAtOnce(t *testing.T) {
	for _, idle := range []bool{false, true} {
		for _, kind := range []func(*fake) driver.Conn{bareConn, oldConn, fullConn} {
			w := newWorld(t, kind)
			ctx := t.Context()
			stmt, err := w.PrepareContext(ctx, "prepare")
			if err != nil {
				t.Fatal(err)
			}
			if !idle {
				w.SetMaxIdleConns(-1) // the next call wants a new connection
			}
			forceOpen(t, w)
			for name, call := range map[string]func() error{
				"exec":           func() error { _, err := w.ExecContext(ctx, "exec"); return err },
				"query":          func() error { _, err := w.QueryContext(ctx, "query"); return err },
				"query row":      func() error { return w.QueryRowContext(ctx, "query").Scan() },
				"prepare":        func() error { _, err := w.PrepareContext(ctx, "prepare"); return err },
				"begin":          func() error { _, err := w.BeginTx(ctx, nil); return err },
				"statement exec": func() error { _, err := stmt.ExecContext(ctx); return err },
				"statement query": func() error {
					_, err := stmt.QueryContext(ctx)
					return err
				},
			} {
				err := call()
				var rejection *fusebox.OpenError
				if !errors.Is(err, fusebox.ErrOpen) || !errors.As(err, &rejection) || errors.Is(err, driver.ErrBadConn) {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, what := range w.log {
				if what != "valid" && what != "close" && what != "close statement" {
					t.Errorf("the driver saw %q", what)
				}
			}
			if n := w.Stats().OpenConnections; idle && n != 1 {
				t.Errorf("%d connections are left: a rejection is no reason to close one", n)
			}
			before := w.breaker.Snapshot().Totals.RejectedOpen
			w.ExecContext(ctx, "exec")
			if n := w.breaker.Snapshot().Totals.RejectedOpen - before; n > 2 { // a reset, the call
				t.Errorf("one call was rejected %d times: database/sql tries again", n)
			}
		}
	}
}

func TestATransactionCanEndWhileOpen(t *testing.T) {
	for _, end := range []string{"commit", "rollback"} {
		w := newWorld(t, fullConn)
		tx, err := w.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		forceOpen(t, w)
		if _, err := tx.ExecContext(t.Context(), "exec"); !errors.Is(err, fusebox.ErrOpen) {
			t.Errorf("exec: %v", err)
		}
		if end == "commit" {
			err = tx.Commit()
		} else {
			err = tx.Rollback()
		}
		if err != nil || !slices.Contains(w.log, end) {
			t.Errorf("%s: %v, the driver saw %q", end, err, w.log)
		}
	}
}

func TestAConnectionThatWasNotResetIsNotUsed(t *testing.T) {
	w := newWorld(t, fullConn)
	ctx := t.Context()
	w.SetMaxIdleConns(4) // one more than there are probes
	four := func() (conns [4]*sql.Conn) {
		t.Helper()
		for i := range conns {
			var err error
			if conns[i], err = w.Conn(ctx); err != nil {
				t.Fatal(err)
			}
		}
		return conns
	}
	for _, conn := range four() {
		conn.Close()
	}
	forceOpen(t, w)
	conns := four() // their resets are rejected, which database/sql does not say
	w.breaker.Lift(fusebox.Note{})
	for _, conn := range conns {
		if err := conn.PingContext(ctx); err != driver.ErrBadConn { //nolint:errorlint // the very same
			t.Errorf("a call on one: %v", err)
		}
		conn.Close()
	}
	w.log = nil
	if _, err := w.ExecContext(ctx, "exec"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.log, []string{"connect", "exec context", "valid"}) {
		t.Errorf("the driver saw %q", w.log)
	}
	if f := w.breaker.Snapshot().Totals.Failures; f != 0 {
		t.Errorf("%d failures", f)
	}
}

func TestAResetIsJudgedByItsDeadlineOnly(t *testing.T) {
	w := newWorld(t, fullConn)
	w.PingContext(t.Context())
	before := w.breaker.Snapshot().Totals
	w.fail["reset"] = driver.ErrBadConn // it has died meanwhile
	if _, err := w.ExecContext(t.Context(), "exec"); err != nil {
		t.Fatal(err)
	}
	after := w.breaker.Snapshot().Totals
	if after.Failures != 0 || after.Successes != before.Successes+2 { // a connect, the call
		t.Errorf("before %+v, after %+v", before, after)
	}
	w.do = func(ctx context.Context, what string) error {
		if what == "reset" {
			<-ctx.Done()
			return driver.ErrBadConn
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := w.ExecContext(ctx, "exec"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if f := w.breaker.Snapshot().Totals.Failures; f != 1 {
		t.Errorf("%d failures", f)
	}
}

func TestAQueryIsOneCallUpToTheEndOfItsRows(t *testing.T) {
	broken := errors.New("connection reset")
	for name, c := range map[string]struct {
		fail   string
		read   int
		cancel bool
		want   fusebox.Totals
	}{
		"read to the end": {read: 10, want: fusebox.Totals{Successes: 1}},
		"closed early":    {read: 1, want: fusebox.Totals{Successes: 1}},
		"broken off":      {read: 10, fail: "next", want: fusebox.Totals{Failures: 1}},
		"cancelled":       {read: 1, cancel: true, want: fusebox.Totals{Ignored: 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, fullConn)
			w.PingContext(t.Context())
			before := w.breaker.Snapshot().Totals
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rows, err := w.QueryContext(ctx, "query")
			if err != nil {
				t.Fatal(err)
			}
			if got := w.breaker.Snapshot().Totals; got.Successes != before.Successes {
				t.Errorf("%s: judged before its rows", name)
			}
			if c.fail != "" {
				w.fail[c.fail] = broken
			}
			for i := 0; i < c.read && rows.Next(); i++ {
			}
			if c.cancel {
				cancel()
				synctest.Wait() // database/sql closes them
			}
			rows.Close()
			got := w.breaker.Snapshot().Totals
			if got.Successes-before.Successes != c.want.Successes || got.Failures != c.want.Failures || got.Ignored != c.want.Ignored {
				t.Errorf("%s: %+v", name, got)
			}
			w.DB.Close()
		})
	}
}

func TestAProbeWhoseRowsComeSlowlyIsRenewed(t *testing.T) {
	w := newWorld(t, fullConn)
	w.PingContext(t.Context())
	for w.breaker.State() == fusebox.Closed {
		w.breaker.Do(t.Context(), func(context.Context) error { return driver.ErrBadConn })
	}
	w.clock.Advance(time.Second)
	rows, err := w.QueryContext(t.Context(), "query")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		w.clock.Advance(20 * time.Second) // of a lease of 30 s
		rows.Next()
	}
	rows.Close()
	if p := w.breaker.Snapshot().Totals.Probes; p.Succeeded != 1 || p.Expired != 0 {
		t.Errorf("%+v", p)
	}
}

func TestASkippedCallCountsNowhere(t *testing.T) {
	w := newWorld(t, fullConn)
	w.PingContext(t.Context())
	before := w.breaker.Snapshot().Totals.Successes
	w.fail["exec context"] = driver.ErrSkip
	if _, err := w.ExecContext(t.Context(), "exec"); err != nil {
		t.Fatal(err)
	}
	if got := w.breaker.Snapshot().Totals; got.Successes-before != 2 || got.Ignored+got.Failures != 0 { // prepare, exec
		t.Errorf("%+v", got)
	}
}

func TestAPanicInTheDriverIsAFailure(t *testing.T) {
	w := newWorld(t, fullConn)
	w.do = func(_ context.Context, what string) error {
		if what == "connect" {
			panic("!")
		}
		return nil
	}
	defer func() {
		if got := w.breaker.Snapshot().Totals; recover() == nil || got.Failures != 1 {
			t.Errorf("%+v", got)
		}
	}()
	w.PingContext(t.Context())
}

func TestRawUnwraps(t *testing.T) {
	w := newWorld(t, fullConn)
	conn, err := w.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = conn.Raw(func(c any) error {
		if _, ok := c.(interface{ Unwrap() driver.Conn }).Unwrap().(full); !ok {
			t.Errorf("%T", c)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
