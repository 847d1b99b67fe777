package fuseboxadmin

import "github.com/fusebox-go/fusebox"

// Limits that tests look at.
const (
	MaxEvents  = maxEvents
	MaxStreams = maxStreams
	MaxBody    = maxBody
	Heartbeat  = heartbeat
	Patience   = patience
)

// Routes returns the routes as "METHOD path".
func Routes() (all []string) {
	for _, rt := range routes {
		all = append(all, rt.method+" "+rt.path)
	}
	return all
}

// FieldsOf returns the fields of the body of an action.
func FieldsOf(action string) []string { return fieldsOf(action) }

// RulesOf returns the rules of settings.
func RulesOf(c fusebox.Config, n fusebox.Counts) []Rule { return newRules(&c, n) }
