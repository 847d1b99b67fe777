package browser_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// berlin is where the browser says that it is.
func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// hover moves the mouse over an element, so far from its left as a fraction of its width.
func hover(p *tab, element string, x float64) chromedp.Action[chromedp.Void] {
	p.Helper()
	at := eval[[]float64](p, fmt.Sprintf(`(() => { const r = (%s).getBoundingClientRect(); return [r.left + (r.width - 2) * %g, r.top + r.height / 2]; })()`, element, x))
	return chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, at[0], at[1])
}

// allowClipboard lets a tab write to the clipboard, and read what it has written.
func allowClipboard(p *tab) {
	p.Helper()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		_, err := chromedp.CallBrowser(p.ctx, browser.SetPermission, browser.SetPermissionParams{
			Permission: &browser.PermissionDescriptor{Name: name}, Setting: browser.PermissionSettingGranted, Origin: p.origin,
		})
		if err != nil {
			p.Fatal(err)
		}
	}
}

// navigateAway leaves the page, as when a tab is closed.
var navigateAway = chromedp.Navigate("about:blank")

// noCache makes a tab ask for everything.
var noCache = chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
	_, err := chromedp.Call(ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	return err
})

// ctxIgnored is the context of a call that does not look at it.
type ctxIgnored = context.Context

// nothing is a call that notes that it was made.
func nothing(called *bool) func(context.Context) error {
	return func(context.Context) error {
		*called = true
		return nil
	}
}

// serve serves a handler until the test ends.
func serve(tb testing.TB, h http.Handler) (url string) {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}
