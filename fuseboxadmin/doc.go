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
//	GET  /api/history                   those that have been, and samples of what breakers counted
//	GET  /api/openapi.json              the description of all this
//
// Tests hold the description and the code together. [Path] writes a name into a
// path. A program protects further endpoints of its own with [Handler.Guard], and
// puts events of its own on the stream with [Handler.Publish].
//
// # Who may do what
//
// Whoever reaches the handler may read, the texts of last errors too. A write
// needs the bearer token, or a connection that [Handler].Trusted vouches for; a
// handler without either refuses every write. A page of another origin can neither write nor listen,
// and a request whose Host header is a name that is neither a loopback name nor
// one of [Handler].Hosts is refused, so that a page cannot come in through a
// DNS name of its own. Every attempt to write, one that is refused for its host
// or origin too, is a line in the log and an [AuditRecord]. Those that were refused
// are kept apart from the events, the same ones as one [Refusal]: who may not write
// cannot drive out of the history what others have done.
//
// # Overrides and time
//
// A mode is force-open, force-closed, shadow, enforce or off; a lift ends an
// override, a reset closes the breaker. "ttl" says how long an override holds;
// without it, until it is lifted. A client for people should always send one.
//
// Time acts lazily: when a ttl or an open period is over, a breaker reads so at
// once, but leaves its record, and so an event, with its next call. A client counts
// down by itself, to until and note.until of a breaker, against now of the
// answer: an open breaker reads half-open from until on, and an override has ended
// at note.until, from when a forced-open breaker is half-open and others are in the
// mode of their settings.
//
// # Events
//
// Ids of events increase by one. The handler keeps those of the last 6 h, at most
// 16,384 of them and 8 MiB of their data; a client that comes back with
// Last-Event-ID gets what it has missed. If that is no longer there, it gets an
// event "reset" instead: it has to read all again. A list and a history have the
// id of the last event before them, and "?last_event_id=" takes that up: list,
// then listen, and nothing is lost between. Events are
//
//	transition  a [Transition]
//	audit       an [AuditRecord] of a write that was done
//	list        breakers have come or gone since somebody listed them
//	reset       events are missing
//
// and those of the program. "list" comes within a second, and once until
// somebody lists the breakers. Every 15 s without an event there is a comment. A
// reader that takes nothing for 10 s, or whose next event is gone, is
// dropped; it never makes a breaker wait.
//
// Up to 64 streams are open at a time: 48 by readers without the token, 16 of them
// from one IPv4 address or one IPv6 network of 64 bits. So others find a place where
// somebody takes many, and whoever has the token always does. (A browser's
// EventSource cannot send the token; fetch can.) Of lists 8 are sent at a time, of
// histories 2, and of each one more to who has the token.
//
// # What it costs
//
// [History] has samples: what all breakers together counted in each 10 s.
// They are taken while somebody looks, since the handler holds no goroutine: a span
// in which nobody did is one sample, from which only its average is known. A
// program that calls [Handler.Sample] on a ticker has them for all of the 6 h. What
// one breaker counts, a client that wants it samples from the list.
package fuseboxadmin
