package fusebox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
)

// A case file, testdata/*.bt, holds blocks: scripts for a breaker under a
// virtual clock. Whoever finds a fault adds a block.
//
//	# C1 What goes wrong           begins a block; the rest is its title
//	cfg key=val ...                see btKeys
//	@T  X=allow                    asks for admission at time T; token X
//	@T  X.ok|fail|neutral          finishes token X
//	@T  N*ok|fail|neutral          N calls, one after another, each finished at once
//	@T  N*allow                    N admissions left outstanding, tokens _1.._N
//	@T  state | counts             only looks
//	@T  reset | force open | force closed | unforce
//
// A T smaller than before is a clock that went back. After "=>" stands what
// must hold then, any of:
//
//	st=C|O|H     the state
//	calls= fails= consec=   the counts of the window, in half-open of the probes
//	ev=CO,OH,HC  all changes of state so far
//	rej= late=   all rejections and late results so far
//	retry=D      time until an open breaker probes; of a rejection, its RetryAfter
//	res=         of allow: ok, open or busy (half-open, no probe to be had); of
//	             several, that of the last. Of a finish: applied, late or dup
//	adm=N        of N*: how many were admitted
//
// A comment begins with two spaces and "#".

// btBlock is one block of a case file.
type btBlock struct {
	title  string
	where  string // file and line
	config fusebox.Config
	steps  []btStep
}

// btStep is one line of a block.
type btStep struct {
	where string
	text  string
	at    time.Duration
	op    btOp
	want  map[string]string // by key, as btRun.look writes it
}

// btOp is what a step does.
type btOp struct {
	verb  string // allow, ok, fail, neutral, or an operation without operand
	token string // of allow and of a finish
	times int    // of N*; else 0
}

// finishes reports whether the operation finishes one token.
func (o btOp) finishes() bool { return o.times == 0 && btOutcomes[o.verb] != nil }

var (
	btTitle = regexp.MustCompile(`^# (\S.*)$`)
	btLine  = regexp.MustCompile(`^@(\S+)\s+(\S.*)$`)
	btAllow = regexp.MustCompile(`^([A-Za-z]\w*)=allow$`)
	btEnd   = regexp.MustCompile(`^(\w+)\.(ok|fail|neutral)$`)
	btMany  = regexp.MustCompile(`^([1-9]\d*)\*(ok|fail|neutral|allow)$`)
	btEvent = regexp.MustCompile(`^[COH][COH](,[COH][COH])*$`)
)

// btPlain are the operations without operand.
var btPlain = map[string]func(*fusebox.Breaker){
	"state":        func(b *fusebox.Breaker) { b.State() },
	"counts":       func(b *fusebox.Breaker) { b.Snapshot() },
	"reset":        func(b *fusebox.Breaker) { b.Reset(fusebox.Note{Reason: "script"}) },
	"force open":   func(b *fusebox.Breaker) { b.Override(fusebox.ForceOpen, fusebox.Note{Reason: "script"}) },
	"force closed": func(b *fusebox.Breaker) { b.Override(fusebox.ForceClosed, fusebox.Note{Reason: "script"}) },
	"unforce":      func(b *fusebox.Breaker) { b.Lift(fusebox.Note{Reason: "script"}) },
}

// btOutcome is an outcome, and an error that is classified as such.
type btOutcome struct {
	outcome fusebox.Outcome
	err     error
}

var (
	errBTFail    = errors.New("down")
	errBTNeutral = errors.New("no fault of the dependency")

	btOutcomes = map[string]*btOutcome{
		"ok":      {fusebox.Success, nil},
		"fail":    {fusebox.Failure, errBTFail},
		"neutral": {fusebox.Ignored, fusebox.Ignore(errBTNeutral)},
	}
)

