// Package ctl is "fusebox ctl": it looks at the breakers of running programs,
// and overrides them, through the API of package fuseboxadmin.
//
// # Targets
//
// A target is a place where the API is served:
//
//	http://10.0.0.7:9901        also https://, also with a path before /api
//	10.0.0.7:9901               the same as with http://; port 9901 if there is none
//	unix:/run/fusebox.sock      a unix socket
//	dns+http://payments:9901    every address that the name has, asked for once, at the start
//
// Targets are asked at the same time, each with a timeout of its own, and one
// that fails takes nothing from the others. Redirects are not followed, proxies of the environment not
// used, and the token is sent with writes and for event streams only. A name in a URL is sent as the
// Host header, which a program has to know; dns+http sends the address, which
// it always does.
//
// # Output
//
// What a server says is made safe for a terminal: a character that does not
// print is written as Go would in a string, a name with such a character in
// quotation marks. Times are local, with their zone; spans are reckoned by the clock of
// the server.
//
// With -o json, ls, get, reload and the writes print one object, and failures
// are in it:
//
//	{"results": [{
//	  "target": "http://10.0.0.7:9901",   as asked
//	  "via":    "dns+http://payments:9901", where the address came from; else absent
//	  "name":   "payments",               of the breaker; absent with ls and reload
//	  "status": 404,                      of an answer that refuses; else absent
//	  "error":  "there is no breaker …",  absent where it was done
//	  "data":   {…}                       absent where it was not
//	}]}
//
// In data, ls has a fuseboxadmin.List, get a Detail, a write the Breaker
// afterwards, and reload the answer of the program. There is a result for every
// target and name, in the order in which they were given. events prints an
// object a line, with target, via, id, event and data.
//
// # Exit codes
//
// 0: all was done. 1: nothing was. 2: wrong usage; nothing was tried. 3: some
// was done, and some failed. The error that a command returns has a method
// ExitCode for it.
package ctl
