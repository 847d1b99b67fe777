// Package browser holds the tests of the operators' page in a real browser, and
// the command that takes the picture of it:
//
//	go test -run Pictures -picture ../../docs/page.png
//
// They need Chromium, which Debian has as "chromium". Where there is none they
// are skipped, unless the variable CI is set. -shots FOLDER writes pictures of
// three sizes in both themes.
package browser
