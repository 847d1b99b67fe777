package config

import (
	"time"

	"github.com/fusebox-go/fusebox"
)

// File is the whole configuration. What [Parse] and [Load] return is complete,
// with the defaults filled in, and has passed every check. Numbers that can be
// switched off are negative where they are, strings empty.
type File struct {
	// Listen is the address of the proxy: host:port, or unix:/path for a
	// socket. Default ":8080".
	Listen Address `yaml:"listen" default:":8080"`

	// Admin is the listener of page, API and metrics.
	Admin Admin `yaml:"admin"`

	// Logging says what is logged, and how.
	Logging Logging `yaml:"logging"`

	// Shutdown says how the program ends on SIGTERM.
	Shutdown Shutdown `yaml:"shutdown"`

	// Upstreams are what is guarded, by name. A name has small letters, digits
	// and hyphens between them, at most 63. There is at least one.
	Upstreams map[string]*Upstream `yaml:"upstreams" rule:"needed"`

	// Routes say which upstream answers a request. The most specific host
	// decides, then the longest prefix; the order in the file does not matter.
	// A request without a route is answered 404. Default: where there is one
	// upstream, everything goes to it.
	Routes []Route `yaml:"routes"`
}

// Admin is the listener of page, API and metrics.
type Admin struct {
	// Listen is its address: host:port, or unix:/path for a socket; "off": none.
	// Off loopback, and without Token, it serves reads only.
	// Default "127.0.0.1:9901".
	Listen Address `yaml:"listen" default:"127.0.0.1:9901" rule:"off"`

	// Token is what a write must bear, at least 16 characters. Best given as
	// ${file:PATH}; never shown. Default: none.
	Token Secret `yaml:"token"`

	// Hosts are names that a request may be addressed to beside localhost and
	// addresses, which always are: others are refused, as a web page may have made
	// its own name point here. Default: none.
	Hosts []Host `yaml:"hosts"`
}

// Logging says what is logged, and how. Logs go to standard error.
type Logging struct {
	// Level is the least level logged: debug, info, warn or error. Default info.
	// Attempts to write to the admin listener always are.
	Level string `yaml:"level" default:"info" enum:"debug,info,warn,error"`

	// Format is text or json. Default text.
	Format string `yaml:"format" default:"text" enum:"text,json"`

	// Access is where the access log goes, one line of JSON a request: stdout,
	// stderr, or the path of a file that is appended to; "off": none. Default off.
	Access string `yaml:"access" default:"off" rule:"off"`
}

// Shutdown says how the program ends on SIGTERM: it is not ready any more,
// waits, stops accepting, finishes what is in flight, exits.
type Shutdown struct {
	// Wait is how long it goes on accepting while it is not ready, so that load
	// balancers notice. Default 5s; "off": not at all.
	Wait time.Duration `yaml:"wait" default:"5s" rule:"off"`

	// Grace is how long what is in flight may take after that. Default 30s.
	Grace time.Duration `yaml:"grace" default:"30s"`
}

// Upstream is one service that is guarded. A request passes fallback, bulkhead,
// retry, breaker and the timeout of a try, in this order.
type Upstream struct {
	// Endpoints are the URLs of the service's servers, used in turn: http,
	// https, or h2c for HTTP/2 without TLS, with a path that is put before that
	// of the request, if any. At least one, each once.
	Endpoints []Endpoint `yaml:"endpoints" rule:"needed"`

	// Timeouts bound how long an answer may take.
	Timeouts Timeouts `yaml:"timeouts"`

	// Bulkhead bounds the requests in flight. Without it there is no bound.
	Bulkhead *Bulkhead `yaml:"bulkhead"`

	// Retry makes requests again that failed. Without it none is.
	Retry *Retry `yaml:"retry"`

	// Breaker says when the upstream is taken for down. There always is one.
	Breaker Breaker `yaml:"breaker"`

	// Failure says which answers are failures.
	Failure Failure `yaml:"failure"`

	// Fallback answers what was refused or has failed. Without it, and for
	// failures that are responses, the client gets what there is: 503 with
	// Retry-After, or the response.
	Fallback *Fallback `yaml:"fallback"`

	// Ejection says what the breakers of endpoints do to the choice of one. Only
	// with the breaker's scope endpoint, where there always is one.
	Ejection *Ejection `yaml:"ejection"`
}

// Timeouts bound how long an answer may take: the time to its head. The body may
// take longer, as streams do.
type Timeouts struct {
	// Total covers all tries of a request, and the waits for a place and between
	// tries. Default 30s; "off": none.
	Total time.Duration `yaml:"total" default:"30s" rule:"off"`

	// PerTry covers one try, and makes a server that does not answer a failure.
	// At most Total. Default 10s, or Total if that is less; "off": none.
	PerTry time.Duration `yaml:"per-try" rule:"off"`
}

