// Package report is what an experiment says: tables with typed columns, what
// they teach, plots and checks; and how that is written for people and for
// programs.
//
// Everything is written in the order it was added, and nothing in it depends on
// when or where: the same report is the same bytes.
package report
