// Package fuseboxgrpc puts circuit breakers into gRPC: interceptors for
// clients and servers, for unary calls and for streams.
//
//	var breakers fuseboxgrpc.Client // one breaker a target
//	conn, err := grpc.NewClient(target, append(breakers.DialOptions(), credentials)...)
//
//	var breakers fuseboxgrpc.Server // one breaker a method
//	server := grpc.NewServer(breakers.ServerOptions()...)
//
// # What is one call
//
// A unary call is one, and has one outcome, whatever gRPC does below the
// interceptor: the retries and the hedging of a service config, transparent
// retries, and the wait of grpc.WaitForReady are parts of it.
//
// A stream is one call too, judged at its end. For a client that is the status
// (RecvMsg returns io.EOF or an error), the one answer of a method that does
// not stream its answers, an error of SendMsg, or the end of the context, also
// if the caller never touches the stream again. CloseSend is not the end. For
// a server it is the return of the handler. A probe's lease begins anew with
// the head and with each message, received or sent; a client sees the head when
// the program asks for it or, while it is a probe, waits for the first message.
// Config.SlowAfter judges what a stream takes to that head or first message,
// and a stream that has neither as a whole: how long it then goes on says
// nothing. Where streams live for hours, set JudgeHead.
//
// To hear of a context that ends, a client adds gRPC's OnFinish, which is
// marked experimental there, to the call options. An interceptor inside that
// keeps them to itself hides the end of a stream that nobody touches again: it
// is not counted, and a probe's slot is free when its lease ends.
//
// # Outcomes
//
// A status is judged by its code, as [Classify] says: "not found" is an
// answer. Options and Config.Classify can judge otherwise. A message that the
// SendMsg of a client's stream cannot encode, or finds too large, is the
// program's own fault: its error is marked with fusebox.Ignore for the breaker,
// not for the caller. Of a unary call nobody can tell it from the server's
// Internal and ResourceExhausted, which are failures.
//
// # Rejections
//
// A rejected call ends with the status Unavailable, whose message is the text
// of the *fusebox.OpenError; if it is known when the breaker probes, a
// RetryInfo says so (see [RetryAfter]). In the process that rejects, the error
// also matches fusebox.ErrOpen and is an *fusebox.OpenError to errors.As, so
// that policies around the call know a refusal. Over the wire go the status and
// the RetryInfo: to a client, a server that rejects is a failure.
package fuseboxgrpc