// btKeys are the keys of a cfg line, and what each sets.
var btKeys = map[string]func(c *fusebox.Config, value string) error{
	"consec": func(c *fusebox.Config, v string) error { return btInt(&c.Consecutive, v) },
	"ratio": func(c *fusebox.Config, v string) (err error) {
		c.FailureRate, err = strconv.ParseFloat(v, 64)
		return err
	},
	"min":     func(c *fusebox.Config, v string) error { return btInt(&c.MinCalls, v) },
	"window":  func(c *fusebox.Config, v string) error { return btDuration(&c.Window, v) },
	"buckets": func(c *fusebox.Config, v string) error { return btInt(&c.Buckets, v) },
	"count":   func(c *fusebox.Config, v string) error { return btInt(&c.WindowCalls, v) },
	"openfor": func(c *fusebox.Config, v string) error { return btDuration(&c.OpenFor, v) },
	"maxopen": func(c *fusebox.Config, v string) error { return btDuration(&c.OpenForMax, v) },
	"probes":  func(c *fusebox.Config, v string) error { return btInt(&c.Probes, v) },
	"close":   func(c *fusebox.Config, v string) error { return btInt(&c.CloseAfter, v) },
	"ttl":     func(c *fusebox.Config, v string) error { return btDuration(&c.ProbeTimeout, v) },
	"stable":  func(c *fusebox.Config, v string) error { return btDuration(&c.StableAfter, v) },
	"mult": func(_ *fusebox.Config, v string) error {
		if v != "1" && v != "2" {
			return errors.New("must be 1 or 2")
		}
		return nil
	},
}

func btInt(to *int, value string) (err error) {
	if *to, err = strconv.Atoi(value); err == nil && *to < 0 {
		err = errors.New("must not be negative")
	}
	return err
}

func btDuration(to *time.Duration, value string) (err error) {
	if *to, err = time.ParseDuration(value); err == nil && *to <= 0 {
		err = errors.New("must be positive")
	}
	return err
}

// btConfig reads what stands behind cfg on its line.
func btConfig(text string) (fusebox.Config, error) {
	var c fusebox.Config
	seen := map[string]string{}
	for _, field := range strings.Fields(text) {
		key, value, ok := strings.Cut(field, "=")
		set := btKeys[key]
		if !ok || set == nil {
			return c, fmt.Errorf("cfg: what is %q? Keys are %s", field, btList(btKeys))
		}
		if _, again := seen[key]; again {
			return c, fmt.Errorf("cfg: %s stands there twice", key)
		}
		seen[key] = value
		if err := set(&c, value); err != nil {
			return c, fmt.Errorf("cfg: %s: %w", field, err)
		}
	}
	if grows := seen["mult"] == "2"; grows != (seen["maxopen"] != "") {
		return c, errors.New("cfg: mult=2 and maxopen need each other")
	}
	defaults := fusebox.New("", fusebox.Config{}).Config()
	if c.Consecutive == 0 {
		c.Consecutive = -1
	}
	if seen["ratio"] == "" {
		c.FailureRate = -1
	}
	if c.OpenFor == 0 {
		c.OpenFor = defaults.OpenFor
	}
	if c.OpenForMax == 0 {
		c.OpenForMax = c.OpenFor
	}
	if c.ProbeTimeout == 0 {
		c.ProbeTimeout = c.OpenFor
	}
	if c.Probes == 0 {
		c.Probes = 1
	}
	if c.StableAfter == 0 {
		c.StableAfter = -1
	}
	c.OpenJitter, c.ReopenAfter = -1, 1
	return c, c.Validate()
}

