// Package errtree looks for errors in the tree that wrapping and joining make.
package errtree

// Find returns the first error of err's tree that is a T, outermost first, in
// the order of [errors.As]. T is an interface. It allocates nothing: policies
// ask at every failure.
func Find[T any](err error) (found T, ok bool) {
	Walk(err, func(err error) bool {
		found, ok = err.(T)
		return ok
	})
	return found, ok
}

// Walk visits the errors of err's tree, outermost first, until visit returns
// true, and reports whether it did.
func Walk(err error, visit func(error) bool) bool {
	for err != nil {
		if visit(err) {
			return true
		}
		switch x := err.(type) { //nolint:errorlint // this is what walks the tree
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				if Walk(e, visit) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// Refused reports whether err is a refusal by a policy: the first error of its
// tree that has a method Rejected decides, as in fusebox.Rejected.
func Refused(err error) bool {
	r, ok := Find[interface{ Rejected() bool }](err)
	return ok && r.Rejected()
}
