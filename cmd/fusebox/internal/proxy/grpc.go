package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// grpcError is the outcome of a gRPC call that shows its server unwell.
type grpcError string

// Error names the status.
func (e grpcError) Error() string { return "gRPC: " + string(e) }

// check finds fault with an answer that is over. Answers of gRPC are all HTTP 200: what
// became of the call stands in the trailer or, where there is nothing else, in the head.
func check(resp *http.Response) error {
	if !isGRPC(resp) {
		return nil
	}
	status := resp.Trailer.Get("Grpc-Status")
	if status == "" {
		status = resp.Header.Get("Grpc-Status")
	}
	switch code, err := strconv.Atoi(status); {
	case status == "" && resp.ContentLength == 0:
		return nil // there may be trailers yet, for all that its head says
	case status == "":
		return grpcError("no status")
	case err != nil:
		return grpcError("status " + strconv.Quote(status))
	default:
		return grpcFault(code)
	}
}

// grpcFault returns what a status says against the server: that it is down, overloaded
// or broken. The other statuses are answers. Where the client has left, the breaker
// ignores what is said here: its Canceled is not the server's.
func grpcFault(code int) error {
	names := [...]string{1: "Canceled", 2: "Unknown", 4: "DeadlineExceeded", 8: "ResourceExhausted", 13: "Internal", 14: "Unavailable", 15: "DataLoss", 16: ""}
	switch {
	case code < 0 || code >= len(names): // is Unknown to clients
		return grpcError("status " + strconv.Itoa(code))
	case names[code] == "":
		return nil
	default:
		return grpcError(fmt.Sprintf("status %d (%s)", code, names[code]))
	}
}

// isGRPC reports whether an answer is one of gRPC. That of gRPC-Web has its outcome in
// the body, which nothing here reads.
func isGRPC(resp *http.Response) bool {
	rest, ok := strings.CutPrefix(resp.Header.Get("Content-Type"), "application/grpc")
	return ok && resp.StatusCode == http.StatusOK && (rest == "" || rest[0] == '+' || rest[0] == ';')
}
