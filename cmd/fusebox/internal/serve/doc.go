// Package serve runs the proxy as a program: it binds the listeners, serves the
// admin API beside the proxy, reloads the configuration, and drains before it
// ends.
//
// # Order
//
// At the start: the configuration is read and checked whole; all addresses are
// bound; the access log is opened; then everything serves. If one of them fails,
// nothing has served.
//
// At the end, on SIGTERM or SIGINT: /readyz fails; for the time of
// shutdown.wait everything goes on, but connections are closed behind the
// answer, so that clients move elsewhere; the proxy stops accepting; what is in
// flight has shutdown.grace to finish, streams and upgraded connections
// included; the admin listener goes last.
package serve