// btList returns the keys of a map as a list for people.
func btList[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// btParse reads a case file. Its errors name file and line.
func btParse(name string, r io.Reader) ([]btBlock, error) {
	var blocks []btBlock
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		where := fmt.Sprintf("%s:%d", name, n)
		fail := func(err error) ([]btBlock, error) { return nil, fmt.Errorf("%s: %w", where, err) }
		line, _, _ := strings.Cut(lines.Text(), "  #")
		line = strings.TrimRight(line, " \t\r")
		if line == "" {
			continue
		}
		if title := btTitle.FindStringSubmatch(line); title != nil {
			if err := btWhole(blocks); err != nil {
				return nil, err
			}
			blocks = append(blocks, btBlock{title: title[1], where: where})
			continue
		}
		if len(blocks) == 0 {
			return fail(errors.New(`a block begins with "# title"`))
		}
		block := &blocks[len(blocks)-1]
		if config, ok := strings.CutPrefix(line, "cfg"); ok {
			if block.config.OpenFor != 0 {
				return fail(errors.New("a block has one cfg line, before its steps"))
			}
			c, err := btConfig(config)
			if err != nil {
				return fail(err)
			}
			block.config = c
			continue
		}
		if block.config.OpenFor == 0 {
			return fail(errors.New("a block has a cfg line first"))
		}
		step, err := btParseStep(line)
		if err != nil {
			return fail(err)
		}
		step.where = where
		block.steps = append(block.steps, step)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return blocks, btWhole(blocks)
}

// btWhole returns an error if the last block is not complete.
func btWhole(blocks []btBlock) error {
	if len(blocks) == 0 {
		return nil
	}
	b := blocks[len(blocks)-1]
	if !slices.ContainsFunc(b.steps, func(s btStep) bool { return len(s.want) > 0 }) {
		return fmt.Errorf("%s: block %q expects nothing", b.where, b.title)
	}
	return nil
}

func btParseStep(line string) (btStep, error) {
	step := btStep{text: line, want: map[string]string{}}
	do, expect, expects := strings.Cut(line, "=>")
	m := btLine.FindStringSubmatch(strings.TrimSpace(do))
	if m == nil {
		return step, fmt.Errorf("%q is neither a title, cfg, nor @T and an operation", line)
	}
	var err error
	if step.at, err = time.ParseDuration(m[1]); err != nil || step.at < 0 {
		return step, fmt.Errorf("@%s is not a time", m[1])
	}
	if step.op, err = btParseOp(m[2]); err != nil {
		return step, err
	}
	if !expects {
		return step, nil
	}
	fields := strings.Fields(expect)
	if len(fields) == 0 {
		return step, errors.New("nothing stands behind =>")
	}
	for _, field := range fields {
		key, value, _ := strings.Cut(field, "=")
		if _, again := step.want[key]; again {
			return step, fmt.Errorf("%s is expected twice", key)
		}
		if step.want[key], err = btExpectation(step.op, key, value); err != nil {
			return step, fmt.Errorf("%s: %w", field, err)
		}
	}
	return step, nil
}

func btParseOp(text string) (btOp, error) {
	if m := btAllow.FindStringSubmatch(text); m != nil {
		return btOp{verb: "allow", token: m[1]}, nil
	}
	if m := btEnd.FindStringSubmatch(text); m != nil {
		return btOp{verb: m[2], token: m[1]}, nil
	}
	if m := btMany.FindStringSubmatch(text); m != nil {
		n, err := strconv.Atoi(m[1])
		return btOp{verb: m[2], times: n}, err
	}
	if verb := strings.Join(strings.Fields(text), " "); btPlain[verb] != nil {
		return btOp{verb: verb}, nil
	}
	return btOp{}, fmt.Errorf("%q is no operation", text)
}

// btExpectation checks what a step expects, and returns the value in the form
// in which btRun.look writes it.
func btExpectation(op btOp, key, value string) (string, error) {
	oneOf := func(values ...string) (string, error) {
		if !slices.Contains(values, value) {
			return "", fmt.Errorf("must be one of %s", strings.Join(values, ", "))
		}
		return value, nil
	}
	switch key {
	case "st":
		return oneOf("C", "O", "H")
	case "res":
		switch {
		case op.verb == "allow":
			return oneOf("ok", "open", "busy")
		case op.finishes():
			return oneOf("applied", "late", "dup")
		}
		return "", errors.New("only of allow and of a finish")
	case "ev":
		if !btEvent.MatchString(value) {
			return "", errors.New("must be a list like CO,OH,HC")
		}
		return value, nil
	case "retry":
		d, err := time.ParseDuration(value)
		return d.String(), err
	case "adm":
		if op.times == 0 {
			return "", errors.New("only of N*")
		}
		fallthrough
	case "calls", "fails", "consec", "rej", "late":
		var n int
		err := btInt(&n, value)
		return strconv.Itoa(n), err
	}
	return "", errors.New("no such key")
}

// btReadAll reads all case files.
func btReadAll(tb testing.TB) []btBlock {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.bt"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no testdata/*.bt (%v)", err)
	}
	var all []btBlock
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			tb.Fatal(err)
		}
		blocks, err := btParse(filepath.ToSlash(name), f)
		f.Close()
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, blocks...)
	}
	return all
}

