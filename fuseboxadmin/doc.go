// Package fuseboxadmin lets an operator look at the breakers of a running
// program, and override them: a [Handler] is an admin API, JSON over HTTP, that
// a program mounts as it would net/http/pprof.
//
//	GET  /api/breakers                  all, the most severe first
//	GET  /api/breakers/{name}           one, with its settings, rules and last records
//	POST /api/breakers/{name}/override  {"mode", "reason", "by", "ttl"}
//	POST /api/breakers/{name}/lift      {"reason", "by"}
//	POST /api/breakers/{name}/reset     {"reason", "by"}
//	GET  /api/events                    records of breakers and audit records, as server-sent events
//
// The file openapi.json beside this text describes it; tests hold the two
// together. [Path] writes a name into a path.
//
// # Who may do what
//
// Whoever reaches the handler may read, the texts of last errors too. A write needs the bearer token, or a
// connection that [Handler].Trusted vouches for; a handler without either
// refuses every write. A page of another origin can neither write nor listen,
// and a request whose Host header is a name that is neither a loopback name nor
// one of [Handler].Hosts is refused, so that a page cannot come in through a
// DNS name of its own. Every attempt to write that gets past that is a line in
// the log and an [AuditRecord].
//
// # Events
//
// Ids of events increase by one. The handler keeps the last 512; a client that
// comes back with Last-Event-ID gets what it has missed. If that is no longer
// there, it gets an event "reset" instead: it has to list the breakers again.
// A list has the id of the last event before it, and "?last_event_id=" takes
// that up: list, then listen, and nothing is lost between. Every 15 s without
// an event there is a comment. A reader that takes nothing for 10 s, or falls
// 512 events behind, is dropped; it never makes a breaker wait. Up to 64
// streams are open at a time.
package fuseboxadmin
