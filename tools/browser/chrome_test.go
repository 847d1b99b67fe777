package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a test waits for what must come, on a busy machine too.
const patience = time.Minute

// chromium is the one that all tests share; each has tabs of its own, and a
// server of its own, which is another origin.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop []context.CancelFunc
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	for i := len(chromium.stop) - 1; i >= 0; i-- {
		chromium.stop[i]()
	}
	os.Exit(code)
}

// startBrowser starts the browser, once.
func startBrowser(tb testing.TB) context.Context {
	tb.Helper()
	chromium.once.Do(func() {
		path, err := exec.LookPath("chromium")
		if err != nil {
			chromium.err = err
			return
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
			chromedp.Flag("lang", "en-GB"), chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-gpu", true),
			chromedp.WSURLReadTimeout(2*time.Minute))
		if os.Getuid() == 0 {
			options = append(options, chromedp.NoSandbox)
		}
		allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, stop := chromedp.NewContext(allocator)
		chromium.stop = append(chromium.stop, stopAllocator, stop)
		chromium.ctx, chromium.err = ctx, chromedp.Do(ctx)
	})
	if chromium.err != nil {
		if os.Getenv("CI") == "" {
			tb.Skip("these tests need Chromium (apt-get install chromium): ", chromium.err)
		}
		tb.Fatal(chromium.err)
	}
	return chromium.ctx
}

// tab is a tab of the browser, and what has gone wrong in it.
type tab struct {
	testing.TB
	ctx    context.Context
	close  func()
	origin string

	mu       sync.Mutex
	wrong    []string
	requests map[network.RequestID]*request
	expected []string // parts of what may go wrong
}

// request is what was asked for, and the bytes it cost.
type request struct {
	url  string
	size float64
}

// open opens a tab at an address. At the end of the test nothing may have gone
// wrong in it, and nothing may have been asked of another origin.
func open(tb testing.TB, origin, path string, before ...chromedp.Action[chromedp.Void]) *tab {
	tb.Helper()
	ctx, closeTab := chromedp.NewContext(startBrowser(tb))
	p := &tab{TB: tb, ctx: ctx, close: closeTab, origin: origin, requests: map[network.RequestID]*request{}}
	tb.Cleanup(func() {
		closeTab()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.wrong {
			if !containsAny(w, p.expected) {
				tb.Errorf("in the browser: %s", w)
			}
		}
	})
	// The first call binds the tab to its context, which has to outlive it.
	if err := chromedp.Do(ctx); err != nil {
		tb.Fatal(err)
	}
	if err := chromedp.Listen(ctx, p.event); err != nil {
		tb.Fatal(err)
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, log.Enable, cdp.Empty{})
	call(p, runtime.Enable, cdp.Empty{})
	call(p, audits.Enable, cdp.Empty{})
	call(p, accessibility.Enable, cdp.Empty{})
	call(p, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Europe/Berlin"})
	// A tab is drawn, and has the focus, also while another does.
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	p.size(1440, 900)
	p.do(before...)
	p.do(chromedp.Navigate(origin + path))
	return p
}

// call makes a command of the protocol.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	if err != nil {
		p.Fatal(err)
	}
	return result
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// size sets the size of the tab.
func (p *tab) size(width, height int64) {
	p.Helper()
	call(p, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
}

// theme is light or dark. Nothing moves in it.
func (p *tab) theme(name string) {
	p.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: name},
		{Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// event notes what has gone wrong. It is called by one goroutine at a time.
func (p *tab) event(e any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fault := func(format string, args ...any) { p.wrong = append(p.wrong, fmt.Sprintf(format, args...)) }
	switch e := e.(type) {
	case *runtime.EventExceptionThrown:
		fault("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		var words []string
		for _, a := range e.Args {
			words = append(words, string(a.Value)+a.Description)
		}
		fault("console.%s: %s", e.Type, strings.Join(words, " "))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			fault("log: %s %s", e.Entry.Text, e.Entry.URL)
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			text, _ := json.Marshal(e.Issue.Details)
			fault("content policy: %s", text)
		}
	case *network.EventRequestWillBeSent:
		p.requests[e.RequestID] = &request{url: e.Request.URL}
		if !strings.HasPrefix(e.Request.URL, p.origin) && !strings.HasPrefix(e.Request.URL, "data:") {
			fault("a request of %s", e.Request.URL)
		}
	case *network.EventLoadingFinished:
		if f := p.requests[e.RequestID]; f != nil {
			f.size = e.EncodedDataLength
		}
	}
}

// expect allows what contains one of these.
func (p *tab) expect(parts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = append(p.expected, parts...)
}

// eval returns the value of an expression.
func eval[T any](p *tab, expression string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text is what a person can read of the first element that a selector finds.
func (p *tab) text(selector string) string {
	p.Helper()
	quoted, _ := json.Marshal(selector)
	return plain(eval[string](p, fmt.Sprintf(`((e) => e?.checkVisibility() ? e.innerText : '')(document.querySelector(%s))`, quoted)))
}

// plain makes every kind of space one.
func plain(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return strings.ContainsRune(" \t\n\u00a0\u202f", r)
	}), " ")
}