// TestCases runs every block of every case file, in each of the ways in which
// a user may drive a breaker.
func TestCases(t *testing.T) {
	for _, block := range btReadAll(t) {
		t.Run(block.title, func(t *testing.T) {
			for name, start := range btCallers {
				t.Run(name, func(t *testing.T) { btRunBlock(t, block, newCaseClock(), start) })
				if btGoesBack(block) {
					continue
				}
				t.Run(name+" in real time", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { btRunBlock(t, block, nil, start) })
				})
			}
		})
	}
}

func btGoesBack(b btBlock) bool {
	return !slices.IsSortedFunc(b.steps, func(x, y btStep) int { return int(x.at - y.at) })
}

// btCall is an admitted call.
type btCall interface {
	// finish ends it, and reports whether the result was accepted as far as
	// the caller is told.
	finish(o *btOutcome) (accepted, told bool)
}

// btCallers are the ways to make a call.
var btCallers = map[string]func(*fusebox.Breaker) (btCall, error){
	"Allow and Record": func(b *fusebox.Breaker) (btCall, error) {
		p, err := b.Allow(context.Background())
		return &btPermit{permit: p.Take()}, err
	},
	"Allow and Finish": func(b *fusebox.Breaker) (btCall, error) {
		p, err := b.Allow(context.Background())
		return &btPermit{permit: p.Take(), classify: true}, err
	},
	"Do within a fallback": btDo,
}

// btPermit is a call made with Allow.
type btPermit struct {
	permit   fusebox.Permit
	classify bool
}

func (c *btPermit) finish(o *btOutcome) (accepted, told bool) {
	if c.classify {
		return c.permit.Finish(context.Background(), o.err), true
	}
	return c.permit.Record(o.outcome), true
}

// btDoing is a call under way in Do.
type btDoing struct {
	end  chan *btOutcome // what its function is to return
	done chan struct{}   // closed when Do has returned
	over bool
}

// btDo begins a call of Do with a fallback around, and returns when its
// function runs, or with the rejection.
func btDo(b *fusebox.Breaker) (btCall, error) {
	c := &btDoing{end: make(chan *btOutcome), done: make(chan struct{})}
	var cause error
	fallback := fusebox.PolicyFunc(func(ctx context.Context, fn func(context.Context) error) error {
		cause = fn(ctx)
		return nil // an answer from elsewhere
	})
	running := make(chan struct{})
	go func() {
		defer close(c.done)
		_ = fusebox.Chain(fallback, b).Do(context.Background(), func(context.Context) error {
			close(running)
			return (<-c.end).err
		})
	}()
	select {
	case <-running:
		return c, nil
	case <-c.done:
		return nil, cause
	}
}

func (c *btDoing) finish(o *btOutcome) (accepted, told bool) {
	if c.over {
		return false, true
	}
	c.over = true
	c.end <- o
	<-c.done
	return false, false
}

