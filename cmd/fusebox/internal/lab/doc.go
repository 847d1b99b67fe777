// Package lab is `fusebox lab`: experiments that show what a setting of a
// breaker does, beside theory and beside other breakers.
//
// The breakers are the real ones, this project's and gobreaker's, in a time
// that jumps; package sim has both. An experiment fills a report, package
// report writes it: aligned text, JSON, plots, a page. The same seed gives the
// same output, byte for byte; only an experiment told to use the machine's
// clock or sockets is free of that.
//
// # To add an experiment
//
// Write a function that returns an [Experiment], in a file of its own, and name
// it in the list of [Experiments].
//
//	func recovery() Experiment {
//		var o recoveryOptions
//		return Experiment{
//			Name:  "recovery",
//			Title: "how long a breaker takes to close when calls succeed now and then",
//			Flags: func(f *pflag.FlagSet) {
//				f.DurationVar(&o.open, "open", time.Second, "open period")
//			},
//			Run: func(ctx context.Context, p *Params) (*report.Report, error) {
//				if err := p.Positive("open", o.open); err != nil {
//					return nil, err
//				}
//				r := p.Report()
//				…
//				return r, nil
//			},
//		}
//	}
//
// Flags declares what can be changed, with the values that the experiment's
// default run has, and where they go: variables of the function, never of the
// package. Their values become the report's parameters without more ado.
// Nothing else decides about the outcome but [Params.Seed], by way of
// [Params.Rand].
//
// Run validates the flags first; an error about them is made by [Params.Bad]. It
// asks the context now and then whether it should end ([sim.Loop.Run] does), and
// says how far it is with [Params.Progress], which costs nothing while nobody
// has to wait. By default it takes seconds.
//
// The report, from [Params.Report], wants tables ([report.Report.Table]; the
// columns say which type their cells have), checks ([report.Report.Statistical]
// against theory, 4.5 standard errors; [report.Report.Near] where there is
// nothing random), plots, and for every table what it teaches:
// [report.Table.Teach] takes the sentence, with its numbers printed from the
// table, and a function that tells from the table whether it is so. The tests of
// this package run all experiments and hold every sentence to its table: its
// numbers must stand there, and it must stop being true when the table is
// spoilt. A check that fails makes the program exit with 1.
//
// Last, give the experiment a section in docs/lab.md, with a place for each table
// ([report.UpdateMarkdown]) and a paragraph that says what to do about it, and
// have the places filled by `fusebox lab NAME --markdown docs/lab.md`.
//
// What is not an experiment's plain run (arguments, a terminal to talk to) goes
// into [Experiment.Setup], which may change the finished command.
package lab
