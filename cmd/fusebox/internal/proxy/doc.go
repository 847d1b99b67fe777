// Package proxy is the reverse proxy of the program: what the configuration's
// upstreams and routes say, as an [http.Handler].
//
//	p, err := proxy.New(c, proxy.Options{Logger: logger})
//	server := &http.Server{Handler: p}
//
// # The way of a request
//
// Of the routes that match host and path the one with the most specific host, and
// then the longest prefix, names the upstream. In it a request passes, outermost
// first:
//
//	fallback → bulkhead → total timeout → retry → breaker → timeout of a try → endpoint
//
// The total timeout begins before the wait for a place. Every try is one outcome of
// one breaker, and chooses its endpoint anew: in turn, one that this request has not
// tried before one that it has. With a breaker for each endpoint the choice asks
// them: one that is open is passed over, one whose open period is over gets
// a probe. A place in the bulkhead is held until the answer is over, a stream or an
// upgraded connection until its end.
//
// A breaker judges an answer by its status, at the end of its body: a connection
// that breaks in the middle is a failure. An upgrade is judged at its 101. A client
// that leaves, and a request whose own body fails or keeps an attempt waiting, are
// ignored, and no fallback answers them. So is one whose head is too large for a server,
// and a 508 where the client has said that the request has passed a proxy of this kind.
//
// An answer of gRPC (Content-Type application/grpc, status 200) is judged by its
// grpc-status as well, in the trailer or the head: Canceled, Unknown, DeadlineExceeded,
// ResourceExhausted, Internal, Unavailable, DataLoss, one that gRPC does not have and
// none at all are failures, the others are answers. A fallback stands in for one that
// fails at its head.
//
// # Retries
//
// A request is made again if it may be processed twice, or has certainly not
// been processed, as package fuseboxhttp has it, and its body can be sent
// again. The body of the first try is passed on as it comes, and recorded up to
// retry.max-body; the next try sends the recording, and then what still comes. Where
// the body turns out to be larger, there is no next try. A fallback to another
// upstream goes by the same rules, and records up to 64 KiB where there is
// no retry. So much is also recorded where HTTP/2 is spoken: a server that closes a
// connection, or refuses a stream, says what it has not processed, and that is sent
// again, within the same try, as often as it takes. net/http does so too where a stream
// is reset with PROTOCOL_ERROR, which does not say that nothing was processed. While the
// server answers nobody, a try makes 8 connections at most.
//
// # Answers of the proxy's own
//
//	400, 408  the request is malformed, or its body failed; it did not come in time
//	404, 405  no route; CONNECT
//	431       the head of the request is larger than the server takes over HTTP/2
//	508       the request has passed ten proxies of this kind: an upstream is the proxy itself
//	499       the client left before there was an answer (in the access log only)
//	502, 504  no connection, no answer; none in time
//	503       refused by a breaker or the bulkhead: Retry-After, and for a
//	          breaker Fusebox-Breaker: payments; state=open; cause=failure-rate
//
// Their bodies are one line of text, with the upstream's name and nothing else of
// what is inside. They are the same for gRPC: its clients take 502, 503 and 504 for
// Unavailable, and 404 for Unimplemented.
//
// An answer that begins before the body of the request is over, over HTTP/1, closes the
// connection when it is over. Where the proxy answers by itself, it waits two seconds
// for what is left of a body.
//
// # Headers
//
// Nothing that a client says about where it comes from is believed: Forwarded,
// X-Forwarded-For, -Host and -Proto are replaced by what the proxy has seen. Via is
// added to. Hop-by-hop headers end here, but for TE: trailers and upgrades. The
// Host of a request is that of the endpoint, so that servers far away know
// themselves; the client's is in X-Forwarded-Host. The query is passed on as it
// stands, and so is the path, behind that of the endpoint; a path that climbs above
// its root is refused, and routes look at it without its dot segments. An upgrade goes
// over HTTP/1; where HTTP/2 alone is spoken it is left out, as a server may ignore it.
//
// # What the server has to be told
//
// For HTTP/2 without TLS, which gRPC uses, [http.Server].Protocols needs
// SetUnencryptedHTTP2 beside SetHTTP1. ReadHeaderTimeout and IdleTimeout ought to be
// set; ReadTimeout and WriteTimeout not, they would end streams. A request's
// body that fails half way closes its connection.
package proxy