// btRun is a block being run.
type btRun struct {
	testing.TB
	*fusebox.Breaker
	clock *caseClock // nil: the time of a bubble
	begin time.Time
	seen  time.Time // latest so far
	start func(*fusebox.Breaker) (btCall, error)
	calls map[string]btCall

	mu     sync.Mutex
	events []string
}

func btRunBlock(tb testing.TB, block btBlock, clock *caseClock, start func(*fusebox.Breaker) (btCall, error)) {
	r := &btRun{TB: tb, clock: clock, start: start, calls: map[string]btCall{}}
	c := block.config
	if clock != nil {
		c.Now = clock.Now
	}
	c.Observers = []fusebox.Observer{{Transition: r.note}}
	r.Breaker = fusebox.New("case", c)
	r.begin = r.time()
	defer func() {
		for _, call := range r.calls {
			call.finish(btOutcomes["ok"])
		}
	}()
	for _, step := range block.steps {
		r.wait(step.at)
		got := r.step(step)
		for key, want := range step.want {
			if got[key] != want {
				tb.Errorf("%s: %s: %s is %q, want %q", step.where, step.text, key, got[key], want)
			}
		}
	}
}

func (r *btRun) note(t fusebox.Transition) {
	if t.From == t.To {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, btState(t.From)+btState(t.To))
}

func btState(s fusebox.State) string { return strings.ToUpper(s.String()[:1]) }

func (r *btRun) time() time.Time {
	if r.clock != nil {
		return r.clock.Now()
	}
	return time.Now()
}

// wait lets the time of a step come.
func (r *btRun) wait(at time.Duration) {
	if r.clock == nil {
		<-time.After(time.Until(r.begin.Add(at)))
	} else {
		r.clock.Set(r.begin.Add(at))
	}
	if now := r.time(); now.After(r.seen) {
		r.seen = now
	}
}

// step does what the step says, and returns what can be seen afterwards.
func (r *btRun) step(s btStep) map[string]string {
	r.Helper()
	var res string
	var rejection *fusebox.OpenError
	admitted := 0
	switch op := s.op; {
	case btPlain[op.verb] != nil:
		btPlain[op.verb](r.Breaker)
	case op.finishes():
		call := r.calls[op.token]
		if call == nil {
			r.Fatalf("%s: %s: no call has token %s", s.where, s.text, op.token)
		}
		res = r.finish(call, btOutcomes[op.verb])
	default:
		for i := range max(op.times, 1) {
			var call btCall
			call, res, rejection = r.ask(s)
			if call == nil {
				continue
			}
			admitted++
			switch {
			case op.verb != "allow":
				r.finish(call, btOutcomes[op.verb])
			case op.times > 0:
				r.keep(s, "_"+strconv.Itoa(i+1), call)
			default:
				r.keep(s, op.token, call)
			}
		}
	}
	got := r.look(rejection)
	got["res"], got["adm"] = res, strconv.Itoa(admitted)
	return got
}

func (r *btRun) keep(s btStep, token string, call btCall) {
	r.Helper()
	if r.calls[token] != nil {
		r.Fatalf("%s: %s: token %s is taken", s.where, s.text, token)
	}
	r.calls[token] = call
}

// ask asks for admission; without it the call is nil.
func (r *btRun) ask(s btStep) (call btCall, res string, rejection *fusebox.OpenError) {
	r.Helper()
	call, err := r.start(r.Breaker)
	if err == nil {
		return call, "ok", nil
	}
	if !errors.As(err, &rejection) || !errors.Is(err, fusebox.ErrOpen) {
		r.Fatalf("%s: %s: %v is not an *OpenError", s.where, s.text, err)
	}
	if errors.Is(err, fusebox.ErrProbing) {
		return nil, "busy", rejection
	}
	return nil, "open", rejection
}

