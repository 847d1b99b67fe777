// Package errtree looks for errors in the tree that wrapping and joining make.
package errtree

// Find returns the first error of err's tree that is a T, outermost first, in
// the order of [errors.As]. T is an interface. It allocates nothing: policies
// ask at every failure.
func Find[T any](err error) (found T, ok bool) {
	for err != nil {
		if found, ok = err.(T); ok {
			return found, true
		}
		switch x := err.(type) { //nolint:errorlint // this is what walks the tree
		case interface{ Unwrap() error }:
			err = x.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range x.Unwrap() {
				if found, ok = Find[T](e); ok {
					return found, true
				}
			}
			return found, false
		default:
			return found, false
		}
	}
	return found, false
}

// Refused reports whether err is a refusal by a policy: the first error of its
// tree that has a method Rejected decides, as in fusebox.Rejected.
func Refused(err error) bool {
	r, ok := Find[interface{ Rejected() bool }](err)
	return ok && r.Rejected()
}
