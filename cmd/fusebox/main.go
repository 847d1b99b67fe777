// Command fusebox guards services with circuit breakers: a proxy for programs in
// any language, and what an operator needs beside it.
package main

import (
	"os"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr)) }
