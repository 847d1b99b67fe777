package config_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/config"
)

func ExampleParse() {
	f, err := config.Parse("fusebox.yaml", []byte(`
upstreams:
  payments:
    endpoints: [http://localhost:9000]
    breaker: {open-for: 2s}
`), os.Environ())
	if err != nil {
		fmt.Println(err)
		return
	}
	payments := fusebox.New("payments", f.Upstreams["payments"].Breaker.Config())
	fmt.Println(payments.Config().OpenFor, f.Routes[0].Prefix, f.Routes[0].Upstream)
	// Output: 2s / payments
}

func ExampleParse_errors() {
	_, err := config.Parse("fusebox.yaml", []byte(`
upstreams:
  payments:
    endpoints: [http://localhost:9000]
    breaker:
      failure-rate: 50
      open_for: 2s
`), nil)
	fmt.Println(err)
	// Output:
	// fusebox.yaml:6:21: upstreams.payments.breaker.failure-rate is 50, must be a fraction up to 1: write 50% or 0.5
	//     6 |       failure-rate: 50
	//       |                     ^
	// fusebox.yaml:7:7: upstreams.payments.breaker.open_for is not a key here; it is spelt open-for
	//     7 |       open_for: 2s
	//       |       ^
}

func ExampleLoad() {
	c, err := config.Load("", []string{"FUSEBOX_UPSTREAMS_MAIN_BREAKER_PROBES=5"}, []config.Flag{
		{Name: "--upstream", Path: "upstreams.main.endpoints", Value: "http://localhost:9000"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range c.Effective() {
		if strings.Contains(e.Path, "endpoints") || strings.HasSuffix(e.Path, "probes") || strings.HasSuffix(e.Path, "close-after") {
			fmt.Printf("%s = %s (%v)\n", e.Path, e.Value, e.Origin)
		}
	}
	// Output:
	// upstreams.main.endpoints[0] = http://localhost:9000 (flag --upstream)
	// upstreams.main.breaker.probes = 5 (env FUSEBOX_UPSTREAMS_MAIN_BREAKER_PROBES)
	// upstreams.main.breaker.close-after = 5 (default)
}

func ExampleDiff() {
	load := func(openFor string) *config.Config {
		c, err := config.Load("", nil, []config.Flag{
			{Name: "--upstream", Path: "upstreams.main.endpoints", Value: "http://localhost:9000"},
			{Name: "--open-for", Path: "upstreams.main.breaker.open-for", Value: openFor},
		})
		if err != nil {
			panic(err)
		}
		return c
	}
	d := config.Diff(load("1s"), load("2s"))
	fmt.Println(d.Changed["main"], d.Section("main", "breaker"), d.Section("main", "retry"))
	// Output: [breaker.open-for] true false
}