// finish finishes a call, and returns what became of the result. That a result
// was late shows in the totals; with a permit its caller is told besides.
func (r *btRun) finish(call btCall, o *btOutcome) string {
	r.Helper()
	before := r.Snapshot().Totals
	_, wasOver := call.(*btDoing)
	wasOver = wasOver && call.(*btDoing).over
	accepted, told := call.finish(o)
	after := r.Snapshot().Totals
	late := after.Late - before.Late
	counted := caseFinished(after) - caseFinished(before)
	switch {
	case wasOver || told && !accepted && counted == 0:
		return "dup"
	case late == 1 && counted == 1 && !accepted:
		return "late"
	case late == 0 && counted == 1 && (accepted || !told):
		return "applied"
	}
	r.Errorf("accepted = %v (told = %v), %d finished and %d late", accepted, told, counted, late)
	return "?"
}

// look returns what can be seen of the breaker, by key.
func (r *btRun) look(rejection *fusebox.OpenError) map[string]string {
	r.Helper()
	state := r.State()
	s := r.Snapshot()
	if s.State != state {
		r.Errorf("Snapshot has state %v, State returns %v", s.State, state)
	}
	retry := time.Duration(0)
	if !s.Until.IsZero() {
		retry = s.Until.Sub(r.seen)
	}
	if rejection != nil {
		retry = rejection.RetryAfter()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return map[string]string{
		"st":     btState(state),
		"calls":  strconv.Itoa(s.Counts.Calls),
		"fails":  strconv.Itoa(s.Counts.Failures),
		"consec": strconv.Itoa(s.Counts.Consecutive),
		"ev":     strings.Join(r.events, ","),
		"rej":    strconv.FormatUint(s.Totals.RejectedOpen+s.Totals.RejectedProbing, 10),
		"late":   strconv.FormatUint(s.Totals.Late, 10),
		"retry":  retry.String(),
	}
}

// TestCaseFilesAreReadStrictly holds that a slip of the pen in a block is not
// taken for a block that passes.
func TestCaseFilesAreReadStrictly(t *testing.T) {
	const head = "# C0 A title\ncfg consec=1 openfor=10s\n"
	for name, test := range map[string]struct{ text, want string }{
		"no title":             {"cfg consec=1\n", `x.bt:1: a block begins with`},
		"no cfg":               {"# C0 A title\n@0s 1*ok => st=C\n", "x.bt:2: a block has a cfg line first"},
		"two cfg":              {head + "cfg consec=2\n", "x.bt:3: a block has one cfg line"},
		"unknown setting":      {"# C0 A title\ncfg consek=1\n", `x.bt:2: cfg: what is "consek=1"?`},
		"setting twice":        {"# C0 A title\ncfg consec=1 consec=2\n", "x.bt:2: cfg: consec stands there twice"},
		"setting no number":    {"# C0 A title\ncfg consec=many\n", "x.bt:2: cfg: consec=many"},
		"negative setting":     {"# C0 A title\ncfg probes=-1\n", "x.bt:2: cfg: probes=-1: must not be negative"},
		"setting no duration":  {"# C0 A title\ncfg openfor=10\n", "x.bt:2: cfg: openfor=10"},
		"growth by three":      {"# C0 A title\ncfg mult=3\n", "x.bt:2: cfg: mult=3: must be 1 or 2"},
		"growth without bound": {"# C0 A title\ncfg mult=2\n", "x.bt:2: cfg: mult=2 and maxopen need each other"},
		"bound without growth": {"# C0 A title\ncfg maxopen=9s\n", "x.bt:2: cfg: mult=2 and maxopen need each other"},
		"invalid config":       {"# C0 A title\ncfg ratio=2\n", "x.bt:2: fusebox: Config.FailureRate is 2"},
		"no time":              {head + "1*ok => st=C\n", "x.bt:3: \"1*ok => st=C\" is neither"},
		"bad time":             {head + "@1 1*ok => st=C\n", "x.bt:3: @1 is not a time"},
		"unknown operation":    {head + "@0s A.maybe => st=C\n", `x.bt:3: "A.maybe" is no operation`},
		"no calls":             {head + "@0s 0*ok => st=C\n", `x.bt:3: "0*ok" is no operation`},
		"unknown expectation":  {head + "@0s 1*ok => state=C\n", "x.bt:3: state=C: no such key"},
		"unknown state":        {head + "@0s 1*ok => st=X\n", "x.bt:3: st=X: must be one of C, O, H"},
		"expected twice":       {head + "@0s 1*ok => st=C st=C\n", "x.bt:3: st is expected twice"},
		"empty expectation":    {head + "@0s 1*ok =>\n", "x.bt:3: nothing stands behind =>"},
		"result of a finish":   {head + "@0s A.ok => res=ok\n", "x.bt:3: res=ok: must be one of applied, late, dup"},
		"result of allow":      {head + "@0s A=allow => res=late\n", "x.bt:3: res=late: must be one of ok, open, busy"},
		"result of calls":      {head + "@0s 1*ok => res=ok\n", "x.bt:3: res=ok: only of allow and of a finish"},
		"admitted of one":      {head + "@0s A=allow => adm=1\n", "x.bt:3: adm=1: only of N*"},
		"bad events":           {head + "@0s 1*ok => ev=CO-OH\n", "x.bt:3: ev=CO-OH: must be a list"},
		"bad retry":            {head + "@0s 1*ok => retry=soon\n", "x.bt:3: retry=soon"},
		"negative count":       {head + "@0s 1*ok => calls=-1\n", "x.bt:3: calls=-1: must not be negative"},
		"expects nothing":      {head + "@0s 1*ok\n", `x.bt:1: block "C0 A title" expects nothing`},
		"first expects nothing": {
			head + "@0s 1*ok\n\n# C1 Another\ncfg consec=1\n@0s 1*ok => st=C\n",
			`x.bt:1: block "C0 A title" expects nothing`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := btParse("x.bt", strings.NewReader(test.text))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error is %v, want %s…", err, test.want)
			}
		})
	}
	blocks, err := btParse("x.bt", strings.NewReader("  # a comment\n"+head+"  # another\n@0s  1*ok  => st=C  # a third\n"))
	if err != nil || len(blocks) != 1 || len(blocks[0].steps) != 1 || len(blocks[0].steps[0].want) != 1 {
		t.Errorf("with comments: %+v, %v", blocks, err)
	}
}