// Bulkhead bounds the requests in flight; see package bulkhead.
type Bulkhead struct {
	// Limit is how many requests may be in flight at a time. Default 25.
	Limit int `yaml:"limit" min:"1"`

	// MaxWait is how long a request may wait for a place. Default "off": it is
	// refused at once.
	MaxWait time.Duration `yaml:"max-wait" default:"off" rule:"off"`

	// MaxWaiting is how many requests may wait at a time. Only with MaxWait.
	// Default: Limit.
	MaxWaiting int `yaml:"max-waiting" min:"1"`
}

// Retry makes a request again that failed, where it may be processed twice (GET,
// HEAD, OPTIONS, TRACE, PUT, DELETE, or with an Idempotency-Key) or has not been
// processed; see package retry.
type Retry struct {
	// Attempts is how many tries a request has, the first included. Default 3.
	Attempts int `yaml:"attempts" min:"1"`

	// BaseDelay is the wait before the first retry; it doubles with every
	// further one. Default 100ms.
	BaseDelay time.Duration `yaml:"base-delay"`

	// MaxDelay is the longest wait. Default 10s, or BaseDelay if that is more.
	MaxDelay time.Duration `yaml:"max-delay"`

	// Jitter is the fraction of a wait that is left to chance. Default 1; "off": none.
	Jitter Fraction `yaml:"jitter" rule:"off"`

	// MaxRetryAfter is the longest wait that a Retry-After may ask for; an answer
	// that asks for more is passed on. Default 30s, or MaxDelay if that is more.
	MaxRetryAfter time.Duration `yaml:"max-retry-after"`

	// BudgetShare is how many retries each request is worth, over all requests:
	// with 20% there is one retry for five requests. Default 20%; "off": none.
	BudgetShare Fraction `yaml:"budget-share" default:"20%" rule:"off"`

	// BudgetPerSecond is how many retries a second there may be besides, for
	// upstreams with little traffic; at least one in BudgetWindow. Default 1;
	// "off": none.
	BudgetPerSecond Rate `yaml:"budget-per-second" default:"1" rule:"off"`

	// BudgetWindow is the span over which requests and retries are counted.
	// Default 10s.
	BudgetWindow time.Duration `yaml:"budget-window" default:"10s"`

	// MaxBody is the largest request body that is kept in memory to be sent
	// again; a request with a larger one has one try. Default 64KiB; "off": none.
	MaxBody Size `yaml:"max-body" default:"64KiB" rule:"off" max:"64MiB"`
}

// Scope is what a breaker stands for.
type Scope string

// ScopeUpstream and ScopeEndpoint are the scopes.
const (
	ScopeUpstream Scope = "upstream" // one breaker for all endpoints
	ScopeEndpoint Scope = "endpoint" // one for each
)

// Breaker says when a breaker trips, for how long, and how it recovers. Its
// fields are those of [fusebox.Config], which explains them.
type Breaker struct {
	// Scope is upstream, one breaker for all endpoints, or endpoint, one for
	// each. Default upstream.
	Scope Scope `yaml:"scope" default:"upstream" enum:"upstream,endpoint"`

	// Mode is enforce, shadow (judge, reject nothing) or off. Default enforce.
	Mode fusebox.Mode `yaml:"mode" default:"enforce" enum:"enforce,shadow,off"`

	// Window is the span over which outcomes are counted. Default 10s.
	Window time.Duration `yaml:"window"`

	// Buckets is the number of slices of Window. Default 10.
	Buckets int `yaml:"buckets" min:"1" max:"1048576"`

	// WindowCalls selects a window of the last so many outcomes instead of
	// Window. Default "off".
	WindowCalls int `yaml:"window-calls" default:"off" rule:"off" min:"1" max:"16777216"`

	// MinCalls is the number of outcomes in the window below which no rate rule
	// trips. Default 20, or WindowCalls if that is less.
	MinCalls int `yaml:"min-calls" min:"1"`

	// FailureRate trips when failures/outcomes is at or above it. Default 50%;
	// "off": never.
	FailureRate Fraction `yaml:"failure-rate" rule:"off"`

	// SlowAfter is the duration from which on an answer is slow. Default "off".
	SlowAfter time.Duration `yaml:"slow-after" rule:"off"`

	// SlowRate trips when slow/outcomes is at or above it. Only with SlowAfter.
	// Default 60%.
	SlowRate Fraction `yaml:"slow-rate"`

	// Consecutive trips after so many failures in a row. Default 20; "off": never.
	Consecutive int `yaml:"consecutive" rule:"off" min:"1"`

	// OpenFor is the first open period; every reopening doubles it. Default 1s.
	OpenFor time.Duration `yaml:"open-for"`

	// OpenForMax is the longest open period. Default 4s, or OpenFor if that is more.
	OpenForMax time.Duration `yaml:"open-for-max"`

	// OpenJitter scales each open period by a random factor from 1-OpenJitter to
	// 1+OpenJitter. Default 20%; "off": none.
	OpenJitter Fraction `yaml:"open-jitter" rule:"off"`

	// Probes is how many probes may be outstanding at a time. Default 3.
	Probes int `yaml:"probes" min:"1"`

	// CloseAfter is how many probes must succeed. Default: Probes.
	CloseAfter int `yaml:"close-after" min:"1"`

	// ReopenAfter is how many probes must fail. Default 1.
	ReopenAfter int `yaml:"reopen-after" min:"1"`

	// ProbeTimeout is how long a probe may take before it counts as failed.
	// Default 30s.
	ProbeTimeout time.Duration `yaml:"probe-timeout"`

	// StableAfter is how long a breaker must have stayed closed for its next trip
	// to begin at OpenFor again. Default: Window; "off": it always does.
	StableAfter time.Duration `yaml:"stable-after" rule:"off"`
}