// until waits for what must become true.
func (p *tab) until(what string, ok func() bool) {
	p.Helper()
	if !comesTrue(ok) {
		p.Fatalf("after %v: %s; the page says:\n%s\nwrong: %q", patience, what, p.text("body"), p.wrong)
	}
}

// soon waits for what does not show in a tab.
func soon(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	if !comesTrue(ok) {
		tb.Fatalf("after %v: %s", patience, what)
	}
}

func comesTrue(ok func() bool) bool {
	deadline := time.Now().Add(patience)
	// What takes long to come is asked for less often: to ask costs the browser time.
	for wait := 10 * time.Millisecond; !ok(); wait = min(wait*3/2, 250*time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
		<-time.After(wait)
	}
	return true
}

// reads waits until the text of an element contains all the parts.
func (p *tab) reads(selector string, parts ...string) {
	p.Helper()
	p.until(fmt.Sprintf("%s does not read %q", selector, parts), func() bool {
		text := p.text(selector)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				return false
			}
		}
		return true
	})
}

// node is an element as a screen reader has it.
type node struct {
	role, name, value, description string
	id                             cdp.BackendNodeID
	properties                     map[string]string
}

// tree returns the accessibility tree, in reading order.
func (p *tab) tree() (nodes []node) {
	p.Helper()
	all := call(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes
	text := func(v *accessibility.Value) string {
		var s any
		if v == nil || json.Unmarshal(v.Value, &s) != nil || s == nil {
			return ""
		}
		return fmt.Sprint(s)
	}
	for _, n := range all {
		if n.Ignored {
			continue
		}
		one := node{
			role: text(n.Role), name: plain(text(n.Name)), value: text(n.Value), description: text(n.Description),
			id: n.BackendDOMNodeID, properties: map[string]string{},
		}
		for _, property := range n.Properties {
			one.properties[string(property.Name)] = text(property.Value)
		}
		nodes = append(nodes, one)
	}
	return nodes
}

// find returns the element of a role whose name contains a text; ok is false if there is none.
func (p *tab) find(role, name string) (node, bool) {
	p.Helper()
	for _, n := range p.tree() {
		if n.role == role && strings.Contains(n.name, name) {
			return n, true
		}
	}
	return node{}, false
}

// the waits for an element.
func (p *tab) the(role, name string) (found node) {
	p.Helper()
	p.until(fmt.Sprintf("there is no %s %q", role, name), func() (ok bool) {
		found, ok = p.find(role, name)
		return ok
	})
	return found
}

// click clicks in the middle of an element, with the mouse.
func (p *tab) click(role, name string) {
	p.Helper()
	n := p.the(role, name)
	call(p, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{BackendNodeID: n.id})
	var q, before dom.Quad
	p.until(fmt.Sprintf("the %s %q does not stand still", role, name), func() bool {
		before, q = q, call(p, dom.GetContentQuads, dom.GetContentQuadsParams{BackendNodeID: n.id}).Quads[0]
		return slices.Equal(before, q)
	})
	p.do(chromedp.MouseClickXY((q[0]+q[4])/2, (q[1]+q[5])/2))
}

// fill writes into a field.
func (p *tab) fill(role, name, text string) {
	p.Helper()
	n := p.the(role, name)
	call(p, dom.Focus, dom.FocusParams{BackendNodeID: n.id})
	eval[any](p, `document.activeElement.select?.()`)
	call(p, input.InsertText, input.InsertTextParams{Text: text})
}

// press presses keys, one after the other.
func (p *tab) press(keys ...string) {
	p.Helper()
	for _, k := range keys {
		if k != "/" {
			p.do(chromedp.KeyEvent(k))
			continue
		}
		// KeyEvent would write a character that the page has taken for itself.
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			call(p, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: k, Code: "Slash", Text: k, WindowsVirtualKeyCode: 191})
		}
	}
}

// picture takes a picture of what is seen.
func (p *tab) picture() (png []byte) {
	p.Helper()
	return call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}).Data
}
