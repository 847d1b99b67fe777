package serve

import (
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"
)

// proxyServer serves the proxy: HTTP/1.1, and HTTP/2 without TLS, which gRPC
// wants. It has no time limit for a whole request or answer, for streams have
// none; what bounds them is the upstream's settings.
func proxyServer(h http.Handler, draining *atomic.Bool, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if draining.Load() && r.Header.Get("Upgrade") == "" {
				w.Header().Set("Connection", "close") // HTTP/2 makes it GOAWAY
			}
			h.ServeHTTP(w, r)
		}),
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// A client that is gone without a word, behind a stream, is found out.
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: 250, SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// adminServer serves the admin handler. The answers' own time limits are the
// handlers': an event stream has none.
func adminServer(h http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler:           h,
		Protocols:         new(http.Protocols),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	s.Protocols.SetHTTP1(true)
	return s
}
