// Package fuseboxhttp puts breakers around HTTP: [Transport] into a client,
// [Handler] into a server.
//
//	client := &http.Client{Transport: &fuseboxhttp.Transport{}} // one breaker a host
//
// With a timeout for each attempt, without which there is little for a breaker
// to see, and retries outside the breaker:
//
//	client := &http.Client{Transport: &fuseboxhttp.Transport{
//		Timeout: 2 * time.Second,
//		Retry:   retry.New(retry.Config{}),
//	}}
//
// # Which requests are made again
//
// A Transport with Retry makes a request again after an error, after a response
// that Classify calls a failure, and after status 408, if both hold:
//
//   - It may be processed twice: its method is GET, HEAD, OPTIONS, TRACE, PUT
//     or DELETE, or it has a header Idempotency-Key or X-Idempotency-Key. Any
//     other is made again only where it has certainly not been processed: no
//     connection came about, or the status is 408 or 429.
//   - Its body can be had again: there is none, or [http.Request].GetBody is
//     set, as [http.NewRequest] does for a buffer or a reader in memory.
//
// How often and when is for the policy to say; it honours Retry-After. A
// rejection by the breaker ends the attempts. The request is not changed: an
// attempt is a shallow copy with a body of its own, and begins when the one
// before no longer reads its body. Before the wait, a response that will be
// followed by another attempt is read, up to 64 KiB and for 50 ms, so that its
// connection can be used again, and closed, which must end a Read in progress. The last response is returned,
// open, even if its status is a failure.
package fuseboxhttp
