// Package page is the operator's page over a fuseboxadmin.Handler: what is open,
// since when, why, what it costs, when it tries again, who did it.
//
//	admin := &fuseboxadmin.Handler{Token: token}
//	mux.Handle("/admin/", http.StripPrefix("/admin", page.Handler(admin)))
//
// The page is embedded: plain ES modules, which are sent as one script, a style
// sheet and three icons, under 100 kB as they are transferred. It loads nothing from
// elsewhere, and its content policy lets it load nothing. Everything that it shows comes from the API,
// relative to its own address, so any prefix will do that ends in a slash.
//
// A breaker has an address of its own, "#/breaker/" and its escaped name.
//
// [Report] writes the same page as one file, with what the API says at that
// moment in it, to be attached to an incident.
package page
