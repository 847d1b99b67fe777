// Command bubble uses sim.Bubble in a program that is no test, and tells what a
// user of the program would notice.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/fusebox-go/fusebox/cmd/fusebox/internal/lab/sim"
)

func main() {
	for range 2 {
		sim.Bubble(func(*sim.Loop) {
			start := time.Now()
			time.Sleep(time.Hour)
			fmt.Println(time.Since(start))
		})
	}
	flag.VisitAll(func(f *flag.Flag) { fmt.Println("flag", f.Name) })
	fmt.Println(os.Args[1:])
	defer func() { fmt.Println("recovered", recover() != nil) }()
	sim.Bubble(func(*sim.Loop) { panic("no") })
}
