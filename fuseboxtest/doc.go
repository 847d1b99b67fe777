// Package fuseboxtest is for tests of programs that use fusebox: a clock that
// moves when told, a simulated dependency with outages, and a driver that
// calls it through a breaker at a fixed pace and reports what came of it.
//
// With this outage the breaker must open within two seconds, and close within
// five after it ends:
//
//	var clock fuseboxtest.Clock
//	breaker := fusebox.New("payments", fusebox.Config{OpenJitter: -1, Now: clock.Now})
//	outage := fuseboxtest.Outage{From: 10 * time.Second, To: 40 * time.Second}
//	payments := &fuseboxtest.Dependency{Clock: &clock, Outages: []fuseboxtest.Outage{outage}}
//	report, err := fuseboxtest.Drive(ctx, breaker, payments, fuseboxtest.Load{For: time.Minute})
//	if err == nil {
//		err = errors.Join(
//			report.Within(fusebox.Open, outage.From, 2*time.Second),
//			report.Within(fusebox.Closed, outage.To, 5*time.Second))
//	}
//
// A minute of this takes about a millisecond: nothing waits. The same without
// a Clock runs on package time: inside a testing/synctest bubble as fast,
// outside of one for a real minute.
//
// Set Config.Rand, or OpenJitter to -1, where a test compares instants: open
// periods are jittered.
package fuseboxtest
