// Package config reads the configuration of the program: a YAML file, the
// environment and flags, in rising order of precedence, over the defaults.
//
//	c, err := config.Load("fusebox.yaml", os.Environ(), nil)
//
// # The file
//
// [File] is the whole of it; the comments of the types give units and defaults.
// Reading is strict. An unknown or repeated key, a wrong type, a value out of
// range, a contradiction, a name that nothing has: each is an [*Error] with
// file, line, column, the line itself, the key's path, the value and the rule,
// and [Errors] holds all of them at once. Only a file that is no YAML at all is
// reported by its first error.
//
// Durations are Go's, with a unit: 250ms, 1m30s. Fractions are written as 50% or
// 0.5. Sizes have a unit: 64KiB, 1MB. "off" switches off what can be. A section
// that is given with nothing in it is an error; {} stands for its defaults.
//
// A string may hold ${VAR}, a variable of the environment, and ${file:PATH}, the
// contents of a file without the line breaks at its end; $${ stands for ${. Within
// {…} and […] YAML wants quotes around them. A relative PATH begins at the folder of the configuration file. What is
// substituted is not looked into again. What came from a file is a secret:
// errors and listings show where it comes from instead.
//
// Anchors, aliases and merge keys (<<) may be used; tags and further documents
// may not. At the top level, keys that begin with x- are not read: a place for
// anchors.
//
// # Bounds
//
// A file has at most 1 MiB, 10 000 keys and 64 levels, and expands to at most
// 20 000 values; reading ends after 1000 errors. What is more is refused within a
// second or two, whatever it holds.
//
// # Origins
//
// Every value keeps where it came from: [Config.Effective]. The environment sets
// what the file can set: upstreams.payments.breaker.open-for is
// FUSEBOX_UPSTREAMS_PAYMENTS_BREAKER_OPEN_FOR, a list has commas. An upstream must
// exist for that, in the file or by a flag.
package config