// Failure says which answers are failures. An error (no connection, no answer
// in time) always is one; a client that leaves never is. Of gRPC, whose answers all
// have status 200, the status in the trailer decides: Canceled, Unknown,
// DeadlineExceeded, ResourceExhausted, Internal, Unavailable and DataLoss are
// failures.
type Failure struct {
	// Statuses are failures: 503, 5xx, 500-504. Default [5xx, 429].
	Statuses []Statuses `yaml:"statuses" default:"5xx,429"`

	// Except are not, whatever Statuses says. Default [501].
	Except []Statuses `yaml:"except" default:"501"`
}

// Fallback answers in the upstream's place what was refused or has failed. It has
// LastGood, or at most one of Body, File and Upstream, or both: the last good
// answer first. Status and Headers belong to Body and File.
type Fallback struct {
	// Status is that of the answer. Default 503; none where only an upstream or
	// the last good answer is one.
	Status int `yaml:"status" min:"200" max:"599"`

	// Headers are added to the answer, by name. Retry-After and Content-Length
	// are added by themselves.
	Headers map[string]string `yaml:"headers"`

	// Body is the answer, as it stands. Default: empty.
	Body string `yaml:"body" rule:"empty"`

	// File is the path of a file that holds the body, at most 16 MiB; a relative
	// one begins at the folder of the configuration file. It is absolute here.
	File string `yaml:"file"`

	// Upstream is the name of another upstream that answers, with its own
	// breaker and fallback.
	Upstream string `yaml:"upstream"`

	// LastGood keeps good answers and answers with them.
	LastGood *LastGood `yaml:"last-good"`
}

// LastGood keeps, in memory, the last good answer for each GET and the credentials
// it came with, and answers with it, and its age in the header Age.
type LastGood struct {
	// MaxAge is how old an answer may be.
	MaxAge time.Duration `yaml:"max-age" rule:"required"`

	// MaxSize bounds the memory of all answers kept of the upstream. Default 16MiB.
	MaxSize Size `yaml:"max-size" default:"16MiB" min:"1B" max:"16GiB"`
}

// WhenAllOpen says what becomes of a request when no endpoint would be chosen.
type WhenAllOpen string

// The choices when the breakers of all endpoints are open.
const (
	// Fail refuses it. RetryAfter is that of the endpoint that is first to probe.
	Fail WhenAllOpen = "fail"
	// Spread uses the endpoints in turn, as if all were closed.
	Spread WhenAllOpen = "spread"
	// LeastBad uses the endpoint with the lowest failure rate.
	LeastBad WhenAllOpen = "least-bad"
)

// Ejection says how many endpoints may be left out because their breakers are
// open, and what becomes of requests when all are.
type Ejection struct {
	// MaxShare is the share of the endpoints that may be left out at a time,
	// rounded down; the others are used, open or not. Default 100%.
	MaxShare Fraction `yaml:"max-share" default:"100%"`

	// AlwaysOne lets one endpoint be left out even where MaxShare is less than
	// one of them. Never the only one. Default false.
	AlwaysOne bool `yaml:"always-one" default:"false"`

	// WhenAllOpen is fail (refuse), spread (use all in turn) or least-bad (use the
	// one with the lowest failure rate). Default fail.
	WhenAllOpen WhenAllOpen `yaml:"when-all-open" default:"fail" enum:"fail,spread,least-bad"`
}

// Route sends the requests of a host and a path to an upstream.
type Route struct {
	// Host is the name of the request's host, without a port: api.example.com, or
	// *.example.com for every name below. Default: any.
	Host string `yaml:"host"`

	// Prefix is the beginning of the path, in whole segments: /pay is that of
	// /pay and /pay/new, not of /payments. Default "/".
	Prefix string `yaml:"prefix" default:"/"`

	// Upstream is the name of the upstream that answers.
	Upstream string `yaml:"upstream" rule:"required"`
}