// TestCasesFailWhereTheyShould holds that each expectation is looked at.
func TestCasesFailWhereTheyShould(t *testing.T) {
	for _, wrong := range []string{
		"st=H", "calls=7", "fails=7", "consec=7", "ev=CH", "rej=7", "late=7", "retry=7s", "res=busy",
	} {
		text := "# C0 A title\ncfg consec=1 openfor=10s\n@0s 1*fail\n@1s A=allow => " + wrong + "\n"
		btMustFail(t, text)
	}
	btMustFail(t, "# C0 A title\ncfg consec=1\n@0s 1*fail => adm=7\n")
	for _, wrong := range []string{"applied", "late"} {
		btMustFail(t, "# C0 A title\ncfg consec=1\n@0s A=allow\n@0s A.ok => res=applied\n@0s A.ok => res="+wrong+"\n")
	}
}

func btMustFail(t *testing.T, text string) {
	t.Helper()
	blocks, err := btParse("x.bt", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range btCallers {
		f := &btFailure{TB: t}
		btRunBlock(f, blocks[0], newCaseClock(), start)
		if f.n != 1 {
			t.Errorf("%s: %q has %d failures, want 1", name, text, f.n)
		}
	}
}

// btFailure counts errors instead of reporting them.
type btFailure struct {
	testing.TB
	n int
}

func (f *btFailure) Helper()               {}
func (f *btFailure) Errorf(string, ...any) { f.n++ }
