package main

import (
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// plainMode, as the first of four arguments, makes this program a plain reverse
// proxy, what fusebox is compared with. Then come pooled or unpooled, the address
// to listen on, and the URL of the upstream.
const (
	plainMode = "plain-proxy"
	pooled    = "pooled"
	unpooled  = "unpooled"
)

// isPlain reports whether the arguments of the program ask for that mode.
func isPlain(args []string) bool { return len(args) == 5 && args[1] == plainMode }

// servePlain proxies until the process ends.
func servePlain(buffers, address, upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	handler := &httputil.ReverseProxy{
		Transport: plainTransport(),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
		},
	}
	switch buffers {
	case pooled:
		handler.BufferPool = new(bufferPool)
	case unpooled:
	default:
		return errors.New(buffers + " is neither " + pooled + " nor " + unpooled)
	}
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

// plainTransport has those settings of fusebox's transport that matter to plain
// HTTP/1.1.
func plainTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        90 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 1 << 20,
		WriteBufferSize:        16 << 10,
	}
}

// bufferPool hands out buffers of the size that httputil.ReverseProxy makes
// without one.
type bufferPool struct{ pool sync.Pool }

func (b *bufferPool) Get() []byte {
	if buffer, ok := b.pool.Get().(*[32 << 10]byte); ok {
		return buffer[:]
	}
	return make([]byte, 32<<10)
}

func (b *bufferPool) Put(buffer []byte) { b.pool.Put((*[32 << 10]byte)(buffer)) }
